"""A shard's results: written once, sorted by index, and read in that order.

`results.json` is put last, on condition that there is none, and names the data and index objects by
their content: so of two writers (an activity that timed out and its retry) the first to finish wins
whole, and a reader never sees a mixture. Blocks of the data are separate zstd frames.
"""

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import zstandard
from groupage.schemas import ErrorClass, Message, Outcome, Route, Usage
from groupage.schemas.errors import StoreError
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import ResultLine, encode_fragment, result_row
from groupage.store.rows import (
    ANSWERED_MAX,
    ERROR_CLASSES,
    FLAG_COST,
    FLAG_ESTIMATED,
    OUTCOME_CODE,
    OUTCOMES,
    RESULT_BYTES,
    RESULT_ROW,
    ROUTE_CODE,
    ROUTES,
    Indices,
    Names,
    Rows,
    RowTable,
    dollars,
    pack_rows,
    unpack_rows,
)
from pydantic import Field

BLOCK_BYTES = 1 << 20
"""Fragments compressed together: what a reader holds of a shard at a time."""
ZSTD_LEVEL = 1
"""Half the time of level 3 for a tenth more bytes: the merge writes all of it again."""
TOP_ERRORS = 5
UNPRICED_SHOWN = 10
OTHERS = "(others)"

_Starts = npt.NDArray[np.int64]
"""Where each row's fragment starts in the spool."""


class Tally(Message):
    """Sums over rows. `unanswered` splits what has no answer; money is exact."""

    requests: int = 0
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    unanswered: dict[ErrorClass, int] = Field(default_factory=dict)
    top_errors: list[tuple[str, int]] = Field(default_factory=list)
    """"class/code" and how many rows have it, most frequent first."""
    routes: dict[Route, int] = Field(default_factory=dict)
    """Of the requests that were sent at all."""
    usage: Usage = Field(default_factory=Usage)
    cost_usd: Decimal = Decimal(0)
    waste_usd: Decimal = Decimal(0)
    sync_cost_usd: Decimal = Decimal(0)
    cost_estimated: bool = False
    unpriced: dict[str, int] = Field(default_factory=dict)
    """Answers whose cost nobody knows, by model; no sum has them."""
    rounds: int = 0
    """The largest `rounds` of a row."""


class ShardResults(Message):
    """`results.json`: a shard's results are complete and where they are."""

    version: int = 1
    name: str
    requests: int
    bytes: int
    """Uncompressed size of the fragments."""
    duplicates: int = 0
    """Lines beyond the first of an index; their cost is in the tally's waste."""
    first_index: int = 0
    last_index: int = -1
    tally: Tally


class ShardResultWriter:
    """Takes results in any order, spools them to disk, writes the shard's objects when closed.

    Use as a context manager: leaving it removes the spool; nothing is stored without `close()`.
    Memory: about 100 bytes a result. Not for use from several threads at once.
    """

    def __init__(self, store: Store, tenant: str, key: str, round_: int, shard: int, *, directory: Path) -> None:
        self._store = store
        self._at = (tenant, key, round_, shard)
        directory.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(dir=directory, prefix="results-"))
        self._spool = (self._folder / "spool").open("w+b", buffering=1 << 20)
        self._codes = Names()
        self._models = Names()
        self._codes.code("")
        self._held = bytearray()
        self._rows: list[Rows] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, line: ResultLine) -> None:
        """One result. Several of one index are fine: one that succeeded beats the answered ones, these the others."""
        fragment = encode_fragment(line)
        self.add_encoded(fragment, RESULT_BYTES.pack(*result_row(line, len(fragment), self._codes, self._models)))

    def model_code(self, model: str) -> int:
        """The number that stands for a model in rows of this writer."""
        return self._models.code(model)

    def add_encoded(self, fragment: bytes, row: bytes) -> None:
        """One result that is encoded already: its fragment and its RESULT_ROW."""
        self._held += row
        self._spool.write(fragment)

    def add_table(self, table: RowTable, data: bytes | memoryview) -> None:
        """Rows and their fragments as another writer made them (compaction of parts)."""
        self._pack()
        rows = table.rows.copy()
        rows["code"] = self._codes.codes_of(table.codes)[rows["code"]]
        rows["model"] = self._models.codes_of(table.models)[rows["model"]]
        self._rows.append(rows)
        self._spool.write(data)

    def missing(self, members: Indices) -> Indices:
        """Members of which no result was added yet, sorted."""
        self._pack()
        seen = np.concatenate([rows["index"] for rows in self._rows]) if self._rows else np.empty(0, np.uint32)
        return np.setdiff1d(members, seen)

    def close(self) -> ShardResults:
        """Sort, write data and index, then results.json. Returns what is stored: if another writer
        was first, its results.
        """
        self._pack()
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, RESULT_ROW)
        starts = np.cumsum(rows["size"], dtype=np.int64) - rows["size"]
        self._spool.flush()
        rows, starts, duplicates = self._resolve(rows, starts)
        data = self._folder / "data"
        digest = self._write_data(data, rows, starts)
        table = RowTable(rows, self._codes.texts, self._models.texts)
        packed = pack_rows(table)
        digest.update(packed)
        results = ShardResults(
            name=digest.hexdigest()[:16],
            requests=len(rows),
            bytes=int(rows["size"].sum(dtype=np.int64)),
            duplicates=duplicates,
            first_index=int(rows["index"][0]) if len(rows) else 0,
            last_index=int(rows["index"][-1]) if len(rows) else -1,
            tally=tally(table),
        )
        names = (keys.shard_results_data(*self._at, results.name), keys.shard_results_index(*self._at, results.name))
        self._store.put_file(names[0], data)
        self._store.put(names[1], packed)
        if self._store.put_new_message(keys.shard_results(*self._at), results):
            return results
        first = self._store.get_message(keys.shard_results(*self._at), ShardResults)
        if first.name != results.name:
            self._store.delete(names)
        return first

    def _pack(self) -> None:
        if self._held:
            self._rows.append(np.frombuffer(self._held, dtype=RESULT_ROW))
            self._held = bytearray()

    def _fragment(self, size: int, start: int) -> bytes:
        # Read, not mapped: a mapping's pages would count as memory of this process, a whole shard of them.
        return os.pread(self._spool.fileno(), size, start)

    def _resolve(self, rows: Rows, starts: _Starts) -> tuple[Rows, _Starts, int]:
        """Sort by index; of several rows of one index the first that succeeded stays, else the first answered one,
        else the last one.

        What the others cost is added to the waste of the one that stays.
        """
        outcome = rows["outcome"]
        rank = (outcome != OUTCOME_CODE[Outcome.succeeded]) + (outcome > ANSWERED_MAX).astype(np.uint8)
        arrival = np.arange(len(rows))
        order = np.lexsort((np.where(rank == 2, -arrival, arrival), rank, rows["index"]))
        rows, starts = rows[order], starts[order]
        if not len(rows):
            return rows, starts, 0
        leads = np.concatenate(([True], rows["index"][1:] != rows["index"][:-1]))
        if leads.all():
            return rows, starts, 0
        spent = np.where(leads, rows["waste"], rows["waste"] + rows["cost"])
        spent[self._told_again(rows, starts, leads)] = 0
        first = np.flatnonzero(leads)
        waste = np.add.reduceat(spent, first)
        rows, starts, extra = rows[leads], starts[leads], len(rows) - len(first)
        rows["waste"] = waste
        return rows, starts, extra

    def _told_again(self, rows: Rows, starts: _Starts, leads: npt.NDArray[np.bool_]) -> list[int]:
        """Positions of rows that say of their index, byte for byte, what another one said before: one answer of a
        batch, delivered and billed once. By sync each answer was a call of its own, however alike they are.
        """
        again: list[int] = []
        seen: set[tuple[bytes, bytes]] = set()
        several = ~leads
        several[:-1] |= several[1:]
        for at in np.flatnonzero(several & (rows["route"] == ROUTE_CODE[Route.batch])).tolist():
            if leads[at]:
                seen.clear()
            size, start = int(rows["size"][at]), int(starts[at])
            told = (rows[at].tobytes(), hashlib.blake2b(self._fragment(size, start), digest_size=16).digest())
            if told in seen:
                again.append(at)
            seen.add(told)
        return again

    def _write_data(self, path: Path, rows: Rows, starts: _Starts) -> "hashlib._Hash":
        """Fragments in index order, in frames of about BLOCK_BYTES; returns the hash of what was written."""
        digest = hashlib.sha256()
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        with path.open("wb") as out:
            block: list[bytes] = []
            held = 0
            for start, size in zip(starts.tolist(), rows["size"].tolist(), strict=True):
                block.append(self._fragment(size, start))
                held += size
                if held >= BLOCK_BYTES:
                    _write_block(compressor, block, out, digest)
                    block, held = [], 0
            if block:
                _write_block(compressor, block, out, digest)
        return digest


def _write_block(compressor: zstandard.ZstdCompressor, block: list[bytes], out: Any, digest: "hashlib._Hash") -> None:
    packed = compressor.compress(b"".join(block))
    digest.update(packed)
    out.write(packed)


def read_shard_results(store: Store, tenant: str, key: str, round_: int, shard: int) -> ShardResults | None:
    """None while the shard has no complete results."""
    return store.get_message_or_none(keys.shard_results(tenant, key, round_, shard), ShardResults)


def read_shard_rows(store: Store, tenant: str, key: str, round_: int, shard: int) -> RowTable | None:
    """Rows of a shard's results, by index, without the fragments: what planning the next round needs."""
    results = read_shard_results(store, tenant, key, round_, shard)
    if results is None:
        return None
    name = keys.shard_results_index(tenant, key, round_, shard, results.name)
    table, rest = unpack_rows(store.get(name), name)
    if len(table.rows) != results.requests or len(rest):
        raise StoreError(f"{name} is damaged: {len(table.rows)} rows, not {results.requests}")
    return table


def tally(table: RowTable) -> Tally:
    """Sums over a table's rows."""
    counter = TallyCounter()
    counter.add(table)
    return counter.result()


class TallyCounter:
    """Adds up tables of rows, of any number, in flat memory."""

    def __init__(self) -> None:
        self.requests = 0
        self._outcomes: Counter[int] = Counter()
        self._classes: Counter[int] = Counter()
        self._errors: Counter[str] = Counter()
        self._routes: Counter[int] = Counter()
        self._sums: Counter[str] = Counter()
        self._unpriced: Counter[str] = Counter()
        self._estimated = False
        self._rounds = 0

    def add(self, table: RowTable) -> None:
        rows = table.rows
        if not len(rows):
            return
        self.requests += len(rows)
        _count(self._outcomes, rows["outcome"])
        sent = rows["rounds"] > 0
        _count(self._routes, rows["route"] if sent.all() else rows["route"][sent])
        failed = rows[rows["outcome"] > ANSWERED_MAX]
        if len(failed):
            _count(self._classes, failed["error_class"])
            pairs = failed["error_class"].astype(np.uint32) << 16 | failed["code"]
            for pair, n in zip(*np.unique(pairs, return_counts=True), strict=True):
                error_class = ERROR_CLASSES[int(pair) >> 16] or ErrorClass.unknown
                code = table.codes[int(pair) & 0xFFFF]
                self._errors[f"{error_class.value}/{code}" if code else error_class.value] += int(n)
        unpriced = rows["model"][(rows["outcome"] <= ANSWERED_MAX) & (rows["flags"] & FLAG_COST == 0)]
        for model, n in zip(*np.unique(unpriced, return_counts=True), strict=True):
            self._unpriced[table.models[int(model)]] += int(n)
        for name in ("input", "cached", "cache_write", "output", "reasoning", "cost", "sync_cost", "waste"):
            self._sums[name] += int(rows[name].sum(dtype=np.int64))
        self._estimated = self._estimated or bool((rows["flags"] & FLAG_ESTIMATED).any())
        self._rounds = max(self._rounds, int(rows["rounds"].max()))

    def result(self) -> Tally:
        sums = self._sums
        return Tally(
            requests=self.requests,
            outcomes={OUTCOMES[code]: n for code, n in sorted(self._outcomes.items())},
            unanswered={ERROR_CLASSES[code] or ErrorClass.unknown: n for code, n in sorted(self._classes.items())},
            top_errors=sorted(self._errors.items(), key=lambda item: (-item[1], item[0]))[:TOP_ERRORS],
            routes={ROUTES[code]: n for code, n in sorted(self._routes.items())},
            usage=Usage(
                input_tokens=sums["input"],
                cached_tokens=sums["cached"],
                cache_write_tokens=sums["cache_write"],
                output_tokens=sums["output"],
                reasoning_tokens=sums["reasoning"],
            ),
            cost_usd=dollars(sums["cost"]),
            waste_usd=dollars(sums["waste"]),
            sync_cost_usd=dollars(sums["sync_cost"]),
            cost_estimated=self._estimated,
            unpriced=_most(self._unpriced),
            rounds=self._rounds,
        )


def _most(counter: Counter[str]) -> dict[str, int]:
    """The most frequent UNPRICED_SHOWN by name, the others together."""
    shown = dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:UNPRICED_SHOWN])
    others = counter.total() - sum(shown.values())
    return shown | ({OTHERS: others} if others else {})


def _count(counter: Counter[int], values: Any) -> None:
    for value, n in enumerate(np.bincount(values).tolist()):
        if n:
            counter[value] += n
