"""What of a running job fails again and again, as Temporal itself shows it: no worker has to answer.

A job's own state tells what its code knows. An activity that is retried, a workflow task that fails and a step that
somebody paused are known to the server alone; a shard's pause, to its workflow.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from groupage.schemas import Health, JobStatus
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowQueryFailedError
from temporalio.service import RPCError

SHARDS_LOOKED_AT = 20
"""A call for each of them; the first ones show what is the matter."""
SHOWN = 5
FAILING_ATTEMPTS = 3
"""So often a call may fail before that is more than the network's weather."""
LAST_EVENTS = 10
CALL_TIMEOUT = timedelta(seconds=5)

_METADATA = "__temporal_workflow_metadata"
_PAUSING = "**Pausing**: "
_WAITS = "await_batch"
"""Its attempts are looks: they "fail" as long as the batch runs."""
_WAITING = "waiting"
"""Type of failures that mean: not yet."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One step of the job or of a shard. `fails` is false where it only waits; `code` where the workflow's code fails."""

    text: str
    fails: bool = False
    code: bool = False


async def find_troubles(client: Client, job: WorkflowExecutionDescription, *, ask: bool) -> list[Trouble]:
    """Of the job and its first running shards. `ask`: also those shards that only a worker can answer for."""
    found = await _of_workflow(client, job, "the job")
    query = f"WorkflowId STARTS_WITH '{job.id}/' AND ExecutionStatus = 'Running'"
    try:
        ids = sorted([shard.id async for shard in client.list_workflows(query, limit=SHARDS_LOOKED_AT)])
    except RPCError:
        return found
    shards = await asyncio.gather(*(_of_shard(client, shard, shard.removeprefix(f"{job.id}/"), ask) for shard in ids))
    return found + [trouble for troubles in shards for trouble in troubles]


def shown(troubles: list[Trouble]) -> list[str]:
    """A sentence for each, the worst first; of many the first ones."""
    worst = sorted(troubles, key=lambda trouble: (not trouble.code, not trouble.fails))
    more = len(worst) - SHOWN
    return [trouble.text for trouble in worst[:SHOWN]] + ([f"and {more} more"] if more > 0 else [])


def with_troubles(status: JobStatus, troubles: list[Trouble]) -> JobStatus:
    """The status of a running job, whose health heeds what it cannot know of itself."""
    if any(trouble.code for trouble in troubles):
        return status.model_copy(
            update={
                "health": Health.stuck,
                "reason": "its workflow code fails: nothing goes on until workers run code that works",
                "next_step": "mend or upgrade the code and restart the workers: nothing is lost, it goes on by itself; "
                "docs/triage.md, Workflow code that fails",
            }
        )
    if status.health is Health.on_track and any(trouble.fails for trouble in troubles):
        return status.model_copy(update={"health": Health.at_risk})
    return status


async def _of_shard(client: Client, workflow_id: str, name: str, ask: bool) -> list[Trouble]:
    handle = client.get_workflow_handle(workflow_id)
    try:
        described = await handle.describe(rpc_timeout=CALL_TIMEOUT)
        found = await _of_workflow(client, described, name)
        if found or described.raw_description.pending_activities or not ask:
            return found
        # Between two tries it waits on a timer, which nothing shows but its own words.
        details = await handle.query(_METADATA, result_type=WorkflowMetadata, rpc_timeout=CALL_TIMEOUT)
    except (RPCError, WorkflowQueryFailedError):
        return []
    first = details.current_details.partition("\n")[0]
    return [Trouble(f"{name} pauses: {first.removeprefix(_PAUSING)}")] if first.startswith(_PAUSING) else []


async def _of_workflow(client: Client, described: WorkflowExecutionDescription, name: str) -> list[Trouble]:
    found = list(_of_activities(described, name))
    raw = described.raw_description
    attempt = raw.pending_workflow_task.attempt if raw.HasField("pending_workflow_task") else 0
    if attempt > 1 and (cause := await _last_task_failure(client, described)):
        found.insert(0, Trouble(f"workflow code of {name} fails, attempt {attempt}: {cause}", fails=True, code=True))
    return found


def _of_activities(described: WorkflowExecutionDescription, name: str) -> Iterator[Trouble]:
    for step in described.raw_description.pending_activities:
        kind = step.activity_type.name
        if step.paused:
            yield Trouble(f"{kind} of {name} was paused by hand{_why_paused(step)}", fails=True)
        elif step.HasField("last_failure") and step.attempt > 1:
            waits = step.last_failure.application_failure_info.type == _WAITING
            if not (waits and kind == _WAITS):
                text = f"{kind} of {name}, attempt {step.attempt}: {_innermost(step.last_failure)}{_next_try(step)}"
                yield Trouble(text, fails=not waits and step.attempt >= FAILING_ATTEMPTS)


def _why_paused(step: PendingActivityInfo) -> str:
    reason = step.pause_info.manual.reason
    return f": {reason}" if reason else ""


def _next_try(step: PendingActivityInfo) -> str:
    at = step.scheduled_time.ToDatetime(UTC)
    return f"; next try {at:%H:%M:%S} UTC" if at > datetime.now(UTC) else ""


def _innermost(failure: Failure) -> str:
    while failure.HasField("cause"):
        failure = failure.cause
    return failure.message or "no message"


async def _last_task_failure(client: Client, described: WorkflowExecutionDescription) -> str:
    """What the last workflow task failed of; "" where none failed (a worker was killed in the middle of it)."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=described.id, run_id=described.run_id),
        maximum_page_size=LAST_EVENTS,
    )
    try:
        page = await client.workflow_service.get_workflow_execution_history_reverse(request, timeout=CALL_TIMEOUT)
    except RPCError:
        return ""
    for event in page.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return _innermost(event.workflow_task_failed_event_attributes.failure)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return ""
    return ""
