"""A whole job at one provider, activity by activity: emulated, over a real store and the provider's real SDK."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from groupage.activities.batch import BatchActivities
from groupage.activities.data import DataActivities
from groupage.activities.registry import Context
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchStatus, ErrorClass, FailureAction, JobSpec, RoundPlan, ShardRef, ShardReport, Summary
from groupage.schemas.activity_calls import (
    CleanUpBatch,
    CollectBatch,
    FinalizeJob,
    PlanRound,
    PrepareJob,
    RunSyncShard,
    SubmittedBatch,
)
from groupage.store.reader import JobResults
from provider_world import Emulator, World, attempt_of, attempts_of

CHAT = "/v1/chat/completions"


def chat_body(n: int, model: str) -> dict[str, Any]:
    """A portable request."""
    return {"model": model, "messages": [{"role": "user", "content": f"question number {n} ?"}], "max_tokens": 50}


class JobWorld(World):
    """One job at a time, of portable or native requests. Subclasses name the provider and a model of its."""

    name: str
    model: str

    def __init__(self, emulator: Emulator, folder: Path, **settings: Any) -> None:
        provider = ProviderSettings(**settings.pop("provider", {}))
        super().__init__(emulator, folder, **settings)
        self.settings = dataclasses.replace(self.settings, providers={self.name: provider})
        self._start(Context(self.settings, store=self.context.store))
        self.started_at = datetime.now(UTC)
        self.job: Any = None
        self.lines: list[dict[str, Any]] = []

    def _start(self, context: Context) -> None:
        self.context, self.contexts = context, [*self.contexts, context]
        self.activities, self.data = BatchActivities(context), DataActivities(context)

    def restarted(self) -> "JobWorld":
        """As a new process would have it: nothing but the stores is left."""
        self._start(Context(self.settings, store=self.context.store))
        return self

    async def prepare(self, lines: list[dict[str, Any]], **spec: Any) -> None:
        self._jobs += 1
        path = self.folder / f"in-{self._jobs}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        spec = {"key": f"job-{self._jobs}", "provider": self.name, "input_url": path.as_uri(), **spec}
        call = PrepareJob(spec=JobSpec(**spec), accepted_at=self.started_at)
        self.job, self.lines = (await attempt_of(self.data.prepare_job, call)).job, lines

    async def plan(self, round_: int = 0, **more: Any) -> RoundPlan:
        kept = {ErrorClass.invalid, ErrorClass.account}
        actions = {one: FailureAction.resubmit for one in ErrorClass if one not in kept}
        return await attempt_of(self.data.plan_round, PlanRound(job=self.job, round=round_, actions=actions, **more))

    async def planned(self, count: int = 10, model: str = "") -> ShardRef:
        """A portable job of so many requests, planned; its one shard."""
        await self.prepare([{"id": f"id {n}", "body": chat_body(n, model or self.model)} for n in range(count)])
        plan = await self.plan()
        assert (plan.batch_shards, plan.sync_shards) == (1, 0)
        return self.ref()

    def ref(self, round_: int = 0, shard: int = 0) -> ShardRef:
        return ShardRef(job=self.job, round=round_, shard=shard)

    async def ended(self, ref: ShardRef, submitted: SubmittedBatch) -> BatchStatus:
        status, _ = await attempts_of(self.activities.await_batch, self.awaiting(ref, submitted.batch_id))
        return status

    async def collect(self, ref: ShardRef, status: BatchStatus, submitted: SubmittedBatch) -> ShardReport:
        call = CollectBatch(shard=ref, status=status, submitted_at=submitted.submitted_at)
        report, _ = await attempts_of(self.data.collect_batch, call)
        return report

    async def run_batch(self, round_: int = 0, shard: int = 0) -> ShardReport:
        """Submit, let it end, collect, clean up."""
        ref = self.ref(round_, shard)
        submitted = await self.submit(ref)
        self.emulator.finish()
        status = await self.ended(ref, submitted)
        report = await self.collect(ref, status, submitted)
        await self.clean_up(ref, submitted, status)
        return report

    async def clean_up(self, ref: ShardRef, submitted: SubmittedBatch, status: BatchStatus) -> Any:
        files = [*submitted.input_files, *status.output_files, *status.error_files]
        call = CleanUpBatch(shard=ref, batch_id=submitted.batch_id, files=files)
        return (await attempts_of(self.activities.clean_up_batch, call))[0]

    async def run_sync(self, round_: int, shard: int = 0) -> ShardReport:
        call = RunSyncShard(
            shard=self.ref(round_, shard), deadline_at=datetime.now(UTC) + timedelta(seconds=60), rpm=60_000,
            concurrency=8, attempts=5, timeout_s=10.0,
        )  # fmt: skip
        return await attempt_of(self.data.run_sync_shard, call)

    async def finalize(self, rounds: int) -> Summary:
        call = FinalizeJob(
            job=self.job, fingerprint="f", rounds=rounds, accepted_at=self.started_at,
            deadline_at=self.started_at + timedelta(hours=24), effective_for_s=3600,
        )  # fmt: skip
        return await attempt_of(self.data.finalize_job, call)

    def results(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in JobResults(self.context.store, self.job.tenant, self.job.key).lines()]
