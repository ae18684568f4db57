"""`ledger.parquet`: one row a request, no bodies. Money is decimal with nine places, times are UTC."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import orjson
from groupage.schemas import JobManifest
from groupage.store.rows import (
    ERROR_CLASSES,
    FLAG_COST,
    FLAG_ESTIMATED,
    FLAG_SYNC_COST,
    FLAG_USAGE,
    OUTCOMES,
    REJECTED,
    ROUTES,
    Rows,
    RowTable,
)

_ROWS_AT_ONCE = 65_536
_USAGE = ("input", "cached", "cache_write", "output", "reasoning")


class LedgerWriter:
    """Writes the ledger of one job, segment by segment, to a local file. pyarrow is imported here, not before."""

    def __init__(self, path: Path, manifest: JobManifest) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._pa = pa
        self._groups = manifest.groups
        text = pa.dictionary(pa.int32(), pa.string())
        money = pa.decimal128(18, 9)
        self._schema = pa.schema(
            [
                ("index", pa.uint32()),
                ("line", pa.uint32()),
                ("id", pa.string()),
                ("outcome", text),
                ("error_class", text),
                ("code", text),
                ("endpoint", text),
                ("requested_model", text),
                ("model", text),
                ("provider", text),
                ("route", text),
                ("rounds", pa.uint8()),
                *((f"{name}_tokens", pa.uint32()) for name in _USAGE),
                ("cost_usd", money),
                ("sync_cost_usd", money),
                ("waste_usd", money),
                ("cost_estimated", pa.bool_()),
                ("produced_at", pa.timestamp("us", tz="UTC")),
                ("labels", pa.string()),
            ],
            metadata={"groupage.tenant": manifest.tenant, "groupage.key": manifest.key},
        )
        self._provider = manifest.provider
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._batches: list[Any] = []
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, table: RowTable, requests: Rows, ids: list[bytes], labels: list[bytes | None]) -> None:
        """One segment: result rows, request rows, the ids' JSON, and the labels' JSON or None."""
        pa = self._pa
        rows = table.rows
        if not len(rows):
            return
        flags = rows["flags"]
        has_usage = (flags & FLAG_USAGE) != 0
        groups = requests["group"].astype(np.int32)
        accepted = groups != REJECTED
        groups[~accepted] = 0
        answered_by = [text or None for text in table.models]
        columns = [
            pa.array(rows["index"]),
            pa.array(np.ascontiguousarray(requests["line"])),
            pa.array(orjson.loads(b"[" + b",".join(ids) + b"]"), pa.string()),
            self._texts(rows["outcome"], [outcome.value for outcome in OUTCOMES]),
            self._texts(rows["error_class"], [None if one is None else one.value for one in ERROR_CLASSES]),
            self._texts(rows["code"], [text or None for text in table.codes]),
            self._texts(groups, [group.endpoint for group in self._groups], accepted),
            self._texts(groups, [group.model for group in self._groups], accepted),
            self._texts(rows["model"], answered_by),
            self._texts(np.zeros(len(rows), np.int32), [self._provider]),
            self._texts(rows["route"], [route.value for route in ROUTES], rows["rounds"] > 0),
            pa.array(rows["rounds"]),
            *(pa.array(rows[name], mask=~has_usage) for name in _USAGE),
            self._money(rows["cost"], (flags & FLAG_COST) != 0),
            self._money(rows["sync_cost"], (flags & FLAG_SYNC_COST) != 0),
            self._money(rows["waste"], None),
            pa.array((flags & FLAG_ESTIMATED) != 0),
            pa.array(rows["produced_at"]).view(pa.timestamp("us", tz="UTC")),
            pa.array([None if one is None else one.decode() for one in labels], pa.string()),
        ]
        self._batches.append(pa.record_batch(columns, schema=self._schema))
        self._held += len(rows)
        if self._held >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(self._pa.Table.from_batches(self._batches).unify_dictionaries())
        self._batches, self._held = [], 0

    def _texts(self, codes: npt.NDArray[Any], names: list[str | None], valid: Any = None) -> Any:
        """Texts by number; a name that is None, or a false `valid`, is null."""
        pa = self._pa
        nulls = np.array([name is None for name in names] or [True])
        codes = np.ascontiguousarray(codes, dtype=np.int32)
        mask = nulls[np.minimum(codes, len(nulls) - 1)]
        if valid is not None:
            mask |= ~valid
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=mask), pa.array([name or "" for name in names] or [""], pa.string())
        )

    def _money(self, nanos: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None) -> Any:
        """Whole nano-dollars are the unscaled values of decimal128(18, 9): low word, then sign."""
        pa = self._pa
        words = np.empty((len(nanos), 2), dtype="<i8")
        words[:, 0] = nanos
        words[:, 1] = nanos >> 63
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        return pa.Array.from_buffers(pa.decimal128(18, 9), len(nanos), [bitmap, pa.py_buffer(words.tobytes())])
