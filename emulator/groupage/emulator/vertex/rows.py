"""Rows on their way out: what the plan makes of the requests that they repeat, and into how many files they go."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.faults import chosen
from groupage.emulator.life import Batch


def rows_of(results: Path, batch: Batch) -> Iterator[bytes]:
    """The lines to deliver. Lines that are damaged go out as they are."""
    unlabelled, rewritten = batch.effect("unlabelled"), batch.effect("rewritten")
    silent = batch.effect("request_only") is not None
    with results.open("rb") as lines:
        for number, line in enumerate(lines):
            # Rows with something in them begin with their status.
            if not silent and not line.startswith((b'{"status"', b"[")):
                continue
            drop = unlabelled is not None and chosen(unlabelled["at"], 1, "unlabelled", number * 0x9E3779B97F4A7C15)
            yield _with_request(line, labels=not drop, rewrite=rewritten is not None) if drop or rewritten else line


def _with_request(line: bytes, *, labels: bool, rewrite: bool) -> bytes:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    if not isinstance(row, dict) or not isinstance(row.get("request"), dict):
        return line
    request = row["request"]
    if not labels:
        request.pop("labels", None)
    row["request"] = as_server_writes(request) if rewrite else request
    return orjson.dumps(row) + b"\n"


def as_server_writes(value: Any) -> Any:
    """Through a message of theirs and back: names in camelCase and sorted, no defaults, whole floats as floats."""
    if isinstance(value, dict):
        named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): inner for name, inner in value.items()}
        if "labels" in value:
            named["labels"] = value["labels"]
        written = {name: inner if name == "labels" else as_server_writes(inner) for name, inner in named.items()}
        return {name: written[name] for name in sorted(written) if written[name] not in (None, "", [], {}, False)}
    if isinstance(value, list):
        return [as_server_writes(inner) for inner in value]
    return float(value) if type(value) is int else value


def split(rows: Iterator[bytes], folder: Path, files: int) -> list[tuple[str, Path]]:
    """Written to the local disk as (name at its place, path); no file where there is no row."""
    names = ["predictions.jsonl"] if files == 1 else [f"predictions_{at:04d}.jsonl" for at in range(1, files + 1)]
    written = [0] * files
    handles = [(folder / name).open("wb") for name in names]
    try:
        for number, row in enumerate(rows):
            written[number % files] += handles[number % files].write(row)
    finally:
        for handle in handles:
            handle.close()
    return [(name, folder / name) for name, size in zip(names, written, strict=True) if size]
