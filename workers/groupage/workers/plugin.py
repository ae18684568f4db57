"""`GroupagePlugin`: everything that a Temporal client or worker needs to run Groupage, in one line.

    client = await Client.connect("localhost:7233", plugins=[GroupagePlugin(settings)])
    worker = Worker(client, task_queue="groupage")          # inherits the plugin

Beside workflows and activities of your own, in your own worker.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from groupage.activities.registry import Context, build_activities
from groupage.workers.settings import Settings
from groupage.workflows import BatchJob, ProviderBatch, Sweep
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

WORKFLOWS: tuple[type, ...] = (BatchJob, ProviderBatch, Sweep)

PASSED_THROUGH = ("groupage.schemas", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")
"""Not imported anew for each workflow run: a model module that is doubles time and memory (temporal.md, 3)."""


class Role(StrEnum):
    """What a worker process takes on."""

    all = "all"
    workflows = "workflows"
    activities = "activities"


def workflow_runner() -> SandboxedWorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


class GroupagePlugin(SimplePlugin):
    """Data converter, workflows and activities. Connections to store and providers close with the worker."""

    def __init__(self, settings: Settings, *, role: Role = Role.all, spool_dir: Path | None = None) -> None:
        self.context = Context(settings.activity_settings(spool_dir))

        @asynccontextmanager
        async def until_stopped() -> AsyncGenerator[None, None]:
            try:
                yield
            finally:
                await self.context.close()

        activities: list[Callable[..., Any]] = (
            [] if role is Role.workflows else build_activities(self.context.settings, context=self.context)
        )
        super().__init__(
            "groupage",
            data_converter=pydantic_data_converter,
            workflows=[] if role is Role.activities else WORKFLOWS,
            activities=activities,
            workflow_runner=workflow_runner(),
            run_context=until_stopped,
        )
