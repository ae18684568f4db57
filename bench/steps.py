"""Where a finished job's time went, read from the histories of its workflows."""

from dataclasses import dataclass
from datetime import datetime

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client


@dataclass(slots=True)
class Step:
    """All activities of one kind. Seconds from the job's start; `busy_s` adds up the last attempts."""

    name: str
    count: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    busy_s: float = 0.0


async def steps_of(client: Client, workflow_id: str) -> list[Step]:
    """The job's activities and those of its shards, by kind, in the order in which they first began."""
    steps: dict[str, Step] = {}
    start: datetime | None = None
    open_ids = [workflow_id]
    while open_ids:
        current = open_ids.pop()
        names: dict[int, str] = {}
        began: dict[int, datetime] = {}
        async for event in client.get_workflow_handle(current).fetch_history_events():
            at = event.event_time.ToDatetime()
            start = start or at
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                began[event.activity_task_started_event_attributes.scheduled_event_id] = at
            elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                number = event.activity_task_completed_event_attributes.scheduled_event_id
                step = steps.setdefault(names[number], Step(names[number], first_s=1e9))
                step.count += 1
                step.first_s = min(step.first_s, (began[number] - start).total_seconds())
                step.last_s = max(step.last_s, (at - start).total_seconds())
                step.busy_s += (at - began[number]).total_seconds()
            elif event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                open_ids.append(event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id)
    return sorted(steps.values(), key=lambda step: step.first_s)
