"""One range of a large input file, as a process of its own takes it in (range_process.py).

A range is taken in as if it were a whole input, into a folder of its own, and then joined to what came before it
in the file. So the content, its fingerprint and its refusals are those of a single process; only where segments
end may differ.
"""

import errno
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard
from groupage.schemas import Message, Rejected, SegmentInfo
from groupage.store.lines import READ_BYTES, read_chunks
from groupage.store.parsing import rules_of
from groupage.store.rows import REJECTED
from groupage.store.spooled import SpooledInput
from groupage.store.spooler import Spooler

_HASHES = "hashes"
_REFUSED_ROWS = "refused-rows.jsonl"
_REFUSED_RAW = "refused-raw"


class TooManyGroups(Exception):
    """All ranges together have more groups than one job may: which lines are refused for it, a single process says."""


class RangeOrder(Message):
    """What to take in: the lines from `start` to `end`."""

    path: str
    file: tuple[int, int]
    """Of `file_identity`: the path may name another file by the time that a range of it is read."""
    start: int = 0
    end: int = 0
    directory: str
    provider: str
    """The adapter whose rules count."""
    model: str | None
    endpoint: str
    max_line_bytes: int
    segment_requests: int
    segment_bytes: int


class RangeSpooled(Message):
    """What came of it."""

    lines: int
    segments: list[SegmentInfo]
    groups: list[tuple[str, str, int]]
    """Endpoint, model, and the sum of output limits."""


class _RangeSpooler(Spooler):
    """Keeps what only makes sense in the order of the whole file."""

    def __init__(self, order: RangeOrder, spooled: SpooledInput, refused_raw: BinaryIO) -> None:
        super().__init__(spooled, rules_of(order.provider), order.segment_requests, order.segment_bytes)
        self._refused_raw = refused_raw

    def feed_content(self, data: bytes) -> None:
        """Read from the segments again by `join`."""

    def feed_refused(self, data: bytes) -> None:
        self._refused_raw.write(data)


def line_ranges(path: Path, size: int) -> Iterator[tuple[int, int]]:
    """The file in pieces of about `size` bytes that end with a line; the last one at the file's end."""
    whole = path.stat().st_size
    start = 0
    with path.open("rb") as file:
        while start < whole:
            end = start + size
            file.seek(end - 1)
            while end < whole:
                piece = file.read(1 << 16)
                at = piece.find(b"\n")
                if at >= 0 or not piece:
                    end = file.tell() - len(piece) + at + 1
                    break
                end = file.tell()
            yield start, min(end, whole)
            start = end


def spool_range(order: RangeOrder) -> RangeSpooled:
    """Take a range in. Raises OSError, also where the path names another file now."""
    directory = Path(order.directory)
    directory.mkdir()
    spooled = SpooledInput(directory, order.provider)
    with (directory / _REFUSED_RAW).open("wb") as raw, _RangeSpooler(order, spooled, raw) as spooler:
        pieces = _pieces(order)
        lines = spooler.read_lines(
            pieces, order.model, order.endpoint, order.max_line_bytes, lambda _: None, at_start=not order.start
        )
        spooler.write_all()
        with (directory / _HASHES).open("wb") as file:
            spooler.hashes.tofile(file)
        spooler.refused_path.rename(directory / _REFUSED_ROWS)
    groups = [(group.endpoint, group.model, group.max_output) for group in spooler.groups]
    return RangeSpooled(lines=lines, segments=spooled.segments, groups=groups)


def join(whole: Spooler, directory: Path, part: RangeSpooled, lines_before: int) -> None:
    """Add a range to what came before it; its files move. Raises TooManyGroups, OSError."""
    first = len(whole.hashes)
    for rejected in _refused_rows(directory):
        moved = rejected.model_copy(update={"index": rejected.index + first, "line": rejected.line + lines_before})
        whole.refused_file.write(moved.model_dump_json().encode() + b"\n")
    with (directory / _REFUSED_RAW).open("rb") as raw:
        for piece in read_chunks(raw):
            whole.feed_refused(piece)
    numbers = np.full(REJECTED + 1, REJECTED, dtype=np.uint16)
    for number, (endpoint, model, max_output) in enumerate(part.groups):
        group = whole.group_of(endpoint, model)
        if group is None:
            raise TooManyGroups
        group.max_output += max_output
        numbers[number] = group.number
    there = SpooledInput(directory, whole.spooled.provider)
    for segment, info in enumerate(part.segments):
        number = len(whole.spooled.segments)
        whole.spooled.segments.append(info)
        whole.feed_content(zstandard.ZstdDecompressor().decompress(there.data_path(segment).read_bytes()))
        there.data_path(segment).rename(whole.spooled.data_path(number))
        rows = there.rows(segment)
        rows["line"] += lines_before
        rows["group"] = numbers[rows["group"]]
        rows.tofile(whole.spooled.index_path(number))
        whole.sum_up(rows)
    hashes = array("q")
    hashes.frombytes((directory / _HASHES).read_bytes())
    whole.hashes.extend(hashes)


def _refused_rows(directory: Path) -> Iterator[Rejected]:
    with (directory / _REFUSED_ROWS).open("rb") as rows:
        for row in rows:
            yield Rejected.model_validate_json(row)


def file_identity(status: os.stat_result) -> tuple[int, int]:
    """(device, inode)"""
    return status.st_dev, status.st_ino


def _pieces(order: RangeOrder) -> Iterator[bytes]:
    start, end = order.start, order.end
    with Path(order.path).open("rb") as file:
        if file_identity(os.fstat(file.fileno())) != order.file:
            raise OSError(errno.ESTALE, "another file stands there now", order.path)
        file.seek(start)
        while start < end:
            piece = file.read(min(READ_BYTES, end - start))
            if not piece:
                raise OSError(errno.ESTALE, f"the file ends before byte {end} now", order.path)
            start += len(piece)
            yield piece
