"""One job, activity by activity, against a real emulator process through the real SDK."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from groupage.activities.batch import BatchActivities
from groupage.activities.data import DataActivities
from groupage.activities.registry import Context
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.emulator.answers import expected_text
from groupage.schemas import (
    BatchStatus,
    ErrorClass,
    FailureAction,
    JobSpec,
    Outcome,
    RoundPlan,
    ShardRef,
    ShardReport,
    Summary,
)
from groupage.schemas.activity_calls import (
    AwaitBatch,
    CancelBatch,
    CollectBatch,
    FinalizeJob,
    PlanRound,
    PrepareJob,
    RunSyncShard,
    SubmitBatch,
)
from groupage.store.reader import JobResults
from provider_world import Emulator, attempt_of, attempts_of

CHAT = "/v1/chat/completions"


def body_of(n: int) -> dict[str, Any]:
    return {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": f"question number {n} ?"}],
        "max_tokens": 50,
    }


class EmulatedJob:
    """`actions` of a round default to: everything that is not permanent goes again by batch."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.emulator = emulator
        self.folder = folder
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.settings = ActivitySettings(
            store_url=(folder / "store").as_uri(),
            spool_dir=self.spool,
            providers={"openai": ProviderSettings(base_url=emulator.base_url, api_key="test")},
            create_visibility_s=0.5,
            heartbeat_s=0.2,
        )
        self._start()
        self.started_at = datetime.now(UTC)
        self.job: Any = None
        self.count = 0

    def _start(self) -> None:
        self.context = Context(self.settings)
        self.data = DataActivities(self.context)
        self.batch = BatchActivities(self.context)

    async def move(self) -> None:
        """To another machine: nothing but the store is left."""
        await self.context.close()
        await asyncio.to_thread(shutil.rmtree, self.spool, ignore_errors=True)
        self._start()

    async def close(self) -> None:
        await self.context.close()

    async def prepare(self, count: int, **spec: Any) -> None:
        path = self.folder / "in.jsonl"
        path.write_bytes(
            b"".join(orjson.dumps({"custom_id": f"id {n}", "body": body_of(n)}) + b"\n" for n in range(count))
        )
        call = PrepareJob(spec=JobSpec(key="job", input_url=path.as_uri(), **spec), accepted_at=self.started_at)
        prepared = await attempt_of(self.data.prepare_job, call)
        self.job, self.count = prepared.job, count

    async def plan(self, round_: int = 0, action: FailureAction = FailureAction.resubmit, **more: Any) -> RoundPlan:
        kept = {ErrorClass.invalid, ErrorClass.account}
        actions = {error_class: action for error_class in ErrorClass if error_class not in kept}
        return await attempt_of(self.data.plan_round, PlanRound(job=self.job, round=round_, actions=actions, **more))

    def shard(self, round_: int, shard: int) -> ShardRef:
        return ShardRef(job=self.job, round=round_, shard=shard)

    async def run_batch(self, round_: int = 0, shard: int = 0, *, cancel_at: int = 0) -> ShardReport:
        """Submit, wait, collect; cancelled once `cancel_at` requests are done, if that is not 0."""
        ref = self.shard(round_, shard)
        submitted = await attempt_of(self.batch.submit_batch, SubmitBatch(shard=ref))
        if cancel_at:
            await self._until_done(submitted.batch_id, cancel_at)
            await attempt_of(self.batch.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
        waiting = AwaitBatch(shard=ref, batch_id=submitted.batch_id, submitted_at=submitted.submitted_at, poll_s=0.05)
        status, _ = await attempts_of(self.batch.await_batch, waiting)
        return await self.collect(ref, status, submitted.submitted_at)

    async def _until_done(self, batch_id: str, requests: int) -> None:
        provider = self.context.provider("openai")
        async with asyncio.timeout(90):
            while (await provider.status(batch_id)).completed < requests:
                self.emulator.advance_at_once("10s")
                await asyncio.sleep(0.05)

    async def collect(self, ref: ShardRef, status: BatchStatus, submitted_at: datetime) -> ShardReport:
        call = CollectBatch(shard=ref, status=status, submitted_at=submitted_at)
        report, _ = await attempts_of(self.data.collect_batch, call)
        return report

    async def run_sync(self, round_: int, shard: int = 0, **more: Any) -> ShardReport:
        options = {"rpm": 60_000, "concurrency": 8, "attempts": 5, "timeout_s": 10.0, **more}
        call = RunSyncShard(
            shard=self.shard(round_, shard), deadline_at=datetime.now(UTC) + timedelta(seconds=60), **options
        )
        return await attempt_of(self.data.run_sync_shard, call)

    async def finalize(self, rounds: int, **more: Any) -> Summary:
        call = FinalizeJob(
            job=self.job, fingerprint="f", rounds=rounds, accepted_at=self.started_at,
            deadline_at=self.started_at + timedelta(hours=24), effective_for_s=3600, **more,
        )  # fmt: skip
        return await attempt_of(self.data.finalize_job, call)

    def results(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in JobResults(self.context.store, self.job.tenant, self.job.key).lines()]

    def check_answers(self, outcomes: Iterable[str] = ("succeeded",)) -> Counter[str]:
        """Each answer is the answer to its own question; returns how often each outcome occurs."""
        rows = self.results()
        assert [row["id"] for row in rows] == [f"id {n}" for n in range(self.count)]
        for n, row in enumerate(rows):
            if row["outcome"] in set(outcomes):
                assert row["text"] == expected_text(CHAT, body_of(n))
                assert row["error"] is None
            if not Outcome(row["outcome"]).answered:
                assert row["error"]["class"]
        return Counter(row["outcome"] for row in rows)
