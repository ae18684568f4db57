"""A provider and a store in memory, behind the activities' registered names.

It keeps every request apart, so that tests assert over what really happened: which request was sent
how often, what was answered, what was cancelled. Time is the test server's. Behaviour is scripted per
(round, shard) with `Script`.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from groupage.schemas import (
    BatchError,
    BatchPhase,
    BatchStatus,
    ErrorClass,
    FailureAction,
    JobRef,
    Outcome,
    RoundPlan,
    Route,
    ShardReport,
    Summary,
    final_job_state,
)
from groupage.schemas.activity_calls import (
    AwaitBatch,
    CancelBatch,
    CleanedUp,
    CleanUpBatch,
    CollectBatch,
    FinalizeJob,
    PlanRound,
    PreparedJob,
    PrepareJob,
    Progress,
    ReadProgress,
    RunSyncShard,
    SubmitBatch,
    SubmittedBatch,
)
from groupage.schemas.batches import ShardRef
from groupage.schemas.states import UNEXPLAINED
from groupage.workflows.calls import TIMED_OUT
from temporalio import activity
from temporalio.exceptions import ApplicationError

from tests.workflow.scripted_batch import Batch, Script, failure, in_doubt, passed, waiting

TOKEN = "gabcdef-abcdefghijklm"


class World:
    """`script(round, shard)` says what the shard's batch does; default: an hour, everything answered."""

    def __init__(self, now: Callable[[], Awaitable[datetime]], requests: int = 100, per_shard: int = 10) -> None:
        self.now = now
        self._scripts: dict[tuple[int, int], Script] = {}
        self.requests = requests
        self.rejected = 0
        self.per_shard = per_shard
        self.script: Callable[[int, int], Script] = lambda r, s: Script()
        self.sync_answers: Callable[[int], ErrorClass | None] = lambda index: None
        self.sync_s = 0.0
        """Real seconds that a sync shard takes."""
        self.sync_gate: asyncio.Event | None = None
        """Sync shards answer nothing before it is set, however long that takes; so the other gates."""
        self.refused_input = False
        self.prepare_error: ApplicationError | None = None
        self.estimate: Decimal | None = Decimal(1)
        self.unpriced = 0
        self.key_revoked = False
        """Looks at batches are refused for the account."""
        self.disk_full_s = 0.0
        """Server seconds from the first collecting on for which the worker has no room."""
        self.full_since: datetime | None = None
        self.left_behind: list[str] = []
        self.clean_up_gate: asyncio.Event | None = None
        self.prepare_s = 0.0
        self.prepare_gate: asyncio.Event | None = None
        self.finalizing = asyncio.Event()
        self.finalize_gate: asyncio.Event | None = None

        self.answered: dict[int, list[tuple[int, int]]] = {}
        """Request to the (round, shard)s that answered it; more than one entry is money wasted."""
        self.state: dict[int, ErrorClass] = {}
        self.sent: Counter[int] = Counter()
        self.unexplained: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        """Request to the (round, shard)s in which it ended and nobody can explain it."""
        self.members: dict[tuple[int, int], list[int]] = {}
        self.batches: dict[str, Batch] = {}
        self.plans: list[PlanRound] = []
        self.stored_plans: dict[int, RoundPlan] = {}
        """As in the store: a round whose plan stands is not planned anew by a later run of the job."""
        self.calls: Counter[str] = Counter()
        self.sync_runs: list[RunSyncShard] = []
        self.submits: list[SubmitBatch] = []
        self.collected: list[tuple[int, int]] = []
        self.gone: dict[tuple[int, int], ShardReport] = {}
        """Shards that were collected, and whose batches the provider does not know any more."""
        self.cleaned: list[CleanUpBatch] = []
        self.finalized: FinalizeJob | None = None
        self.running_sync_rpm = 0
        self.highest_sync_rpm = 0
        self.running_batches_max = 0

    def activities(self) -> Sequence[Callable[..., Any]]:
        return [
            self.prepare_job,
            self.plan_round,
            self.submit_batch,
            self.await_batch,
            self.cancel_batch,
            self.collect_batch,
            self.clean_up_batch,
            self.read_progress,
            self.run_sync_shard,
            self.finalize_job,
        ]

    @property
    def accepted(self) -> int:
        return self.requests - self.rejected

    def live(self, at: datetime) -> list[Batch]:
        return [b for b in self.batches.values() if b.ends_at() > at]

    def paid_twice(self) -> list[int]:
        return [index for index, answers in self.answered.items() if len(answers) > 1]

    # The activities

    @activity.defn(name="prepare_job")
    async def prepare_job(self, argument: PrepareJob) -> PreparedJob:
        self.calls["prepare_job"] += 1
        if self.prepare_error is not None:
            raise self.prepare_error
        await asyncio.sleep(self.prepare_s)
        await passed(self.prepare_gate)
        spec = argument.spec
        if not self.state:
            self.state = dict.fromkeys(range(self.accepted), ErrorClass.not_sent)
        return PreparedJob(
            job=JobRef(tenant=spec.tenant, key=spec.key, token=TOKEN, provider=spec.provider),
            fingerprint="f" * 64,
            requests=self.requests,
            rejected=self.rejected,
            refused=self.refused_input,
            problems=[f"line {n}: no id" for n in range(self.rejected)][:20],
            rounds=len(self.stored_plans),
            estimated_cost_usd=self.estimate,
            unpriced_requests=self.unpriced,
            unpriced_models=["no-such-price"] if self.unpriced else [],
            estimated_sync_cost_usd=self.estimate * 2 if self.estimate is not None else None,
        )

    @activity.defn(name="plan_round")
    async def plan_round(self, argument: PlanRound) -> RoundPlan:
        self.calls["plan_round"] += 1
        if argument.round in self.stored_plans:
            return self.stored_plans[argument.round]
        self.plans.append(argument)
        batch: list[int] = []
        sync: list[int] = []
        given_up = ended_again = 0
        for index, error_class in self.state.items():
            if index in self.answered:
                continue
            if argument.round == 0:
                (batch if argument.first_route is Route.batch else sync).append(index)
                continue
            action = argument.actions.get(error_class, FailureAction.give_up)
            again = error_class in argument.once_more and len(self.unexplained[index]) > 1
            if again and action in {FailureAction.resubmit, FailureAction.sync}:
                ended_again += 1
            elif action is FailureAction.resubmit:
                batch.append(index)
            elif action is FailureAction.sync:
                sync.append(index)
            else:
                given_up += 1
        size = max(1, int(min(self.per_shard, argument.max_shard_requests or 10**9) * argument.limits_factor))
        cuts: list[list[int]] = []
        if argument.round == 0 and argument.canary_requests and batch:
            cuts.append(batch[: argument.canary_requests])
            batch = batch[argument.canary_requests :]
        cuts += [batch[at : at + size] for at in range(0, len(batch), size)]
        batch_shards = len(cuts)
        size = argument.sync_shard_requests
        cuts += [sync[at : at + size] for at in range(0, len(sync), size)]
        for shard, members in enumerate(cuts):
            self.members[argument.round, shard] = members
            for index in members:
                self.state[index] = ErrorClass.not_sent
        plan = RoundPlan(
            round=argument.round,
            batch_shards=batch_shards,
            sync_shards=len(cuts) - batch_shards,
            requests=sum(len(c) for c in cuts),
            given_up=given_up + ended_again,
            ended_again=ended_again,
        )
        self.stored_plans[argument.round] = plan
        return plan

    @activity.defn(name="submit_batch")
    async def submit_batch(self, argument: SubmitBatch) -> SubmittedBatch:
        self.calls["submit_batch"] += 1
        self.submits.append(argument)
        key = (argument.shard.round, argument.shard.shard)
        script = self._script(key)
        await asyncio.sleep(script.submit_s)
        for batch in self.batches.values():
            if batch.shard == key and batch.id not in argument.not_ids:
                if batch.in_doubt(await self.now()):
                    raise in_doubt()
                submitted = batch.submitted(adopted=True)
                return submitted.model_copy(update={"report": self.gone.get(key)})
        if script.refuse:
            refusal = script.refuse.pop(0)
            # As in the store: nobody knows which of them is at fault, unless all are, or there is one only.
            blamed = (
                refusal.error_class is not ErrorClass.invalid or refusal.of_all_lines or len(self.members[key]) == 1
            )
            # Nothing is written of a call of which nothing was heard.
            blamed = blamed and refusal.code != TIMED_OUT
            self.state |= dict.fromkeys(self.members[key], refusal.error_class if blamed else ErrorClass.not_sent)
            raise failure(refusal)
        now = await self.now()
        batch = Batch(f"batch-{key[0]}-{key[1]}-{len(self.batches)}", key, script, now, self.members[key])
        self.batches[batch.id] = batch
        self.running_batches_max = max(self.running_batches_max, len(self.live(now)))
        self.sent.update(batch.members)
        if batch.in_doubt(now):
            raise in_doubt()
        return batch.submitted(adopted=False)

    def _end(self, index: int, error_class: ErrorClass, key: tuple[int, int]) -> None:
        self.state[index] = error_class
        if error_class in UNEXPLAINED:
            self.unexplained[index].add(key)

    def _script(self, key: tuple[int, int]) -> Script:
        if key not in self._scripts:
            self._scripts[key] = self.script(*key)
        return self._scripts[key]

    @activity.defn(name="await_batch")
    async def await_batch(self, argument: AwaitBatch) -> BatchStatus:
        self.calls["await_batch"] += 1
        batch = self.batches[argument.batch_id]
        if batch.script.gone:
            raise failure(BatchError(error_class=ErrorClass.missing, code="not_found", message="the batch is gone"))
        if self.key_revoked:
            refusal = BatchError(error_class=ErrorClass.account, code="invalid_api_key", message="wrong API key")
            raise failure(refusal) if argument.tell_refusals else in_doubt()
        status = batch.status(await self.now())
        if status.phase.ended or argument.report_at is not None:
            return status
        raise waiting("in progress", argument.poll_s)

    @activity.defn(name="cancel_batch")
    async def cancel_batch(self, argument: CancelBatch) -> BatchStatus:
        self.calls["cancel_batch"] += 1
        key = (argument.shard.round, argument.shard.shard)
        for batch in self.batches.values():
            if batch.id == argument.batch_id or (not argument.batch_id and batch.shard == key):
                if batch.in_doubt(await self.now()):
                    raise in_doubt()
                if batch.script.lost:
                    break
                batch.cancelled_at = batch.cancelled_at or await self.now()
                return batch.status(await self.now())
        return BatchStatus(batch_id="", phase=BatchPhase.cancelled, raw_state="absent")

    @activity.defn(name="collect_batch")
    async def collect_batch(self, argument: CollectBatch) -> ShardReport:
        self.calls["collect_batch"] += 1
        if self.disk_full_s:
            now = await self.now()
            self.full_since = self.full_since or now
            if now < self.full_since + timedelta(seconds=self.disk_full_s):
                raise failure(BatchError(error_class=ErrorClass.transient, code="disk_full", message="no space left"))
        key = (argument.shard.round, argument.shard.shard)
        members = self.members[key]
        status = argument.status
        answers = 0
        rest = ErrorClass.cancelled if status.phase is BatchPhase.cancelled else self._script(key).rest
        if status.batch_id and status.error is None:
            answers = self.batches[status.batch_id].done(await self.now())
        elif status.error is not None:
            rest = status.error.error_class
        if key not in self.collected:
            for index in members[:answers]:
                self.answered.setdefault(index, []).append(key)
        self.collected.append(key)
        for index in members[answers:]:
            self._end(index, rest, key)
        if status.error is not None and status.error.bad_lines:
            return self._cleared(argument.shard, status, members)
        return self._report(argument.shard, Route.batch, status.phase, members, answers, rest, status.batch_id)

    def _cleared(self, shard: ShardRef, status: BatchStatus, members: list[int]) -> ShardReport:
        """The lines that the provider named are at fault, the others are not."""
        assert status.error is not None
        bad = {members[line - 1] for one in status.error.bad_lines for line in one.lines}
        self.state |= {i: ErrorClass.invalid if i in bad else ErrorClass.not_sent for i in members}
        report = self._report(shard, Route.batch, status.phase, members, 0, ErrorClass.not_sent, status.batch_id)
        unanswered = {ErrorClass.invalid: len(bad), ErrorClass.not_sent: len(members) - len(bad)}
        return report.model_copy(update={"unanswered": unanswered, "error": status.error})

    def _report(
        self,
        shard: ShardRef,
        route: Route,
        phase: BatchPhase,
        members: list[int],
        answers: int,
        rest: ErrorClass,
        batch_id: str = "",
    ) -> ShardReport:
        left = len(members) - answers
        return ShardReport(
            round=shard.round,
            shard=shard.shard,
            route=route,
            phase=phase,
            batch_id=batch_id,
            requests=len(members),
            outcomes={o: n for o, n in ((Outcome.succeeded, answers), (Outcome.failed, left)) if n},
            unanswered={rest: left} if left else {},
            top_errors=[(f"{rest}/code", left)] if left else [],
            cost_usd=Decimal("0.001") * answers,
            latency_s=self._script((shard.round, shard.shard)).turnaround_s if route is Route.batch else 1.0,
        )

    @activity.defn(name="clean_up_batch")
    async def clean_up_batch(self, argument: CleanUpBatch) -> CleanedUp:
        self.calls["clean_up_batch"] += 1
        await passed(self.clean_up_gate)
        self.cleaned.append(argument)
        return CleanedUp(deleted=len(argument.files) - len(self.left_behind), left_behind=self.left_behind)

    @activity.defn(name="read_progress")
    async def read_progress(self, argument: ReadProgress) -> Progress:
        self.calls["read_progress"] += 1
        now = await self.now()
        keys = [(argument.round, shard) for shard in argument.shards]
        running = [b for b in self.batches.values() if b.shard in keys]
        return Progress(
            requests=sum(len(self.members[key]) for key in keys),
            completed=sum(b.done(now) for b in running),
        )

    @activity.defn(name="run_sync_shard")
    async def run_sync_shard(self, argument: RunSyncShard) -> ShardReport:
        self.calls["run_sync_shard"] += 1
        key = (argument.shard.round, argument.shard.shard)
        self.running_sync_rpm += argument.rpm
        self.highest_sync_rpm = max(self.highest_sync_rpm, self.running_sync_rpm)
        try:
            await asyncio.sleep(self.sync_s)
            await passed(self.sync_gate)
        finally:
            self.running_sync_rpm -= argument.rpm
        self.sync_runs.append(argument)
        members = self.members[key]
        late = await self.now() >= argument.deadline_at
        failed: dict[ErrorClass, int] = {}
        for index in members:
            error_class = ErrorClass.not_sent if late else self.sync_answers(index)
            self.sent[index] += 0 if late else 1
            if error_class is None:
                self.answered.setdefault(index, []).append(key)
            else:
                self._end(index, error_class, key)
                failed[error_class] = failed.get(error_class, 0) + 1
        answers = len(members) - sum(failed.values())
        report = self._report(argument.shard, Route.sync, BatchPhase.completed, members, answers, ErrorClass.transient)
        return report.model_copy(update={"unanswered": failed})

    @activity.defn(name="finalize_job")
    async def finalize_job(self, argument: FinalizeJob) -> Summary:
        self.calls["finalize_job"] += 1
        self.finalizing.set()
        await passed(self.finalize_gate)
        self.finalized = argument
        left = self.accepted - len(self.answered)
        outcomes = {Outcome.succeeded: len(self.answered), Outcome.failed: left + self.rejected}
        outcomes = {o: n for o, n in outcomes.items() if n}
        return Summary(
            tenant=argument.job.tenant,
            key=argument.job.key,
            fingerprint=argument.fingerprint,
            state=final_job_state(outcomes, cancelled=argument.cancelled, failed=bool(argument.failed_reason)),
            reason=argument.failed_reason or argument.reason,
            provider=argument.job.provider,
            requests=self.requests,
            outcomes=outcomes,
            rounds=argument.rounds,
            cost_usd=Decimal("0.001") * len(self.answered),
            waste_usd=Decimal("0.001") * len(self.paid_twice()),
            left_behind=argument.left_behind,
            accepted_at=argument.accepted_at,
            deadline_at=argument.deadline_at,
            finished_at=await self.now(),
        )
