"""`GroupagePlugin`: everything that a Temporal client or worker needs to run Groupage.

    plugin = GroupagePlugin(settings)
    client = await Client.connect("localhost:7233", plugins=[plugin])
    worker = Worker(client, task_queue=await plugin.task_queue(client))          # inherits the plugin

Beside workflows and activities of your own, in your own worker.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog
from groupage.activities.registry import Context
from groupage.client.connection import task_queue_of
from groupage.schemas.errors import StoreError
from groupage.store.known import tell_providers
from groupage.workers.namespace import register_search_attributes
from groupage.workers.settings import Settings
from groupage.workflows import BatchJob, ProviderBatch, Sweep
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

log = structlog.get_logger(__name__)

WORKFLOWS: tuple[type, ...] = (BatchJob, ProviderBatch, Sweep)

PASSED_THROUGH = ("groupage.schemas", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")
"""Not imported anew for each workflow run: a model module that is doubles time and memory."""


class Role(StrEnum):
    """What a worker process takes on."""

    all = "all"
    workflows = "workflows"
    activities = "activities"


def workflow_runner() -> SandboxedWorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


class GroupagePlugin(SimplePlugin):
    """Data converter, workflows and activities. Connections to store and providers close with the worker.

    Before a worker takes any work, the search attributes that the namespace lacks are registered, and the store is
    told what providers are known here.
    """

    def __init__(self, settings: Settings, *, role: Role = Role.all, spool_dir: Path | None = None) -> None:
        self.settings = settings
        self.context = Context(settings.activity_settings(spool_dir))

        @asynccontextmanager
        async def until_stopped() -> AsyncGenerator[None, None]:
            try:
                yield
            finally:
                await self.context.close()

        self._runs_activities = role is not Role.workflows
        activities: list[Callable[..., Any]] = []
        if role is not Role.workflows:
            # Here, because a worker of workflows alone needs none of what they import.
            from groupage.activities.all_activities import build_activities

            activities = build_activities(self.context)
        super().__init__(
            "groupage",
            data_converter=pydantic_data_converter,
            workflows=[] if role is Role.activities else WORKFLOWS,
            activities=activities,
            workflow_runner=workflow_runner(),
            run_context=until_stopped,
        )

    async def task_queue(self, client: Client) -> str:
        """The queue for the worker: where `Groupage.connect()` with the same settings starts its jobs."""
        return await task_queue_of(client, self.settings, self.context.store)

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002 - its name
        """Called by the worker. Raises GroupageError where attributes are missing and may not be registered."""

        async def registered(worker: Worker) -> None:
            await register_search_attributes(worker.client)
            if self._runs_activities:
                await self._tell_providers()
            await next(worker)

        await super().run_worker(worker, registered)

    async def _tell_providers(self) -> None:
        """Clients go by it. A store that cannot be reached now is told by the next worker; jobs will say what is wrong."""
        try:
            await asyncio.to_thread(tell_providers, self.context.store, self.context.known_providers())
        except StoreError as error:
            log.warning("providers_not_told", error=str(error))
