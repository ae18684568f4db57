"""Which jobs there are: what Temporal's visibility shows, and what lies finished in the store."""

from datetime import UTC, datetime
from decimal import Decimal

from groupage.client.connection import Connection
from groupage.schemas import Health, JobState, Message, Summary
from groupage.schemas.errors import GroupageError
from groupage.schemas.ids import check_tenant, parse_job_workflow_id
from groupage.schemas.signals import BATCH_JOB
from groupage.store.late import read_late, with_late
from groupage.store.objects import Store
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

_STATE = SearchAttributeKey.for_keyword("GroupageState")
_HEALTH = SearchAttributeKey.for_keyword("GroupageHealth")
_ENDED = {
    WorkflowExecutionStatus.CANCELED: JobState.cancelled,
    WorkflowExecutionStatus.TERMINATED: JobState.failed,
    WorkflowExecutionStatus.FAILED: JobState.failed,
    WorkflowExecutionStatus.TIMED_OUT: JobState.failed,
}


class ListedJob(Message):
    """One row. Counts and costs are known of ended jobs only; `health` of running ones only."""

    tenant: str
    key: str
    state: JobState
    health: Health | None = None
    requests: int | None = None
    answered: int | None = None
    cost_usd: Decimal | None = None
    waste_usd: Decimal | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    def moment(self) -> datetime:
        """What rows are sorted by."""
        return self.started_at or self.ended_at or datetime.fromtimestamp(0, UTC)


async def list_known(connection: Connection, tenant: str | None, limit: int) -> list[ListedJob]:
    """The newest jobs of this task queue that Temporal still knows."""
    query = f"WorkflowType = '{BATCH_JOB}' AND TaskQueue = '{connection.task_queue}'"
    if tenant is not None:
        query += f" AND WorkflowId STARTS_WITH 'job/{check_tenant(tenant)}/'"
    found = []
    try:
        async for seen in connection.temporal.list_workflows(query, limit=limit):
            name = parse_job_workflow_id(seen.id)
            if name is None or seen.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
                continue
            attributes = seen.typed_search_attributes
            running = seen.status is WorkflowExecutionStatus.RUNNING
            state = _ENDED.get(seen.status) if seen.status else None
            health = attributes.get(_HEALTH)
            found.append(
                ListedJob(
                    tenant=name[0],
                    key=name[1],
                    state=state or JobState(attributes.get(_STATE) or JobState.accepted),
                    health=Health(health) if health and running else None,
                    started_at=seen.start_time,
                    ended_at=seen.close_time,
                )
            )
    except RPCError as error:
        raise GroupageError(f"Temporal does not list its workflows: {error.message}") from error
    return found


def list_ended(store: Store, tenant: str | None) -> list[ListedJob]:
    """All jobs with a summary. Lists every object under the tenant: slow in a large remote store."""
    prefix = f"{check_tenant(tenant)}/jobs" if tenant else ""
    found = []
    for key in store.list(prefix):
        parts = key.split("/")
        if len(parts) == 4 and parts[1] == "jobs" and parts[3] == "summary.json":
            summary = store.get_message_or_none(key, Summary)
            if summary is not None:
                summary = with_late(summary, read_late(store, summary.tenant, summary.key))
                found.append(
                    ListedJob(
                        tenant=summary.tenant,
                        key=summary.key,
                        state=summary.state,
                        requests=summary.requests,
                        answered=sum(n for outcome, n in summary.outcomes.items() if outcome.answered),
                        # Where no answer has a known price, the sum of none is no cost.
                        cost_usd=summary.cost_usd if summary.cost_usd or not summary.unpriced else None,
                        waste_usd=summary.waste_usd,
                        started_at=summary.accepted_at,
                        ended_at=summary.finished_at,
                    )
                )
    return found
