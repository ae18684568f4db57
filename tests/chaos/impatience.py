"""Lets time pass for Temporal: what a dead process held is given up at once instead of after a minute.

A real deployment waits for the heartbeat timeout (60 s) before an activity of a killed worker runs
elsewhere. A chaos run does not want to sit that out, and the product has no switch for it, nor needs one:
Temporal's own UpdateActivityOptions shortens the timeout of exactly those activities that nobody works on.
It is put back as soon as the next attempt is due.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest, UpdateActivityOptionsRequest
from temporalio.client import Client
from temporalio.service import RPCError

LOOK_EVERY_S = 0.1
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_AT_ONCE = Duration(seconds=1)
_SOON = Duration(seconds=5)
"""For activities that do not heartbeat, because it stays: their attempts take milliseconds."""

Stuck = Callable[[PendingActivityInfo], bool]
Connect = Callable[[], Awaitable[Client]]


async def pass_the_timeout(connect: Connect, workflow_id: str, stuck: Stuck, *, for_s: float) -> int:
    """For `for_s` seconds, time out activities of the job that are `stuck`; returns how many.

    The old timeout is put back when the next attempt runs, not before: with server 1.32 an update of an
    activity that waits for its retry sets its scheduled time to 1970, and it ends by ScheduleToStart.
    """
    give_up_at = time.monotonic() + for_s
    shortened: dict[tuple[str, str], Duration] = {}
    count = 0
    while time.monotonic() < give_up_at:
        client = await connect()
        try:
            for owner, pending in await _pending(client, workflow_id):
                key = (owner, pending.activity_id)
                if pending.state != _STARTED:
                    continue
                is_stuck = stuck(pending)
                if is_stuck and key not in shortened:
                    before = Duration()
                    before.CopyFrom(pending.activity_options.heartbeat_timeout)
                    await _shorten(client, *key, _AT_ONCE if before.ToSeconds() else _SOON)
                    shortened[key] = before
                    count += 1
                elif not is_stuck and key in shortened:
                    before = shortened.pop(key)
                    if before.ToSeconds():
                        await _shorten(client, *key, before)
        except RPCError:
            # The server is being killed and started, or the activity has ended meanwhile: look again.
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.sleep(LOOK_EVERY_S)
    return count


async def _pending(client: Client, workflow_id: str) -> list[tuple[str, PendingActivityInfo]]:
    """(workflow id, activity) of the job and of its children."""
    found: list[tuple[str, PendingActivityInfo]] = []
    names = [workflow_id]
    for name in names:
        request = DescribeWorkflowExecutionRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=name)
        )
        described = await client.workflow_service.describe_workflow_execution(request)
        found += [(name, pending) for pending in described.pending_activities]
        if name == workflow_id:
            names += [child.workflow_id for child in described.pending_children]
    return found


async def _shorten(client: Client, workflow_id: str, activity_id: str, heartbeat: Duration) -> None:
    await client.workflow_service.update_activity_options(
        UpdateActivityOptionsRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id),
            id=activity_id,
            identity="chaos",
            activity_options=ActivityOptions(heartbeat_timeout=heartbeat),
            update_mask=FieldMask(paths=["heartbeat_timeout"]),
        )
    )
