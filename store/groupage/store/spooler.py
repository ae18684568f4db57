"""Validated lines to canonical segments on the local disk: what one intake holds while it runs.

Nothing here depends on the number of requests but 8 bytes each, for finding equal ids. Compression,
hashing and writing run in one other thread, beside the parsing.
"""

import hashlib
import json
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Self

import numpy as np
import orjson
import zstandard
from groupage.schemas import ENDPOINTS, NATIVE_ENDPOINTS, Rejected, Request, RequestGroup, SegmentInfo
from groupage.store.duplicates import NO_ID, hash_of, reject_duplicates, write_rejected
from groupage.store.exact import LineRefused, excerpt
from groupage.store.lines import LongLine, physical_lines
from groupage.store.parsing import Parsed, Rules, check_id, parse_line, parse_request
from groupage.store.plain_lines import PlainLine, read_plain
from groupage.store.rows import REJECTED, REQUEST_ROW, Rows
from groupage.store.spooled import Group, SpooledInput

ZSTD_LEVEL = 3
GROUPS_MAX = REJECTED
_ROW = struct.Struct("<IIIHH")
_MIDDLE = {name: b',"endpoint":' + orjson.dumps(name) for name in (*ENDPOINTS, *chain(*NATIVE_ENDPOINTS.values()))}
_NO_REQUEST = b',"endpoint":"","body":null}\n'
"""Ends the line of a rejected input line: it keeps its index and, if it has one, its id."""
_HEARTBEAT_LINES = 8192
_dumps = orjson.dumps


class Spooler:
    """State of one intake, or of one range of an input that several processes take in."""

    def __init__(self, spooled: SpooledInput, rules: Rules, segment_requests: int, segment_bytes: int) -> None:
        self.spooled = spooled
        self._rules = rules
        self._segment_requests = segment_requests
        self._segment_bytes = segment_bytes
        self._lines: list[bytes] = []
        self._rows = bytearray()
        self._held = 0
        self.hashes = array("q")
        self._by_name: dict[tuple[str, str], Group] = {}
        self.groups: list[Group] = []
        self.refused_path = spooled.directory / "refused.jsonl"
        self.refused_file = self.refused_path.open("wb")
        self._content = hashlib.sha256()
        self._refused_content = hashlib.sha256()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._pending: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown(wait=True, cancel_futures=True)
        self.refused_file.close()
        self.refused_path.unlink(missing_ok=True)

    def read_lines(
        self,
        pieces: Iterable[bytes],
        model: str | None,
        endpoint: str,
        limit: int,
        beat: Callable[[int], None],
        *,
        at_start: bool = True,
    ) -> int:
        """Returns how many physical lines there were, blank ones included."""
        add, put, refuse, rules = self._add, self._put, self._refuse, self._rules
        endpoints, groups = rules.endpoints, self._by_name
        short_way = read_plain if rules.check is None else _not_tried
        number = 0
        for physical in physical_lines(pieces, limit, at_start=at_start):
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
        return number

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

    def write_all(self) -> None:
        """Nothing more comes: write the last segment."""
        if self._lines:
            self._close_segment()
        for future in self._pending:
            future.result()
        self.refused_file.close()

    def finish(self, beat: Callable[[int], None]) -> None:
        """Write the last segment, find equal ids, sum up."""
        self.write_all()
        spooled = self.spooled
        spooled.requests = len(self.hashes)
        beat(spooled.requests)
        runs = reject_duplicates(spooled, self.hashes, self.groups, beat)
        write_rejected(spooled, [self.refused_path, *runs])
        spooled.groups = [
            RequestGroup(
                endpoint=group.endpoint,
                model=group.model,
                requests=group.requests,
                bytes=group.bytes,
                tokens=group.tokens,
                max_output_tokens=group.max_output,
            )
            for group in self.groups
        ]
        whole = hashlib.sha256(b"groupage 1\0" + spooled.provider.encode() + b"\0")
        whole.update(self._content.digest() + self._refused_content.digest())
        spooled.fingerprint = whole.hexdigest()

    def group_of(self, endpoint: str, model: str) -> Group | None:
        """None where there are too many."""
        group = self._by_name.get((endpoint, model))
        if group is not None:
            return group
        if len(self.groups) >= GROUPS_MAX:
            return None
        group = self._by_name[endpoint, model] = Group(len(self.groups), endpoint, model, _MIDDLE[endpoint])
        self.groups.append(group)
        return group

    def _add(self, number: int, parsed: Parsed) -> None:
        id_, endpoint, model, labels, body, tokens, max_output = parsed
        group = self.group_of(endpoint, model)
        if group is None:
            self._refuse(number, LineRefused("too_many_models", f"more than {GROUPS_MAX} models in one job"), body)
            return
        self._put(number, PlainLine(id_, group, body, tokens, max_output), labels)

    def _put(self, number: int, plain: PlainLine, labels: bytes = b"") -> None:
        id_, group, body, tokens, max_output = plain
        group.max_output += max_output
        middle = group.middle
        if labels:
            middle += b',"labels":' + labels
        line = b'{"id":%b%b,"body":%b}\n' % (_dumps(id_), middle, body)
        size = len(line)
        self.hashes.append(hash_of(id_))
        self._append(line, size, _ROW.pack(number, size, tokens, size - len(body) - 2, group.number))

    def _append(self, line: bytes, size: int, row: bytes) -> None:
        self._lines.append(line)
        self._rows += row
        self._held += size
        if self._held >= self._segment_bytes or len(self._lines) >= self._segment_requests:
            self._close_segment()

    def _refuse(self, number: int, error: LineRefused, raw: bytes, size: int = 0) -> None:
        rejected = Rejected(
            index=len(self.hashes),
            line=number,
            code=error.code,
            message=error.message,
            excerpt=excerpt(raw, error.at),
        )
        self.refused_file.write(rejected.model_dump_json().encode() + b"\n")
        self.feed_refused(raw + b"\n%d\n" % size)
        line = b'{"id":%b%b' % (_id_of(raw), _NO_REQUEST)
        self.hashes.append(NO_ID)
        self._append(line, len(line), _ROW.pack(number, len(line), 0, len(line) - 6, REJECTED))

    def _close_segment(self) -> None:
        number = len(self.spooled.segments)
        self.spooled.segments.append(SegmentInfo(requests=len(self._lines), bytes=self._held))
        # Two segments wait at most: the writer is never so far behind that memory grows.
        while len(self._pending) >= 2:
            self._pending.pop(0).result()
        self._pending.append(self._writer.submit(self._write_segment, number, self._lines, bytes(self._rows)))
        self._lines, self._rows, self._held = [], bytearray(), 0

    def _write_segment(self, number: int, lines: list[bytes], rows: bytes) -> None:
        data = b"".join(lines)
        self.feed_content(data)
        self.spooled.data_path(number).write_bytes(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data))
        self.spooled.index_path(number).write_bytes(rows)
        self.sum_up(np.frombuffer(rows, REQUEST_ROW))

    def feed_content(self, data: bytes) -> None:
        """Canonical content, in order: the fingerprint is made of it."""
        self._content.update(data)

    def feed_refused(self, data: bytes) -> None:
        self._refused_content.update(data)

    def sum_up(self, rows: Rows) -> None:
        """Add a segment's rows to the sums of their groups."""
        rows = rows[rows["group"] != REJECTED]
        # Sums of doubles: exact below 2**53.
        counts = np.bincount(rows["group"])
        sizes = np.bincount(rows["group"], rows["size"] - rows["body_at"] - 2)
        tokens = np.bincount(rows["group"], rows["tokens"])
        for number in np.flatnonzero(counts).tolist():
            group = self.groups[number]
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
