"""A whole job at one provider, activity by activity: emulated, over a real store and the provider's real SDK."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.activities.data import DataActivities
from groupage.activities.providers.base import Submission, SyncCall
from groupage.activities.registry import Context
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchStatus, ErrorClass, FailureAction, JobSpec, RoundPlan, ShardRef, ShardReport, Summary
from groupage.schemas.activity_calls import (
    CancelBatch,
    CleanUpBatch,
    CollectBatch,
    FinalizeJob,
    PlanRound,
    PrepareJob,
    RunSyncShard,
    SubmitBatch,
    SubmittedBatch,
    SweepOrphans,
)
from groupage.store.reader import JobResults
from provider_world import Emulator, World, attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError

CHAT = "/v1/chat/completions"


WIRE = "gabcdef-abcdefghijklm-r0-s0-1"


def call_of(body: dict[str, Any], endpoint: str = CHAT, timeout_s: float = 20.0) -> SyncCall:
    """One request for the adapter itself."""
    return SyncCall(WIRE, endpoint, orjson.dumps(body), timeout_s)


def chat_body(n: int, model: str) -> dict[str, Any]:
    """A portable request."""
    return {"model": model, "messages": [{"role": "user", "content": f"question number {n} ?"}], "max_tokens": 50}


class JobWorld(World):
    """One job at a time, of portable or native requests. Subclasses name the provider and a model of its.

    What they tell of their provider beside: what of ours lies there (`left`), and how to put something there that
    is somebody else's (`stranger`).
    """

    def __init__(self, emulator: Emulator, folder: Path, **settings: Any) -> None:
        super().__init__(emulator, folder, **settings)
        self.started_at = datetime.now(UTC)
        self.job: Any = None
        self.lines: list[dict[str, Any]] = []

    def address(self) -> dict[str, Any]:
        """Environment variables lead there."""
        return {}

    def left(self) -> list[str]:
        """Names of the files, objects or tables of ours that are at the provider."""
        return [file["id"] for file in self.emulator.state()["files"]]

    def content(self, ref: str) -> bytes | None:
        """What an input holds; None where a provider shows no more than its name, and gives each upload another."""
        return None

    def answer(self, n: int, model: str = "") -> str:
        """The text with which request number n of `planned` is answered: everywhere the same."""
        return expected_text(CHAT, chat_body(n, model or self.model))

    def one_line(self) -> bytes:
        """Of an input."""
        return self.adapter.render("gabcdef-abcdefghijklm-r0-s0-0", CHAT, orjson.dumps(chat_body(0, self.model)))

    async def stranger(self) -> list[str]:
        """Make what is not ours at the provider; names of what has to be left, of those that `left` tells."""
        return []

    def calls(self, name: str) -> int:
        return int(self.emulator.state()["calls"].get(name, 0))

    def _start(self, context: Context) -> None:
        super()._start(context)
        self.data = DataActivities(context)

    def restarted(self) -> "JobWorld":
        """As a new process would have it: nothing but the stores is left."""
        self._start(Context(self.settings, store=self.context.store))
        return self

    def killed(self) -> "JobWorld":
        """As a new process would have it whose predecessor was killed during a create: nothing of it is written."""
        names = self.store.list("default/")
        self.store.delete([key for key in names if "/intents/" in key or key.endswith("batch.json")])
        return self.restarted()

    def submission(self, ref: ShardRef, content: bytes = b"{}\n", *, model: str = "", **more: Any) -> Submission:
        """For the adapter itself, past the activities."""
        path = self.folder / "again.jsonl"
        path.write_bytes(content)
        return Submission(ref.tag, CHAT, model or self.model, path, 10, datetime.now(UTC), **more)

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

    async def submitted(self, ref: ShardRef) -> tuple[SubmittedBatch, list[Any]]:
        """In the end, and the failures before it."""
        return await attempts_of(self.activities.submit_batch, SubmitBatch(shard=ref))

    async def finished(self, ref: ShardRef) -> tuple[SubmittedBatch, BatchStatus]:
        submitted = await self.submit(ref)
        self.emulator.finish()
        return submitted, await self.ended(ref, submitted)

    async def harvested(self, ref: ShardRef) -> tuple[BatchStatus, ShardReport]:
        submitted, status = await self.finished(ref)
        return status, await self.collect(ref, status, submitted)

    async def goes_on(self, ref: ShardRef, submitted: SubmittedBatch) -> ApplicationError:
        """One attempt to await the batch, which does not end the wait; what it raised."""
        with pytest.raises(ApplicationError) as failure:
            await attempt_of(self.activities.await_batch, self.awaiting(ref, submitted.batch_id))
        assert benign(failure.value)
        return failure.value

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
        submitted, status = await self.finished(ref)
        report = await self.collect(ref, status, submitted)
        await self.clean_up(ref, submitted, status)
        return report

    async def clean_up(self, ref: ShardRef, submitted: SubmittedBatch, status: BatchStatus) -> Any:
        files = [*submitted.input_files, *status.output_files, *status.error_files]
        call = CleanUpBatch(shard=ref, batch_id=submitted.batch_id, files=files)
        return (await attempts_of(self.activities.clean_up_batch, call))[0]

    async def stop(self, ref: ShardRef, submitted: SubmittedBatch) -> BatchStatus:
        call = CancelBatch(shard=ref, batch_id=submitted.batch_id)
        return await attempt_of(self.activities.cancel_batch, call)

    async def sweep(self, **more: Any) -> Any:
        call = SweepOrphans(provider=self.name, grace_s=0, **more)
        return await attempt_of(self.activities.sweep_orphans, call)

    async def ours(self, owner: str) -> list[Any]:
        return [one async for one in self.adapter.list_ours(owner)]

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
