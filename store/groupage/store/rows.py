"""Fixed-width rows beside the JSON lines: what can be summed, sorted and searched without parsing.

Request rows (16 bytes, `requests/{segment}.idx`, plain little-endian) and result rows (72 bytes,
inside a `RowTable`). Money in rows is whole nano-dollars, so that sums are exact.
"""

import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import zstandard
from groupage.schemas import ErrorClass, Outcome, Route
from groupage.schemas.errors import StoreError

Rows = npt.NDArray[Any]
"""A structured array of one of the two dtypes below."""
Indices = npt.NDArray[np.uint32]

REQUEST_ROW: np.dtype[Any] = np.dtype(
    [("line", "<u4"), ("size", "<u4"), ("tokens", "<u4"), ("body_at", "<u2"), ("group", "<u2")]
)
"""line: physical input line from 1; size: bytes of the canonical line, newline included; tokens:
estimated prompt tokens; body_at: where the body starts in the line; group: position in the manifest's
`groups`, or REJECTED."""

REJECTED = 0xFFFF

RESULT_ROW: np.dtype[Any] = np.dtype(
    [
        ("index", "<u4"),
        ("size", "<u4"),
        ("input", "<u4"),
        ("cached", "<u4"),
        ("cache_write", "<u4"),
        ("output", "<u4"),
        ("reasoning", "<u4"),
        ("code", "<u2"),
        ("model", "<u2"),
        ("outcome", "u1"),
        ("error_class", "u1"),
        ("route", "u1"),
        ("rounds", "u1"),
        ("flags", "<u4"),
        ("cost", "<i8"),
        ("sync_cost", "<i8"),
        ("waste", "<i8"),
        ("produced_at", "<i8"),
    ]
)
"""size: bytes of the fragment (or of the result line), newline included; code and model: positions in
the table's lists; cost, sync_cost, waste: nano-dollars; produced_at: microseconds since 1970, UTC."""

RESULT_BYTES = struct.Struct(
    "<" + "".join({"u1": "B", "u2": "H", "u4": "I", "i8": "q"}[c[1][1:]] for c in RESULT_ROW.descr)
)
"""A RESULT_ROW from its values, at a third of what numpy takes for one."""

FLAG_USAGE = 1
"""The usage columns are known (zero is a number, not a gap)."""
FLAG_COST = 2
FLAG_SYNC_COST = 4
FLAG_ESTIMATED = 8
"""A price was missing and a guess stands in for it."""

# Append only: these numbers are in stored objects.
OUTCOMES = (
    Outcome.succeeded,
    Outcome.truncated,
    Outcome.refused,
    Outcome.failed,
    Outcome.expired,
    Outcome.cancelled,
    Outcome.unreadable,
)
ANSWERED_MAX = 2
"""Outcome codes up to this one are answers."""
ERROR_CLASSES: tuple[ErrorClass | None, ...] = (
    None,
    ErrorClass.invalid,
    ErrorClass.too_large,
    ErrorClass.transient,
    ErrorClass.rate_limit,
    ErrorClass.quota,
    ErrorClass.account,
    ErrorClass.expired,
    ErrorClass.cancelled,
    ErrorClass.missing,
    ErrorClass.unreadable,
    ErrorClass.not_sent,
    ErrorClass.unknown,
    ErrorClass.forbidden,
)
ROUTES = (Route.batch, Route.flex, Route.sync)

OUTCOME_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}
ERROR_CLASS_CODE = {error_class: code for code, error_class in enumerate(ERROR_CLASSES)}
ROUTE_CODE = {route: code for code, route in enumerate(ROUTES)}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANO = Decimal(1_000_000_000)
_NAMES_MAX = 0xFFFF
_OTHER = "(others)"
_HEAD = struct.Struct("<4sI")
_MAGIC = b"gpr1"


@dataclass(slots=True)
class Names:
    """Texts by small number. The 65,535th distinct text and all after it share one number."""

    texts: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            if len(self.texts) >= _NAMES_MAX:
                text = _OTHER
                if text in self._codes:
                    return self._codes[text]
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def codes_of(self, texts: list[str]) -> npt.NDArray[np.uint16]:
        """A table that turns another list's numbers into this one's."""
        return np.array([self.code(text) for text in texts] or [self.code("")], dtype=np.uint16)


@dataclass(slots=True)
class RowTable:
    """Result rows with the texts that they point to, and free metadata (JSON values)."""

    rows: Rows
    codes: list[str]
    models: list[str]
    meta: dict[str, Any] = field(default_factory=dict)


def pack_rows(table: RowTable, data: bytes = b"") -> bytes:
    """One compressed object: header, rows, then `data` (fragments of a flushed part)."""
    head = orjson.dumps(
        {"rows": len(table.rows), "codes": table.codes, "models": table.models, "meta": table.meta},
    )
    raw = b"".join((_HEAD.pack(_MAGIC, len(head)), head, np.ascontiguousarray(table.rows).tobytes(), data))
    return zstandard.ZstdCompressor(level=3).compress(raw)


def unpack_rows(packed: bytes, name: str) -> tuple[RowTable, memoryview]:
    """The table and the data behind it. `name` is the object's key, for StoreError where it is damaged."""
    try:
        raw = zstandard.ZstdDecompressor().decompress(packed)
        length = _head_length(raw)
        head = orjson.loads(raw[_HEAD.size : _HEAD.size + length])
        at = _HEAD.size + length
        rows = np.frombuffer(raw, dtype=RESULT_ROW, count=head["rows"], offset=at)
        table = RowTable(rows, head["codes"], head["models"], head["meta"])
    except (zstandard.ZstdError, struct.error, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{name} is damaged: {error}", hint="restore the object from a backup") from error
    return table, memoryview(raw)[at + rows.nbytes :]


def _head_length(raw: bytes) -> int:
    magic, length = _HEAD.unpack_from(raw)
    if magic != _MAGIC:
        raise ValueError("not a table of rows, or one of a newer format")
    return int(length)


def nanos(usd: Decimal | float | None) -> int | None:
    """Dollars to whole nano-dollars, half to even."""
    if usd is None:
        return None
    exact = usd if isinstance(usd, Decimal) else Decimal(repr(usd))
    return int((exact * _NANO).to_integral_value(ROUND_HALF_EVEN))


def dollars(nano: int) -> Decimal:
    """Whole nano-dollars to dollars, exact, without trailing zeros."""
    value = (Decimal(int(nano)) / _NANO).normalize()
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value


@lru_cache(maxsize=4096)
def micros(moment: datetime) -> int:
    """Microseconds since 1970. Raises ValueError for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone: use timezone-aware UTC")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(micros_: int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(micros_))
