"""Equal ids among millions of requests, found with 8 bytes a request.

Intake keeps a 64-bit hash of each id. Equal hashes are candidates; those are compared exactly by
reading their ids again from the local spool, a bounded number of them at a time.
"""

import heapq
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import zstandard
from groupage.schemas import Rejected
from groupage.schemas.limits import PROBLEMS_SHOWN
from groupage.store.estimates import output_tokens
from groupage.store.exact import excerpt, read_exactly
from groupage.store.rows import REJECTED
from groupage.store.segments import ENDPOINT_MARK, ID_AT
from groupage.store.spooled import Group, SpooledInput

NO_ID = 0
"""Hash of a line that takes no part."""

_BUCKETS = 16
_PIECE = 1 << 20
CANDIDATES_AT_ONCE = 500_000
"""Distinct ids held in memory while comparing, some 100 MB. More are compared in several passes."""

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Duplicate:
    """The request at `offset` of `segment`, on input line `line`, has the id of the one on line `first`."""

    segment: int
    offset: int
    line: int
    first: int
    text: bytes


def hash_of(id_: str) -> int:
    """Signed 64 bits, never NO_ID; differs from process to process."""
    return hash(id_) or 1


def reject_duplicates(
    spooled: SpooledInput, hashes: "array[int]", groups: list[Group], beat: Callable[[int], None]
) -> list[Path]:
    """Mark requests whose id an earlier one has as rejected, in the index rows and in the groups' sums.

    `hashes[index]` is from hash_of. Returns files of Rejected rows, each sorted by index.
    """
    values = np.frombuffer(hashes, dtype=np.int64)
    repeated = _repeated(values)
    starts = np.cumsum([0, *(segment.requests for segment in spooled.segments)], dtype=np.int64)
    runs: list[Path] = []
    for at in range(0, len(repeated), CANDIDATES_AT_ONCE):
        candidates = _candidates(values, repeated[at : at + CANDIDATES_AT_ONCE])
        path = spooled.directory / f"duplicates-{len(runs)}.jsonl"
        with path.open("wb") as file:
            found = _compare(spooled, candidates, starts)
            for segment, duplicates in groupby(found, key=lambda duplicate: duplicate.segment):
                beat(spooled.requests)
                for rejected in _reject(spooled, segment, int(starts[segment]), list(duplicates), groups):
                    file.write(rejected.model_dump_json().encode() + b"\n")
        runs.append(path)
    return runs


def write_rejected(spooled: SpooledInput, runs: list[Path]) -> None:
    """Merge files of Rejected rows, each sorted by index, into the one that is stored; then delete them."""
    compressor = zstandard.ZstdCompressor(level=3)
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in runs]
        out = stack.enter_context(spooled.rejected_path.open("wb"))
        packed = stack.enter_context(compressor.stream_writer(out, closefd=False))
        for line in heapq.merge(*files, key=_index_of):
            packed.write(line)
            spooled.rejected += 1
            if len(spooled.problems) < PROBLEMS_SHOWN:
                spooled.problems.append(Rejected.model_validate_json(line).one_line())
    for path in runs:
        path.unlink()


def _index_of(line: bytes) -> int:
    index: int = orjson.loads(line)["index"]
    return index


def _repeated(values: Int64s) -> Int64s:
    """Hashes that occur more than once. In buckets and pieces, so that sorting needs little memory on top."""
    found = []
    pieces = [values[at : at + _PIECE] for at in range(0, len(values), _PIECE)] or [values]
    for bucket in range(_BUCKETS):
        part = np.concatenate([piece[(piece & (_BUCKETS - 1)) == bucket] for piece in pieces])
        part.sort()
        found.append(np.unique(part[1:][part[1:] == part[:-1]]))
    repeated = np.sort(np.concatenate(found))
    several: Int64s = repeated[repeated != NO_ID]
    return several


def _candidates(values: Int64s, hashes: Int64s) -> Int64s:
    """Indices of the requests that have one of these (sorted) hashes."""
    found = []
    for at in range(0, len(values), _PIECE):
        part = values[at : at + _PIECE]
        slots = np.minimum(np.searchsorted(hashes, part), len(hashes) - 1)
        found.append(np.flatnonzero(hashes[slots] == part) + at)
    candidates: Int64s = np.concatenate(found)
    return candidates


def _compare(spooled: SpooledInput, candidates: Int64s, starts: Int64s) -> Iterator[_Duplicate]:
    """Of the candidates (rising indices) those whose id an earlier one has."""
    first_line: dict[bytes, int] = {}
    cuts = np.searchsorted(candidates, starts)
    for segment in range(len(spooled.segments)):
        offsets = candidates[cuts[segment] : cuts[segment + 1]] - starts[segment]
        if not len(offsets):
            continue
        data = spooled.lines(segment)
        rows = spooled.rows(segment)
        ends = np.cumsum(rows["size"], dtype=np.int64)
        for offset in offsets.tolist():
            end = int(ends[offset])
            start = end - int(rows["size"][offset])
            line = int(rows["line"][offset])
            first = first_line.setdefault(data[start + ID_AT : data.index(ENDPOINT_MARK, start)], line)
            if first != line:
                yield _Duplicate(segment, offset, line, first, data[start:end])


def _reject(
    spooled: SpooledInput, segment: int, first_index: int, duplicates: list[_Duplicate], groups: list[Group]
) -> Iterator[Rejected]:
    rows = spooled.rows(segment)
    for duplicate in duplicates:
        row = rows[duplicate.offset]
        group = groups[int(row["group"])]
        body = duplicate.text[int(row["body_at"]) : -2]
        value, _ = read_exactly(body)
        group.requests -= 1
        group.bytes -= len(body)
        group.tokens -= int(row["tokens"])
        group.max_output -= output_tokens(group.endpoint, value)
        row["group"] = REJECTED
        id_ = orjson.loads(duplicate.text[ID_AT : duplicate.text.index(ENDPOINT_MARK)])
        yield Rejected(
            index=first_index + duplicate.offset,
            line=duplicate.line,
            code="duplicate_id",
            message=f"the id {id_[:80]!r} of line {duplicate.line} is also on line {duplicate.first}",
            excerpt=excerpt(duplicate.text),
        )
    rows.tofile(spooled.index_path(segment))
