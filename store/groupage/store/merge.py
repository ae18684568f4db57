"""All rounds of a job into one result line a request, in input order, with the ledger and the sums.

Of several results of one request an answered one beats an unanswered one; among answered ones the
earliest round stays and the others are waste; among unanswered ones the latest stays. Input lines
that were rejected, and requests that no shard has a result of, get a line as well.

One part per request segment. Nothing held in memory grows with the job: a segment, and of each shard
that is open the rows and one block. Every part carries a digest of all that went into the merge, so
that a merge which was interrupted goes on after the last whole part, and never mixes two merges.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from groupage.schemas import ErrorClass, JobManifest, Outcome, Rejected, Route
from groupage.schemas.errors import StoreError
from groupage.store import keys
from groupage.store.assembly import Layout, assemble, layout_of
from groupage.store.cursors import ShardCursor
from groupage.store.error_words import ErrorWords
from groupage.store.ledger import LedgerWriter
from groupage.store.objects import Store
from groupage.store.part_writer import PartWriter
from groupage.store.results import FRAGMENT_END, ResultLine, encode_fragment, iso, make_rows, result_row
from groupage.store.rows import ANSWERED_MAX, REJECTED, Names, Rows, RowTable, unpack_rows
from groupage.store.segments import Segment, SegmentReader
from groupage.store.shard_results import ShardResults, Tally, TallyCounter, read_shard_results

BLOCK_BYTES = 2 << 20
"""Fragments in memory at a time, unless one alone is larger."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NoResult:
    """What stands for a request that no shard has a result of. From the caller's message, not the clock:
    a merge that runs again must write the same bytes.
    """

    outcome: Outcome
    error_class: ErrorClass
    code: str
    message: str
    produced_at: datetime


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did. `without_results` names shards ("round-shard") that have no complete results;
    `paid_twice` counts answers beyond the first of a request (their cost is in the tally's waste);
    `error_messages` are "class/code: message" and how many say so, most frequent first.
    """

    tally: Tally
    parts: int
    error_messages: list[tuple[str, int]]
    resumed_parts: int = 0
    paid_twice: int = 0
    without_results: list[str] = field(default_factory=list)


def merge_job(
    store: Store,
    manifest: JobManifest,
    shards: Sequence[tuple[int, int]],
    *,
    no_result: NoResult,
    effective_until: datetime | None,
    directory: Path,
    heartbeat: Callable[[int], None] | None = None,
) -> Merged:
    """Merge the results of `shards`, (round, shard) each, into results/ and ledger.parquet.

    `heartbeat` is called with the number of parts done. Running it again with the same arguments goes
    on where an earlier run stopped. Raises StoreError where an object is missing or damaged.
    """
    directory.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=directory, prefix="merge-"))
    try:
        return _Merge(store, manifest, shards, no_result=no_result, effective_until=effective_until, folder=folder).run(
            heartbeat or _no_heartbeat
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_heartbeat(_parts: int) -> None:
    return


@dataclass(slots=True)
class _Slice:
    """What one shard has of the current segment. `offsets` are positions in the segment, rising;
    `wins` says which rows stay; `ends` where each fragment ends, from the first one's start.
    """

    cursor: ShardCursor
    offsets: Int64s
    wins: npt.NDArray[np.bool_]
    ends: Int64s


class _Merge:
    def __init__(
        self,
        store: Store,
        manifest: JobManifest,
        shards: Sequence[tuple[int, int]],
        *,
        no_result: NoResult,
        effective_until: datetime | None,
        folder: Path,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._folder = folder
        self._at = (manifest.tenant, manifest.key)
        found: list[tuple[int, int, ShardResults]] = []
        self._without: list[str] = []
        for round_, shard in sorted(set(shards)):
            results = read_shard_results(store, *self._at, round_, shard)
            if results is None:
                self._without.append(f"{round_}-{shard}")
            elif results.requests:
                found.append((round_, shard, results))
        self._cursors = [
            ShardCursor(store, manifest, round_, shard, results=results, directory=folder)
            for round_, shard, results in found
        ]
        self._no_result = no_result
        self._tail = FRAGMENT_END
        if effective_until is not None:
            self._tail = b',"effective_until":"%b"' % iso(effective_until).encode() + FRAGMENT_END
        self._codes, self._models = Names(), Names()
        self._codes.code("")
        self._models.code("")
        self._digest = _digest(manifest, found, no_result, self._tail)
        self._reader = SegmentReader(store, manifest)
        self._rejected: Iterator[Rejected] = self._reader.rejected()
        self._counter = TallyCounter()
        self._paid_twice = 0
        self._words = ErrorWords()

    def run(self, beat: Callable[[int], None]) -> Merged:
        resumed = 0
        parts = len(self._manifest.segments)
        ledger_path = self._folder / "ledger.parquet"
        try:
            with (
                LedgerWriter(ledger_path, self._manifest) as ledger,
                PartWriter(self._store, self._at, self._folder) as writer,
            ):
                for part in range(parts):
                    segment = self._reader.segment(part)
                    layout = layout_of(segment, self._manifest.groups)
                    end = segment.first + len(segment)
                    cursors = [cursor for cursor in self._cursors if cursor.reaches(end)]
                    table = self._finished(part)
                    if table is None:
                        table = self._merge_part(part, segment, layout, cursors, writer)
                    else:
                        resumed += 1
                        self._pass_over(segment, cursors)
                    for cursor in cursors:
                        if cursor.done:
                            cursor.close()
                    self._counter.add(table)
                    writer.beside(_enter, ledger, table, segment, layout)
                    beat(part + 1)
                writer.wait()
        finally:
            for cursor in self._cursors:
                cursor.close()
        left = [cursor for cursor in self._cursors if not cursor.done]
        if left:
            raise StoreError(
                f"shard {left[0].round}-{left[0].shard} has results of requests that the job does not have"
            )
        self._store.put_file(keys.ledger(*self._at), ledger_path)
        return Merged(self._counter.result(), parts, self._words.top(), resumed, self._paid_twice, self._without)

    def _finished(self, part: int) -> RowTable | None:
        """The rows of a part that an earlier run of the same merge has written."""
        name = keys.result_part_index(*self._at, part)
        packed = self._store.get_or_none(name)
        if packed is None:
            return None
        table, _ = unpack_rows(packed, name)
        if table.meta.get("digest") != self._digest:
            return None
        self._paid_twice += int(table.meta.get("paid_twice", 0))
        self._words.room = int(table.meta.get("words_left", self._words.room))
        self._words.take_counts(table.meta.get("errors", {}))
        return table

    def _pass_over(self, segment: Segment, cursors: list[ShardCursor]) -> None:
        for cursor in cursors:
            rows = cursor.rows_before(segment.first + len(segment), self._codes, self._models).rows
            cursor.skip(int(rows["size"].sum(dtype=np.int64)))
        for _ in range(int((segment.rows["group"] == REJECTED).sum())):
            next(self._rejected, None)

    def _merge_part(
        self,
        part: int,
        segment: Segment,
        layout: Layout,
        cursors: list[ShardCursor],
        writer: PartWriter,
    ) -> RowTable:
        rows, slices, paid_twice = self._decide(segment, cursors)
        fillers = self._fillers(segment, rows, slices)
        out, words = writer.start(part), ErrorWords(self._words.room)
        for start, end in pairwise(_cuts(len(segment), slices)):
            fragments = _fragments(slices, start, end)
            for offset in range(start, end) if fillers else ():
                if offset in fillers:
                    fragments[offset - start] = fillers[offset]
            for offset in np.flatnonzero(rows["outcome"][start:end] > ANSWERED_MAX).tolist() if words.room else ():
                words.add(fragments[offset])
            pieces, sizes = assemble(layout, start, fragments, self._tail)
            rows["size"][start:end] = sizes
            writer.add(out, pieces)
        self._words.take(words)
        meta = {"digest": self._digest, "paid_twice": paid_twice, "errors": words.counts, "words_left": words.room}
        table = RowTable(rows, list(self._codes.texts), list(self._models.texts), meta)
        writer.finish(out, part, table)
        self._paid_twice += paid_twice
        return table

    def _decide(self, segment: Segment, cursors: list[ShardCursor]) -> tuple[Rows, list[_Slice], int]:
        """Which shard's row stays for each request; rows that nobody has are left to `_fillers`.

        Cursors come in the order of their rounds.
        """
        n, first = len(segment), segment.first
        rows = np.zeros(n, dtype=make_rows([]).dtype)
        rows["rounds"] = 0
        owner = np.full(n, -1, dtype=np.int64)
        wasted = np.zeros(n, dtype=np.int64)
        slices: list[_Slice] = []
        paid_twice = 0
        for number, cursor in enumerate(cursors):
            new = cursor.rows_before(first + n, self._codes, self._models).rows
            offsets = new["index"].astype(np.int64) - first
            if len(offsets) and (int(offsets[0]) < 0 or (segment.rows["group"][offsets] == REJECTED).any()):
                raise StoreError(f"shard {cursor.round}-{cursor.shard} has results of requests that were never sent")
            old = rows[offsets]
            there = owner[offsets] >= 0
            kept = there & (old["outcome"] <= ANSWERED_MAX)
            wins = ~kept
            wasted[offsets] += np.where(
                kept, new["cost"] + new["waste"], np.where(there, old["cost"] + old["waste"], 0)
            )
            paid_twice += int((kept & (new["outcome"] <= ANSWERED_MAX)).sum())
            rows[offsets[wins]] = new[wins]
            owner[offsets[wins]] = number
            slices.append(_Slice(cursor, offsets, wins, np.cumsum(new["size"], dtype=np.int64)))
        for number, one in enumerate(slices):
            one.wins &= owner[one.offsets] == number
        rows["waste"] += wasted
        return rows, slices, paid_twice

    def _fillers(self, segment: Segment, rows: Rows, slices: list[_Slice]) -> dict[int, bytes]:
        """Fragments and rows for offsets that no shard has: rejected lines, and requests without a result."""
        covered = np.zeros(len(segment), dtype=np.bool_)
        for one in slices:
            covered[one.offsets] = True
        open_ = np.flatnonzero(~covered)
        rejected = segment.rows["group"] == REJECTED
        fillers: dict[int, bytes] = {}
        for offset in open_.tolist():
            index = segment.first + offset
            line = self._refused(index) if rejected[offset] else self._unsent(index)
            fragment = encode_fragment(line)
            rows[offset] = result_row(line, len(fragment), self._codes, self._models)
            fillers[offset] = fragment[:-2]
        return fillers

    def _refused(self, index: int) -> ResultLine:
        rejected = next(self._rejected, None)
        if rejected is None or rejected.index != index:
            raise StoreError(f"{keys.rejected(*self._at)} is damaged: it does not say why request {index} was rejected")
        return ResultLine(
            index=index,
            outcome=Outcome.failed,
            provider=self._manifest.provider,
            route=Route.batch,
            rounds=0,
            produced_at=self._no_result.produced_at,
            error_class=ErrorClass.invalid,
            code=rejected.code,
            message=f"line {rejected.line}: {rejected.message}",
        )

    def _unsent(self, index: int) -> ResultLine:
        return ResultLine(
            index=index,
            outcome=self._no_result.outcome,
            provider=self._manifest.provider,
            route=Route.batch,
            rounds=0,
            produced_at=self._no_result.produced_at,
            error_class=self._no_result.error_class,
            code=self._no_result.code,
            message=self._no_result.message,
        )


def _enter(ledger: LedgerWriter, table: RowTable, segment: Segment, layout: Layout) -> None:
    ledger.add(table, segment.rows, layout.ids(), layout.labels_json())


def _digest(manifest: JobManifest, found: list[tuple[int, int, ShardResults]], no_result: NoResult, tail: bytes) -> str:
    """Everything that a part's bytes depend on."""
    parts = [
        "1",
        manifest.fingerprint,
        *(f"{round_}-{shard}-{results.name}" for round_, shard, results in found),
        f"{no_result.outcome} {no_result.error_class} {no_result.code} {iso(no_result.produced_at)}",
        no_result.message,
        tail.decode(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _cuts(n: int, slices: list[_Slice]) -> list[int]:
    """Offsets that split a segment into blocks of at most BLOCK_BYTES of fragments, 0 and n included."""
    sizes = np.zeros(n, dtype=np.int64)
    for one in slices:
        sizes[one.offsets] += np.diff(one.ends, prepend=0)
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < n:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))))
    return cuts


def _fragments(slices: list[_Slice], start: int, end: int) -> list[bytes]:
    """The fragments that stay, without their last two bytes, for the offsets from start to end."""
    fragments = [b""] * (end - start)
    for one in slices:
        a, b = np.searchsorted(one.offsets, (start, end)).tolist()
        if a == b:
            continue
        base = int(one.ends[a - 1]) if a else 0
        ends = one.ends[a:b] - base
        wins = one.wins[a:b]
        if not wins.any():
            one.cursor.skip(int(ends[-1]))
            continue
        data = one.cursor.take(int(ends[-1]))
        starts = (ends - np.diff(ends, prepend=0)).tolist()
        stops = (ends - 2).tolist()
        if b - a == end - start and wins.all():
            # One shard has all of the block: the usual case, without looking at each offset.
            fragments = [data[i:j] for i, j in zip(starts, stops, strict=True)]
            continue
        places = (one.offsets[a:b] - start).tolist()
        for place, i, j, win in zip(places, starts, stops, wins.tolist(), strict=True):
            if win:
                fragments[place] = data[i:j]
    return fragments
