"""The handle of one job: where it stands, what it brought, and what can be told to it.

The store's summary.json is the truth about a job that has ended: Temporal forgets ended workflows
after its retention. Before that, Temporal knows.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from groupage.client.connection import UNREACHABLE, Connection, is_polled
from groupage.client.troubles import Trouble, find_troubles
from groupage.schemas import (
    CancelInput,
    DecideInput,
    Decision,
    Health,
    JobState,
    JobStatus,
    Outcome,
    Result,
    Summary,
)
from groupage.schemas.errors import GroupageError, JobFailed, UnknownJob, UsageError
from groupage.schemas.ids import job_workflow_id
from groupage.schemas.signals import MEMO_ANSWERS, MEMO_QUESTION, QUERY_STATUS, UPDATE_CANCEL, UPDATE_DECIDE
from groupage.store import keys
from groupage.store.late import read_late, with_late
from groupage.store.objects import Store
from groupage.store.reader import JobResults, claim_results
from groupage.store.segments import read_manifest_or_none
from temporalio.client import (
    RPCError,
    RPCTimeoutOrCancelledError,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import FailureError
from temporalio.service import RPCStatusCode

T = TypeVar("T")

QUERY_TIMEOUT = timedelta(seconds=5)
"""A query needs a worker; without one it would wait for half a minute."""
UPDATE_TIMEOUT = timedelta(seconds=60)
RECONNECT_PAUSE_S = 1.0
CLEAN_UP_LOOK_S = 0.3
READ_AT_ONCE = 64
"""Results that are read from the store in one step of a thread: what a reader holds in memory."""
MEND_AND_START = "mend that and start it again: its key is free for the same content; its history is in the Web UI"

_STATE = SearchAttributeKey.for_keyword("GroupageState")
_HEALTH = SearchAttributeKey.for_keyword("GroupageHealth")


class Job:
    """One job. Made by `Groupage.submit` and `Groupage.attach`."""

    def __init__(self, connection: Connection, store: Store, tenant: str, key: str) -> None:
        self.tenant = tenant
        self.key = key
        self.workflow_id = job_workflow_id(tenant, key)
        self._connection = connection
        self._store = store

    def __repr__(self) -> str:
        return f"Job({self.workflow_id!r})"

    @property
    def url(self) -> str | None:
        """Where the job is shown, if the Web UI's address is known."""
        if self._connection.ui_url is None:
            return None
        namespace = self._connection.temporal.namespace
        # The UI reads the id as one path segment.
        return f"{self._connection.ui_url}/namespaces/{namespace}/workflows/{self.workflow_id.replace('/', '%2F')}"

    async def summary(self) -> Summary | None:
        """The summary if the job has ended, else None."""
        return await asyncio.to_thread(read_summary, self._store, self.tenant, self.key)

    async def status(self) -> JobStatus:
        """Where the job stands: from its summary, from its workflow, or from what Temporal shows without a worker.

        Raises UnknownJob.
        """
        ended = await self.summary()
        return await self.live_status() if ended is None else status_of(ended)

    async def live_status(self) -> JobStatus:
        """As `status`, but asks Temporal first: for who looks again and again while waiting."""
        described = await self._described()
        if described.status is not WorkflowExecutionStatus.RUNNING:
            return await self._status_after_end(described)
        try:
            status: JobStatus = await self._handle.query(QUERY_STATUS, result_type=JobStatus, rpc_timeout=QUERY_TIMEOUT)
        except (WorkflowQueryFailedError, RPCTimeoutOrCancelledError, RPCError):
            return await self._status_without_worker(described)
        return status

    async def troubles(self) -> list[Trouble]:
        """What of the running job is tried again and again, or paused: a few calls, none of which needs a worker.

        Empty for a job that has ended. Raises UnknownJob where Temporal does not know the job.
        """
        described = await self._described()
        if described.status is not WorkflowExecutionStatus.RUNNING:
            return []
        polled = await is_polled(self._connection.temporal, described.task_queue)
        return await find_troubles(self._connection.temporal, described, ask=polled is not False)

    async def task_queue(self) -> str:
        """Where the job's workers listen. Raises UnknownJob where Temporal does not know the job."""
        return (await self._described()).task_queue

    async def wait(self) -> Summary:
        """Wait until the job has ended and return its summary, whatever it says.

        Outages of Temporal are sat out, and a run that was reset is followed into the next. Raises JobFailed if
        the job ended without a summary, UnknownJob if there is no such job (any more).
        """
        while True:
            try:
                returned = await self._handle.result()
            except WorkflowFailureError as error:
                if not await self._runs_again():
                    return await self._summary_after(error)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    ended = await self.summary()
                    if ended is not None:
                        return ended
                    raise await self._unknown() from error
                if error.status not in UNREACHABLE:
                    raise GroupageError(f"Temporal does not tell about {self.workflow_id}: {error.message}") from error
                await asyncio.sleep(RECONNECT_PAUSE_S)
            else:
                # What the store says counts; a job that was cancelled before its input was read has nothing there.
                ended = await self.summary()
                if ended is None and returned.result_parts:
                    raise JobFailed(
                        f"job {self.tenant}/{self.key} has ended, but its results are not in {self._store.url}",
                        hint="it ran with another store, or they were deleted",
                    )
                return ended or returned

    async def result(self) -> Summary:
        """As `wait`, but raises JobFailed for a job that has failed or was cancelled."""
        summary = await self.wait()
        if summary.state in {JobState.failed, JobState.cancelled}:
            raise JobFailed(
                f"job {self.tenant}/{self.key} ended {summary.state}: {summary.reason or 'no request was answered'}",
                hint="what was answered is there: read results()",
            )
        return summary

    async def results(self, max_age: timedelta | None = None) -> AsyncIterator[Result]:
        """Wait for the end, then give one result per input line, in input order.

        Memory does not grow with the job. Raises StaleResult where a result is older than `max_age`.
        Reading to the end counts as having fetched the results.
        """
        await self.wait()
        found = await asyncio.to_thread(JobResults, self._store, self.tenant, self.key)
        async for result in in_threads(found.results(max_age)):
            yield result
        await asyncio.to_thread(claim_results, self._store, self.tenant, self.key)

    async def wait_for_clean_up(self, at_most: timedelta) -> bool:
        """Wait until the job's shards have deleted their files at the provider; False if that takes longer.

        It goes on wherever a worker runs: waiting matters only to whoever is about to stop the last one.
        """
        query = f"WorkflowId STARTS_WITH '{self.workflow_id}/' AND ExecutionStatus = 'Running'"
        give_up_at = time.monotonic() + at_most.total_seconds()
        while True:
            try:
                left = (await self._connection.temporal.count_workflows(query)).count
            except RPCError:
                return False
            if not left or time.monotonic() > give_up_at:
                return not left
            await asyncio.sleep(CLEAN_UP_LOOK_S)

    async def cancel(self, reason: str = "") -> None:
        """Ask for cancellation: running batches are cancelled and harvested. A job that has ended is no error."""
        if await self.summary() is None:
            await self._update(UPDATE_CANCEL, CancelInput(reason=reason))

    async def decide(self, decision: Decision, reason: str = "") -> None:
        """Answer a job in needs_decision. Raises UsageError where it does not ask that."""
        await self._update(UPDATE_DECIDE, DecideInput(decision=decision, reason=reason))

    @property
    def _handle(self) -> "WorkflowHandle[Any, Summary]":
        return self._connection.temporal.get_workflow_handle(self.workflow_id, result_type=Summary)

    async def _update(self, name: str, argument: CancelInput | DecideInput) -> None:
        try:
            await self._handle.execute_update(name, argument, rpc_timeout=UPDATE_TIMEOUT)
        except WorkflowUpdateFailedError as error:
            raise UsageError(
                f"{name}: {error.cause or error}", hint=f"groupage status {self.tenant}/{self.key}"
            ) from error
        except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCTimeoutOrCancelledError) as error:
            raise GroupageError(
                f"nobody took the {name} of {self.workflow_id} within {UPDATE_TIMEOUT.total_seconds():.0f} s; "
                f"its task queue is {await self.task_queue()}",
                hint="is a worker running? `groupage worker`, `groupage dev` or `groupage watch` is one",
            ) from error
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise GroupageError(
                    f"{name} of {self.workflow_id}: {error.message}",
                    hint=f"what keeps failing says `groupage status {self.tenant}/{self.key}`",
                ) from error
            # UnknownJob, where it never was.
            ended = await self.live_status()
            raise UsageError(f"job {self.tenant}/{self.key} has ended: {ended.state}") from error

    async def _runs_again(self) -> bool:
        """Whether another run has taken the place of the one that ended: it was reset, or handed in again."""
        while True:
            try:
                return (await self._handle.describe()).status is WorkflowExecutionStatus.RUNNING
            except RPCError as error:
                if error.status not in UNREACHABLE:
                    return False
                await asyncio.sleep(RECONNECT_PAUSE_S)

    async def _summary_after(self, error: WorkflowFailureError) -> Summary:
        ended = await self.summary()
        if ended is not None:
            return ended
        raise JobFailed(
            f"job {self.tenant}/{self.key} ended without results: {_reason(error)}",
            hint="look at the workflow's history in the Web UI" + (f": {self.url}" if self.url else ""),
        ) from error

    async def _unknown(self) -> GroupageError:
        manifest = await asyncio.to_thread(read_manifest_or_none, self._store, self.tenant, self.key)
        if manifest is None:
            return UnknownJob(f"there is no job {self.tenant}/{self.key}", hint="`groupage jobs` lists what there is")
        return UnknownJob(
            f"job {self.tenant}/{self.key} lies in {self._store.url}, but this Temporal does not know it",
            hint="submit the same input again: it goes on with what the provider has already",
        )

    async def _described(self) -> WorkflowExecutionDescription:
        try:
            return await self._handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise await self._unknown() from error
            raise GroupageError(f"Temporal does not tell about {self.workflow_id}: {error.message}") from error

    async def _status_without_worker(self, described: WorkflowExecutionDescription) -> JobStatus:
        """Of a job that runs, but that no worker answers for."""
        polled = await is_polled(self._connection.temporal, described.task_queue)
        reason, next_step = unanswered(described.task_queue, self._connection.task_queue, polled=polled)
        attributes = described.typed_search_attributes
        health = Health.unclaimed if polled is False else Health(attributes.get(_HEALTH) or Health.on_track)
        state = JobState(attributes.get(_STATE) or JobState.accepted)
        if state is JobState.needs_decision:
            question = await described.memo_value(MEMO_QUESTION, "it asks; what, is told once a worker runs")
            reason = f"{question} ({reason})"
            next_step = await described.memo_value(MEMO_ANSWERS, next_step)
            health = Health.needs_decision
        return await self._status_seen(described, state, reason, next_step, health)

    async def _status_after_end(self, described: WorkflowExecutionDescription) -> JobStatus:
        """Of a workflow that has ended: by its summary, else by what it failed of."""
        ended = await self.summary()
        if ended is not None:
            return status_of(ended)
        try:
            # Cancelled before its input was read, it has a summary, but none in the store.
            return status_of(await self._handle.result())
        except WorkflowFailureError as error:
            state = JobState.cancelled if described.status is WorkflowExecutionStatus.CANCELED else JobState.failed
            word = described.status.name.lower() if described.status else "ended"
            reason = f"the workflow {word} without a summary: {_reason(error)}"
        except RPCError as error:
            raise GroupageError(f"Temporal does not tell about {self.workflow_id}: {error.message}") from error
        return await self._status_seen(described, state, reason, MEND_AND_START, Health.on_track)

    async def _status_seen(
        self, described: WorkflowExecutionDescription, state: JobState, reason: str, next_step: str, health: Health
    ) -> JobStatus:
        manifest = await asyncio.to_thread(read_manifest_or_none, self._store, self.tenant, self.key)
        return JobStatus(
            tenant=self.tenant,
            key=self.key,
            provider=manifest.provider if manifest else "",
            state=state,
            health=health,
            reason=reason,
            next_step=next_step,
            requests=manifest.requests if manifest else 0,
            rejected=manifest.rejected if manifest else 0,
            accepted_at=described.start_time,
        )


def unanswered(queue: str, ours: str, *, polled: bool | None) -> tuple[str, str]:
    """Reason and next step of a job on `queue` that got no answer, told by a command that goes with `ours`."""
    nobody = "nobody polls its task queue" if polled is False else "it is on task queue"
    if polled:
        reason = (
            f"its workers have not answered within {QUERY_TIMEOUT.total_seconds():.0f} s: task queue {queue} is polled"
        )
        return reason, "ask again in a minute (one that was stopped counts so long); `groupage doctor` tells of workers"
    reason = f"no worker answers for it now: {nobody} {queue}"
    if queue == ours:
        return reason, "start one: `groupage watch`, `groupage worker` or `groupage dev`"
    return (
        f"{reason}; store and server of this command go with {ours}",
        f"start one there, with the settings that it was submitted with (`groupage worker --task-queue {queue}`)",
    )


def _reason(error: WorkflowFailureError) -> str:
    """The innermost message: outer ones only say that something failed."""
    cause: BaseException | None = error.cause
    while isinstance(cause, FailureError) and cause.cause is not None:
        cause = cause.cause
    return str(cause or error)


def read_summary(store: Store, tenant: str, key: str) -> Summary | None:
    """None while the job has not ended. What came home after that is added."""
    summary = store.get_message_or_none(keys.summary(tenant, key), Summary)
    return None if summary is None else with_late(summary, read_late(store, tenant, key))


def status_of(summary: Summary) -> JobStatus:
    """The last status of a job that has ended."""
    return JobStatus(
        tenant=summary.tenant,
        key=summary.key,
        provider=summary.provider,
        state=summary.state,
        reason=summary.reason,
        requests=summary.requests,
        answered=sum(n for outcome, n in summary.outcomes.items() if outcome.answered),
        outcomes={Outcome(outcome): n for outcome, n in summary.outcomes.items()},
        round=max(0, summary.rounds - 1),
        cost_usd=summary.cost_usd,
        waste_usd=summary.waste_usd,
        unpriced=summary.unpriced,
        accepted_at=summary.accepted_at,
        deadline_at=summary.deadline_at,
        cancel_requested=summary.state is JobState.cancelled,
    )


async def in_threads(items: Iterator[T]) -> AsyncIterator[T]:
    """Iterate a blocking iterator in threads, a few items a step."""
    while chunk := await asyncio.to_thread(lambda: list(islice(items, READ_AT_ONCE))):
        for item in chunk:
            yield item
