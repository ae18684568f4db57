"""Running one round: shards as children in a window, sync shards as activities in lanes.

Children are abandoned: they outlive a run of the job (continue-as-new) and the job itself. Their
reports come as signals, and once more as their results where this run started them. Starting a
shard again is always sound: a running one refuses the start, and a closed one's successor finds the
provider batch by its tag instead of creating another.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from groupage.schemas import ErrorClass, JobPolicy, JobRef, Route, ShardRef, ShardReport
from groupage.schemas.activity_calls import RUN_SYNC_SHARD, RunSyncShard
from groupage.schemas.ids import shard_workflow_id
from groupage.schemas.signals import PROVIDER_BATCH, SIGNAL_STOP, ProviderBatchInput, StopBatch
from groupage.workflows.calls import failure_of, start
from groupage.workflows.memory import JobMemory, RoundMemory, absorb, count_sync, forget_trouble
from groupage.workflows.policy.pace import lane_pace, shard_requests, sync_lanes
from groupage.workflows.shard_reports import lost, not_run, unsettled
from temporalio import workflow
from temporalio.common import TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ChildWorkflowError, FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowCancellationType, ChildWorkflowHandle, ParentClosePolicy

STARTS_AT_ONCE = 50
"""Children started in one workflow task: 50 arguments of about 1.5 kB stay far below gRPC's 4 MiB (docs/cases.md TE-02)."""

RESTARTS = 3
"""How often a shard whose workflow was terminated or failed is started again."""


class RoundRunner:
    """Starts, watches and stops the shards of the current round. `poke` wakes the job's loop."""

    def __init__(
        self,
        memory: JobMemory,
        current: RoundMemory,
        job: JobRef,
        policy: JobPolicy,
        *,
        model: str,
        attributes: TypedSearchAttributes,
        sync_until: datetime,
        poke: Callable[[], None],
    ) -> None:
        self._memory = memory
        self._round = current
        self._job = job
        self._policy = policy
        self._model = model
        self._attributes = attributes
        self._sync_until = sync_until
        self._poke = poke
        self._watchers: dict[int, asyncio.Task[None]] = {}
        self._lost: list[int] = []
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self.orphans: set[int] = set()
        """Running shards that an earlier run started: nothing but their signal tells of them."""

    @property
    def syncing(self) -> bool:
        return bool(self._lanes)

    @property
    def finished(self) -> bool:
        r = self._round
        batches = not r.running and not self._lost and (r.stopped or r.next_batch == r.batch_shards)
        return batches and not self._lanes and r.next_sync == r.sync_shards

    # Batch shards

    async def start_batches(self, limit: int) -> None:
        """Start lost shards again and new ones while fewer than `limit` run."""
        again, self._lost = [n for n in self._lost if n in self._round.running], []
        new: list[int] = []
        r = self._round
        while not r.stopped and r.next_batch < r.batch_shards and len(r.running) < limit and len(new) < STARTS_AT_ONCE:
            r.running.append(r.next_batch)
            new.append(r.next_batch)
            r.next_batch += 1
        await asyncio.gather(*(self._start(n) for n in [*again, *new]))
        if len(new) == STARTS_AT_ONCE:
            self._poke()

    async def reattach(self) -> None:
        """Start every running shard that this run has no handle of: those that are alive refuse."""
        unwatched = [n for n in self._round.running if n not in self._watchers]
        for at in range(0, len(unwatched), STARTS_AT_ONCE):
            await asyncio.gather(*(self._start(n) for n in unwatched[at : at + STARTS_AT_ONCE]))

    async def _start(self, shard: int, stop: StopBatch | None = None) -> None:
        argument = ProviderBatchInput(
            shard=self._ref(shard),
            policy=self._policy,
            requests=self._about(),
            model=self._model,
            deadline_at=self._memory.deadline_at,
            stop=stop,
        )
        try:
            handle: ChildWorkflowHandle[object, ShardReport] = await workflow.start_child_workflow(
                PROVIDER_BATCH,
                argument,
                id=self._workflow_id(shard),
                result_type=ShardReport,
                parent_close_policy=ParentClosePolicy.ABANDON,
                cancellation_type=ChildWorkflowCancellationType.ABANDON,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                search_attributes=self._attributes,
                static_summary=f"round {self._round.round}, shard {shard} of {self._job.tenant}/{self._job.key}",
            )
        except WorkflowAlreadyStartedError:
            self.orphans.add(shard)
            return
        self.orphans.discard(shard)
        self._watchers[shard] = asyncio.create_task(self._watch(shard, handle))

    async def _watch(self, shard: int, handle: ChildWorkflowHandle[object, ShardReport]) -> None:
        """Take the child's result too: its signal may not have come, and a child that died sends none."""
        try:
            report = await handle
        except ChildWorkflowError as error:
            if shard in self._round.running:
                self._lose(shard, str(error.cause or error))
        else:
            absorb(self._memory, report)
        self._watchers.pop(shard, None)
        self._poke()

    def _lose(self, shard: int, message: str) -> None:
        restarts = self._round.restarts.get(shard, 0)
        if restarts >= RESTARTS:
            absorb(self._memory, lost(self._ref(shard), self._about(), message))
            return
        workflow.logger.warning("shard %s ended without a report (%s): starting it again", shard, message)
        self._round.restarts[shard] = restarts + 1
        forget_trouble(self._round, shard)
        self._lost.append(shard)

    async def stop_batches(self, reason: str, settle_s: float, wait_s: float, *, not_started: bool = False) -> None:
        """Stop all running shards and take their reports; those that have not reported after `wait_s` are unsettled.

        `not_started`: those that this run has not started as well, a window of them at a time, because an earlier
        run of the job may have.
        """
        self._round.stopped = True
        self._lost = []
        spent_s = 0.0
        while True:
            if not_started:
                self._take_up(self._policy.window)
            if not self._round.running:
                return
            began_at = workflow.now()
            argument = StopBatch(reason=reason, settle_s=max(settle_s - spent_s, min(settle_s, 1.0)))
            await asyncio.gather(*(self._stop(n, argument) for n in list(self._round.running)))
            await self._take_reports(reason, max(wait_s - spent_s, min(wait_s, 1.0)))
            spent_s += (workflow.now() - began_at).total_seconds()

    def _take_up(self, limit: int) -> None:
        """Count shards as running that nobody knows better of, as many as may run at once."""
        r = self._round
        while r.next_batch < r.batch_shards and len(r.running) < limit:
            r.running.append(r.next_batch)
            r.next_batch += 1

    async def _take_reports(self, reason: str, wait_s: float) -> None:
        try:
            await workflow.wait_condition(
                lambda: not self._round.running, timeout=wait_s, timeout_summary="stopped shards have to report"
            )
        except TimeoutError:
            for shard in list(self._round.running):
                absorb(self._memory, unsettled(self._ref(shard), self._about(), "", reason))

    async def _stop(self, shard: int, argument: StopBatch) -> None:
        handle = workflow.get_external_workflow_handle(self._workflow_id(shard))
        try:
            await handle.signal(SIGNAL_STOP, argument)
        except FailureError as error:
            if shard in self._round.running:
                # It died unseen: a successor finds its batch, if there is one, and stops that.
                workflow.logger.warning("shard %s does not run any more (%s)", shard, error.message)
                await self._start(shard, argument)

    # Sync shards

    def start_sync(self) -> None:
        """Fill the free lanes."""
        r = self._round
        lanes = sync_lanes(self._policy, r.sync_shards)
        for lane in range(lanes):
            if lane in self._lanes or r.next_sync >= r.sync_shards:
                continue
            shard = r.batch_shards + r.next_sync
            r.next_sync += 1
            self._lanes[lane] = asyncio.create_task(self._run_sync(shard, lane, lanes))

    async def _run_sync(self, shard: int, lane: int, lanes: int) -> None:
        pace = lane_pace(self._policy, lanes, lane)
        argument = RunSyncShard(
            shard=self._ref(shard),
            rpm=pace.rpm,
            concurrency=pace.concurrency,
            attempts=self._policy.sync_attempts,
            timeout_s=self._policy.sync_timeout.total_seconds(),
            deadline_at=self._sync_until,
            forbidden_alone=self._memory.forbidden_alone,
        )
        # The activity ends by itself at the deadline; the grace lets a late worker still flush what it has.
        left = max(self._sync_until - workflow.now(), timedelta(0)) + timedelta(minutes=5)
        handle = start(
            RUN_SYNC_SHARD,
            argument,
            summary=f"sync shard {shard}, {pace.rpm} requests a minute",
            schedule_to_close=left,
        )
        try:
            report = await handle
        except (ActivityError, asyncio.CancelledError) as error:
            failure = failure_of(error) if isinstance(error, ActivityError) else None
            if failure is not None and failure.error_class is ErrorClass.cancelled:
                failure = None
            report = not_run(self._ref(shard), self._about(), "stopped", error=failure)
            report = report.model_copy(update={"route": Route.sync})
        count_sync(self._memory, report)
        self._lanes.pop(lane, None)
        self._poke()

    async def stop_sync(self) -> None:
        """Cancel the sync calls; what was answered is flushed and kept."""
        tasks = list(self._lanes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    # Names

    def _ref(self, shard: int) -> ShardRef:
        return ShardRef(job=self._job, round=self._round.round, shard=shard)

    def _workflow_id(self, shard: int) -> str:
        return shard_workflow_id(self._job.tenant, self._job.key, self._round.round, shard)

    def _about(self) -> int:
        return shard_requests(self._round.requests, self._round.shards)
