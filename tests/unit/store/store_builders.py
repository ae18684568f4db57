"""Builders for tests of the store: input lines, accepted jobs, results."""

import json
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from groupage.schemas import ErrorClass, JobManifest, Outcome, Route, Usage
from groupage.store.intake import SpooledInput, accept_job, spool_requests
from groupage.store.merge import Merged, NoResult, merge_job
from groupage.store.objects import Store
from groupage.store.results import ResultLine
from groupage.store.shard_results import ShardResults, ShardResultWriter

NOW = datetime(2026, 11, 29, 12, 0, 0, 250_000, tzinfo=UTC)
LATER = datetime(2026, 12, 29, tzinfo=UTC)
OWNER = "abcdef"
AT = ("search", "labels-1")
NO_RESULT = NoResult(Outcome.expired, ErrorClass.not_sent, "deadline", "the deadline came first", NOW)


def batch_line(id_: str, text: str = "hello", **body: Any) -> bytes:
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], **body}
    return json.dumps({"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": body}).encode()


def spool(lines: Iterable[bytes] | bytes, **options: Any) -> SpooledInput:
    """Spool lines (joined by newlines) or whole bytes into a folder of its own."""
    data = lines if isinstance(lines, bytes) else b"".join(line + b"\n" for line in lines)
    folder = Path(tempfile.mkdtemp(prefix="spool-"))
    arguments: dict[str, Any] = {"provider": "openai", **options}
    return spool_requests([data] if data else [], folder, **arguments)


def accept(store: Store, spooled: SpooledInput, key: str = AT[1]) -> JobManifest:
    return accept_job(store, spooled, tenant=AT[0], key=key, owner=OWNER)


def canonical(spooled: SpooledInput) -> list[bytes]:
    """All canonical lines, cut by the index rows."""
    found = []
    for segment in range(len(spooled.segments)):
        data, at = spooled.lines(segment), 0
        for size in spooled.rows(segment)["size"].tolist():
            found.append(data[at : at + size])
            at += size
        assert at == len(data)
    return found


def bodies(spooled: SpooledInput) -> list[bytes]:
    rows = [row for segment in range(len(spooled.segments)) for row in spooled.rows(segment)]
    return [line[int(row["body_at"]) : -2] for line, row in zip(canonical(spooled), rows, strict=True)]


def rejections(spooled: SpooledInput) -> list[tuple[int, str]]:
    return [(rejected.line, rejected.code) for rejected in spooled.rejected_lines()]


def answer(index: int, text: str = "fine", **changes: Any) -> ResultLine:
    fields: dict[str, Any] = {
        "index": index,
        "outcome": Outcome.succeeded,
        "provider": "openai",
        "route": Route.batch,
        "rounds": 1,
        "produced_at": NOW,
        "text": text,
        "body": {"choices": [{"message": {"content": text}}]},
        "model": "gpt-4o-mini-2024-07-18",
        "usage": Usage(input_tokens=10, cached_tokens=2, output_tokens=5, reasoning_tokens=1),
        "cost_nano": 1_500,
        "sync_cost_nano": 3_000,
    }
    return ResultLine(**(fields | changes))


def failure(
    index: int, outcome: Outcome = Outcome.expired, error_class: ErrorClass = ErrorClass.expired, **changes: Any
) -> ResultLine:
    fields: dict[str, Any] = {
        "index": index,
        "outcome": outcome,
        "provider": "openai",
        "route": Route.batch,
        "rounds": 1,
        "produced_at": NOW,
        "error_class": error_class,
        "code": "batch_expired",
        "message": "the window ended first",
    }
    return ResultLine(**(fields | changes))


def write_results(
    store: Store, directory: Path, round_: int, shard: int, lines: Iterable[ResultLine], key: str = AT[1]
) -> ShardResults:
    with ShardResultWriter(store, AT[0], key, round_, shard, directory=directory) as writer:
        for line in lines:
            writer.add(line)
        return writer.close()


def merge(
    store: Store, manifest: JobManifest, shards: list[tuple[int, int]], directory: Path, **options: Any
) -> Merged:
    arguments: dict[str, Any] = {"no_result": NO_RESULT, "effective_until": LATER, "directory": directory, **options}
    return merge_job(store, manifest, shards, **arguments)
