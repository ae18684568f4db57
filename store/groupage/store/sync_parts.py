"""Sync answers on their way: flushed in small parts, each one object, that outlive a killed worker.

When the shard is done, `compact` turns them into the same form as a provider batch's results.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import ResultLine, encode_fragment, make_rows, result_row
from groupage.store.rows import ANSWERED_MAX, RESULT_ROW, Indices, Names, Rows, RowTable, pack_rows, unpack_rows
from groupage.store.shard_results import ShardResults, ShardResultWriter, read_shard_results


@dataclass(frozen=True, slots=True)
class Flushed:
    """What the parts of a shard hold: rows in order of arrival; one index may stand there twice.

    `code` and `model` of the rows are numbers of their own part and mean nothing here.
    """

    parts: int
    rows: Rows

    @property
    def done(self) -> Indices:
        """Indices with any result, sorted."""
        return np.unique(self.rows["index"])

    @property
    def answered(self) -> Indices:
        """Indices with an answer, sorted: these are never sent again."""
        return np.unique(self.rows["index"][self.rows["outcome"] <= ANSWERED_MAX])


class SyncPartWriter:
    """Collects results and writes them as the next part on `flush`. Each part is written once, never over another.

    A zombie of an earlier attempt may flush at the same time: both get numbers of their own.
    """

    def __init__(self, store: Store, tenant: str, key: str, round_: int, shard: int, *, first_part: int = 0) -> None:
        self._store = store
        self._at = (tenant, key, round_, shard)
        self._part = first_part
        self._clear()

    def __len__(self) -> int:
        """Results that are not flushed yet."""
        return len(self._tuples)

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, line: ResultLine) -> None:
        fragment = encode_fragment(line)
        self._tuples.append(result_row(line, len(fragment), self._codes, self._models))
        self._fragments.append(fragment)
        self._bytes += len(fragment)

    def flush(self) -> int | None:
        """Store what was collected; returns the part's number, None if there was nothing."""
        if not self._tuples:
            return None
        table = RowTable(make_rows(self._tuples), self._codes.texts, self._models.texts)
        packed = pack_rows(table, b"".join(self._fragments))
        while not self._store.put_new(keys.shard_part(*self._at, self._part), packed):
            self._part += 1
        written = self._part
        self._part += 1
        self._clear()
        return written

    def _clear(self) -> None:
        self._tuples: list[tuple[int, ...]] = []
        self._fragments: list[bytes] = []
        self._codes = Names()
        self._models = Names()
        self._bytes = 0


def read_flushed(store: Store, tenant: str, key: str, round_: int, shard: int) -> Flushed:
    """What earlier attempts at a sync shard have stored."""
    at = (tenant, key, round_, shard)
    rows = [np.empty(0, dtype=RESULT_ROW)]
    names = _parts(store, *at)
    for name in names:
        table, _ = unpack_rows(store.get(name), name)
        rows.append(table.rows)
    return Flushed(_next(names), np.concatenate(rows))


def compact(
    store: Store,
    tenant: str,
    key: str,
    round_: int,
    shard: int,
    *,
    directory: Path,
    extra: list[ResultLine] | None = None,
) -> ShardResults:
    """All parts, and `extra` lines (requests that were not sent), as the shard's results; then the parts go.

    Safe to run again: if the results are there already they are returned.
    """
    at = (tenant, key, round_, shard)
    found = read_shard_results(store, *at)
    names = _parts(store, *at)
    if found is None:
        with ShardResultWriter(store, *at, directory=directory) as writer:
            for name in names:
                table, data = unpack_rows(store.get(name), name)
                writer.add_table(table, data)
            for line in extra or []:
                writer.add(line)
            found = writer.close()
    store.delete(names)
    return found


def _parts(store: Store, tenant: str, key: str, round_: int, shard: int) -> list[str]:
    return sorted(store.list(keys.shard_parts(tenant, key, round_, shard)))


def _next(names: list[str]) -> int:
    return int(names[-1].rpartition("/")[2].partition(".")[0]) + 1 if names else 0
