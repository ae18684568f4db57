"""A real store on disk, real jobs in it, and a provider whose files lie in memory."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import zstandard
from groupage.activities.answers import read_batch_line
from groupage.activities.collecting import Limits, collect_batch
from groupage.activities.planning import plan_round
from groupage.activities.preparing import prepare_job
from groupage.activities.providers.base import Answer, ResultFile, SyncCall
from groupage.schemas import (
    BatchPhase,
    BatchStatus,
    ErrorClass,
    JobSpec,
    Outcome,
    ProviderLimits,
    RoundPlan,
    ShardRef,
    ShardReport,
)
from groupage.schemas.activity_calls import CollectBatch, PlanRound, PreparedJob, PrepareJob
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import wire_id
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import OUTCOMES, RowTable
from groupage.store.shard_results import read_shard_rows
from groupage.store.shards import read_members

CHAT = "/v1/chat/completions"
MODEL = "gpt-4o-mini"
NOW = datetime.now(UTC).replace(microsecond=0)


def never() -> threading.Event:
    return threading.Event()


def answer_body(text: str = "fine", *, finish: str = "stop", prompt: int = 100, completion: int = 10) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(NOW.timestamp()),
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
    }


def ok(wire: str, text: str = "fine", **more: Any) -> bytes:
    response = {"status_code": 200, "request_id": "q", "body": answer_body(text, **more)}
    return orjson.dumps({"id": "b", "custom_id": wire, "response": response, "error": None})


def bad(wire: str, code: str = "batch_expired", message: str = "m") -> bytes:
    return orjson.dumps({"id": "b", "custom_id": wire, "response": None, "error": {"code": code, "message": message}})


def http(wire: str, status: int, body: Any) -> bytes:
    response = {"status_code": status, "request_id": "q", "body": body}
    return orjson.dumps({"id": "b", "custom_id": wire, "response": response, "error": None})


def lines(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\n" for row in rows)


@dataclass
class FileProvider:
    """Result files by name, each a list of bodies given one after the other (the last one again and again)."""

    name: str = "openai"
    files: dict[str, list[bytes | ProviderError]] = field(default_factory=dict)
    limit: ProviderLimits = field(
        default_factory=lambda: ProviderLimits(max_requests=50_000, max_bytes=200_000_000, max_line_bytes=10_000_000)
    )
    downloads: Counter[str] = field(default_factory=Counter)
    now: BatchStatus | None = None
    """What a look at the batch says."""
    reply: Callable[[SyncCall], Any] | None = None
    calls: list[SyncCall] = field(default_factory=list)
    open_calls: int = 0
    most_open: int = 0

    def limits(self, endpoint: str, model: str) -> ProviderLimits:
        return self.limit

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
            wire_id.encode(),
            endpoint.encode(),
            body,
        )

    async def status(self, batch_id: str) -> BatchStatus:
        if self.now is None:
            raise ProviderError("no such batch", error_class=ErrorClass.missing, code="not_found", status=404)
        return self.now

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        outputs = [ResultFile("output", ref) for ref in status.output_files]
        return outputs + [ResultFile("errors", ref) for ref in status.error_files]

    async def download(self, file: ResultFile, path: Path) -> int:
        bodies = self.files[file.ref]
        body = bodies[min(self.downloads[file.ref], len(bodies) - 1)]
        self.downloads[file.ref] += 1
        if isinstance(body, ProviderError):
            raise body
        return await asyncio.to_thread(path.write_bytes, body)

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        return read_batch_line(line, endpoint)

    async def complete(self, call: SyncCall) -> Answer:
        assert self.reply is not None
        self.calls.append(call)
        self.open_calls += 1
        self.most_open = max(self.most_open, self.open_calls)
        try:
            result = self.reply(call)
            return await result if asyncio.iscoroutine(result) else result
        finally:
            self.open_calls -= 1


def good_answer(call: SyncCall, text: str = "fine") -> Answer:
    return read_batch_line(ok(call.wire_id, text), call.endpoint)


def failing_answer(call: SyncCall, error_class: ErrorClass, retry_after_s: float | None = None) -> Answer:
    answer = Answer(call.wire_id, Outcome.failed, error_class, f"code_{error_class}", "no")
    answer.retry_after_s = retry_after_s
    return answer


@dataclass
class World:
    """One store, one provider, one job at a time."""

    store: Store
    provider: FileProvider
    spool: Path
    inputs: Path
    job: Any = None

    def prepare(self, rows: Sequence[bytes | dict[str, Any]], key: str = "j", **spec: Any) -> PreparedJob:
        path = self.inputs / f"{key}.jsonl"
        path.write_bytes(b"".join((row if isinstance(row, bytes) else orjson.dumps(row)) + b"\n" for row in rows))
        return self.prepare_from(path.as_uri(), key=key, **spec)

    def prepare_from(self, url: str | None, key: str = "j", **spec: Any) -> PreparedJob:
        call = PrepareJob(spec=JobSpec(key=key, input_url=url, **spec), accepted_at=datetime.now(UTC))
        prepared = prepare_job(self.store, self.provider, call, self.spool, never())
        self.job = prepared.job
        return prepared

    def requests(self, count: int, key: str = "j", **spec: Any) -> PreparedJob:
        return self.prepare([self.request(n) for n in range(count)], key=key, **spec)

    @staticmethod
    def request(n: int, model: str = MODEL, text: str = "") -> dict[str, Any]:
        return {
            "custom_id": f"id-{n}",
            "body": {"model": model, "messages": [{"role": "user", "content": text or f"say {n}"}]},
        }

    def plan(self, round_: int = 0, **options: Any) -> RoundPlan:
        call = PlanRound(job=self.job, round=round_, **options)
        return plan_round(self.store, self.provider, call, self.spool, never())

    def one_shard(self, count: int) -> None:
        """A job of so many requests, planned as one batch."""
        self.requests(count)
        assert self.plan().batch_shards == 1

    def shard(self, round_: int = 0, shard: int = 0) -> ShardRef:
        return ShardRef(job=self.job, round=round_, shard=shard)

    def members(self, round_: int, shard: int = 0) -> list[int]:
        """Indices of a planned shard's requests."""
        return read_members(self.store, self.job.tenant, self.job.key, round_, shard).tolist()

    def wire(self, index: int, round_: int = 0, shard: int = 0) -> str:
        return wire_id(self.shard(round_, shard).tag, index)

    async def collect(
        self, output: Any = None, errors: Any = None, *, round_: int = 0, shard: int = 0, **status: Any
    ) -> ShardReport:
        """`output`, `errors`: a list of rows, or a tuple of whole bodies for one download after the other."""
        names: dict[str, list[str]] = {"output_files": [], "error_files": []}
        for name, kind, body in (("file-out", "output_files", output), ("file-err", "error_files", errors)):
            if body is not None:
                self.provider.files[name] = list(body) if isinstance(body, tuple) else [lines(body)]
                names[kind] = [name]
        fields: dict[str, Any] = {
            "batch_id": "batch_1", "phase": BatchPhase.completed, "raw_state": "completed", "ended_at": NOW, **names, **status,
        }  # fmt: skip
        call = CollectBatch(
            shard=self.shard(round_, shard), status=BatchStatus(**fields), submitted_at=NOW - timedelta(hours=1)
        )
        limits = Limits(self.spool, timedelta(minutes=15), pause_s=0.0)
        return await collect_batch(self.store, self.provider, call, limits)  # type: ignore[arg-type]

    def received(self, name: str) -> bytes:
        """What is kept of the first shard's batch as it came."""
        packed = self.store.get(keys.shard_object(self.job.tenant, self.job.key, 0, 0, name))
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)

    def rows(self, round_: int = 0, shard: int = 0) -> RowTable:
        table = read_shard_rows(self.store, self.job.tenant, self.job.key, round_, shard)
        assert table is not None
        return table

    def outcomes(self, round_: int = 0, shard: int = 0) -> dict[int, Outcome]:
        rows = self.rows(round_, shard).rows
        return {int(row["index"]): OUTCOMES[int(row["outcome"])] for row in rows}
