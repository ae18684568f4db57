"""Intake, first half: raw input to validated, canonical segments on the local disk.

Nothing here depends on the number of requests but 8 bytes each, for finding equal ids. Compression,
hashing and writing run in one other thread, beside the parsing.
"""

import hashlib
import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Self, cast

import numpy as np
import orjson
import zstandard
from groupage.schemas import (
    DEFAULT_ENDPOINT,
    ENDPOINTS,
    NATIVE_ENDPOINTS,
    Rejected,
    Request,
    RequestGroup,
    SegmentInfo,
    endpoints_of,
)
from groupage.schemas.errors import UsageError
from groupage.schemas.limits import LINE_MAX_BYTES, SEGMENT_BYTES, SEGMENT_REQUESTS
from groupage.store.duplicates import NO_ID, hash_of, reject_duplicates, write_rejected
from groupage.store.exact import LineRefused, excerpt
from groupage.store.lines import LongLine, physical_lines, read_chunks
from groupage.store.parsing import Parsed, Rules, check_id, parse_line, parse_request, rules_of
from groupage.store.plain_lines import PlainLine, read_plain
from groupage.store.rows import REJECTED, REQUEST_ROW, Rows
from groupage.store.spooled import Group, SpooledInput

Source = Path | BinaryIO | Iterable[bytes] | Iterable[Request]
"""A JSONL file, an open one, its bytes in pieces of any size, or requests made in Python."""

ZSTD_LEVEL = 3
GROUPS_MAX = REJECTED
_ROW = struct.Struct("<IIIHH")
_MIDDLE = {name: b',"endpoint":' + orjson.dumps(name) for name in (*ENDPOINTS, *chain(*NATIVE_ENDPOINTS.values()))}
_NO_REQUEST = b',"endpoint":"","body":null}\n'
"""Ends the line of a rejected input line: it keeps its index and, if it has one, its id."""
_HEARTBEAT_LINES = 8192
_dumps = orjson.dumps


def spool_requests(
    source: Source,
    directory: Path,
    *,
    provider: str,
    dialect: str | None = None,
    model: str | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
    max_line_bytes: int = LINE_MAX_BYTES,
    segment_requests: int = SEGMENT_REQUESTS,
    segment_bytes: int = SEGMENT_BYTES,
    heartbeat: Callable[[int], None] | None = None,
) -> SpooledInput:
    """Read, validate and spool all of `source` into `directory`, which is made and must be empty.

    Bad lines are collected, not raised. `model` and `endpoint` stand in where a line has none. `dialect`
    is the adapter whose endpoints and words count, if it is not of the provider's own name. `heartbeat` is called with the number of lines read, now and then. Raises UsageError for a default
    endpoint that there is not.
    """
    rules = rules_of(dialect or provider)
    if endpoint not in endpoints_of(rules.provider):
        raise UsageError(f"endpoint {endpoint!r} is none of {', '.join(endpoints_of(rules.provider))}")
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise UsageError(f"the spool directory {directory.name} is not empty")
    spooled = SpooledInput(directory, provider)
    with _Spooler(spooled, rules, segment_requests, segment_bytes) as spooler:
        beat = heartbeat or _no_heartbeat
        if isinstance(source, Path):
            with source.open("rb") as file:
                spooler.read_lines(read_chunks(file), model, endpoint, max_line_bytes, beat)
        elif hasattr(source, "read"):
            spooler.read_lines(read_chunks(cast("BinaryIO", source)), model, endpoint, max_line_bytes, beat)
        else:
            items = iter(source)
            for first in items:
                rest = chain((first,), items)
                if isinstance(first, Request):
                    spooler.read_requests(cast("Iterator[Request]", rest), model, beat)
                else:
                    spooler.read_lines(cast("Iterator[bytes]", rest), model, endpoint, max_line_bytes, beat)
        spooler.finish(beat)
    return spooled


def _no_heartbeat(_lines: int) -> None:
    return


class _Spooler:
    """State of one intake; see spool_requests."""

    def __init__(self, spooled: SpooledInput, rules: Rules, segment_requests: int, segment_bytes: int) -> None:
        self._spooled = spooled
        self._rules = rules
        self._segment_requests = segment_requests
        self._segment_bytes = segment_bytes
        self._lines: list[bytes] = []
        self._rows = bytearray()
        self._held = 0
        self._hashes = array("q")
        self._groups: dict[tuple[str, str], Group] = {}
        self._by_number: list[Group] = []
        self._refused = spooled.directory / "refused.jsonl"
        self._refused_file = self._refused.open("wb")
        self._content = hashlib.sha256()
        self._refused_content = hashlib.sha256()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._pending: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown(wait=True, cancel_futures=True)
        self._refused_file.close()
        self._refused.unlink(missing_ok=True)

    def read_lines(
        self, pieces: Iterable[bytes], model: str | None, endpoint: str, limit: int, beat: Callable[[int], None]
    ) -> None:
        add, put, refuse, rules = self._add, self._put, self._refuse, self._rules
        endpoints, groups = rules.endpoints, self._groups
        short_way = read_plain if rules.check is None else _not_tried
        number = 0
        for physical in physical_lines(pieces, limit):
            number += 1
            if not number % _HEARTBEAT_LINES:
                beat(number)
            if isinstance(physical, LongLine):
                error = LineRefused("too_long", f"{physical.size} bytes; a line may have {limit}")
                refuse(number, error, physical.head, physical.size)
                continue
            plain = short_way(physical, endpoints, groups)
            if plain is not None:
                put(number, plain)
                continue
            raw = physical.strip()
            if not raw:
                continue
            try:
                parsed = parse_line(raw, model, endpoint, rules)
            except LineRefused as refused:
                refuse(number, refused, raw)
            else:
                add(number, parsed)

    def read_requests(self, requests: Iterable[Request], model: str | None, beat: Callable[[int], None]) -> None:
        for number, request in enumerate(requests, 1):
            if not number % _HEARTBEAT_LINES:
                beat(number)
            try:
                parsed = parse_request(request, model, self._rules)
            except LineRefused as error:
                self._refuse(number, error, json.dumps({"id": request.id}).encode())
            else:
                self._add(number, parsed)

    def finish(self, beat: Callable[[int], None]) -> None:
        """Write the last segment, find equal ids, sum up."""
        if self._lines:
            self._close_segment()
        for future in self._pending:
            future.result()
        self._refused_file.close()
        spooled = self._spooled
        spooled.requests = len(self._hashes)
        beat(spooled.requests)
        runs = reject_duplicates(spooled, self._hashes, self._by_number, beat)
        write_rejected(spooled, [self._refused, *runs])
        spooled.groups = [
            RequestGroup(
                endpoint=group.endpoint,
                model=group.model,
                requests=group.requests,
                bytes=group.bytes,
                tokens=group.tokens,
                max_output_tokens=group.max_output,
            )
            for group in self._by_number
        ]
        whole = hashlib.sha256(b"groupage 1\0" + spooled.provider.encode() + b"\0")
        whole.update(self._content.digest() + self._refused_content.digest())
        spooled.fingerprint = whole.hexdigest()

    def _add(self, number: int, parsed: Parsed) -> None:
        id_, endpoint, model, labels, body, tokens, max_output = parsed
        group = self._groups.get((endpoint, model))
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                self._refuse(number, LineRefused("too_many_models", f"more than {GROUPS_MAX} models in one job"), body)
                return
            group = self._groups[endpoint, model] = Group(len(self._groups), endpoint, model, _MIDDLE[endpoint])
            self._by_number.append(group)
        self._put(number, PlainLine(id_, group, body, tokens, max_output), labels)

    def _put(self, number: int, plain: PlainLine, labels: bytes = b"") -> None:
        id_, group, body, tokens, max_output = plain
        group.max_output += max_output
        middle = group.middle
        if labels:
            middle += b',"labels":' + labels
        line = b'{"id":%b%b,"body":%b}\n' % (_dumps(id_), middle, body)
        size = len(line)
        self._hashes.append(hash_of(id_))
        self._append(line, size, _ROW.pack(number, size, tokens, size - len(body) - 2, group.number))

    def _append(self, line: bytes, size: int, row: bytes) -> None:
        self._lines.append(line)
        self._rows += row
        self._held += size
        if self._held >= self._segment_bytes or len(self._lines) >= self._segment_requests:
            self._close_segment()

    def _refuse(self, number: int, error: LineRefused, raw: bytes, size: int = 0) -> None:
        rejected = Rejected(
            index=len(self._hashes),
            line=number,
            code=error.code,
            message=error.message,
            excerpt=excerpt(raw, error.at),
        )
        self._refused_file.write(rejected.model_dump_json().encode() + b"\n")
        self._refused_content.update(raw + b"\n%d\n" % size)
        line = b'{"id":%b%b' % (_id_of(raw), _NO_REQUEST)
        self._hashes.append(NO_ID)
        self._append(line, len(line), _ROW.pack(number, len(line), 0, len(line) - 6, REJECTED))

    def _close_segment(self) -> None:
        number = len(self._spooled.segments)
        self._spooled.segments.append(SegmentInfo(requests=len(self._lines), bytes=self._held))
        # Two segments wait at most: the writer is never so far behind that memory grows.
        while len(self._pending) >= 2:
            self._pending.pop(0).result()
        self._pending.append(self._writer.submit(self._write_segment, number, self._lines, bytes(self._rows)))
        self._lines, self._rows, self._held = [], bytearray(), 0

    def _write_segment(self, number: int, lines: list[bytes], rows: bytes) -> None:
        data = b"".join(lines)
        self._content.update(data)
        self._spooled.data_path(number).write_bytes(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data))
        self._spooled.index_path(number).write_bytes(rows)
        self._sum_up(np.frombuffer(rows, REQUEST_ROW))

    def _sum_up(self, rows: Rows) -> None:
        """Add a segment's rows to the sums of their groups."""
        rows = rows[rows["group"] != REJECTED]
        # Sums of doubles: exact below 2**53.
        counts = np.bincount(rows["group"])
        sizes = np.bincount(rows["group"], rows["size"] - rows["body_at"] - 2)
        tokens = np.bincount(rows["group"], rows["tokens"])
        for number in np.flatnonzero(counts).tolist():
            group = self._by_number[number]
            group.requests += int(counts[number])
            group.bytes += int(sizes[number])
            group.tokens += int(tokens[number])


def _not_tried(
    _raw: bytes, _endpoints: Mapping[str, str], _groups: Mapping[tuple[str, str], Group]
) -> PlainLine | None:
    return None


def _id_of(raw: bytes) -> bytes:
    """The id's JSON of a refused line, null where it has none that could be returned."""
    try:
        obj = orjson.loads(raw)
        return orjson.dumps(check_id(obj.get("custom_id") or obj.get("id"))) if type(obj) is dict else b"null"
    except (orjson.JSONDecodeError, LineRefused):
        return b"null"
