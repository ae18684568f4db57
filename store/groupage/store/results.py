"""One result as the writers of shards hand it in, and its JSON.

What a shard stores of a result is a fragment: the final line without its id, labels and
effective_until, which the merge adds. So no answer is parsed or serialised a second time::

    ,"outcome":"succeeded","text":"...","body":{...}, ... ,"provider_ids":{...}}
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from groupage.schemas import ErrorClass, Outcome, Route, Usage
from groupage.store import answer_json
from groupage.store.rows import (
    ERROR_CLASS_CODE,
    FLAG_COST,
    FLAG_ESTIMATED,
    FLAG_SYNC_COST,
    FLAG_USAGE,
    OUTCOME_CODE,
    RESULT_ROW,
    ROUTE_CODE,
    Names,
    Rows,
    micros,
)

FRAGMENT_END = b"}\n"
_U4_MAX = 0xFFFFFFFF


@dataclass(slots=True)
class ResultLine:
    """What became of one request in one shard. Money is whole nano-dollars (`rows.nanos`).

    `body` is JSON as Python values, or as bytes that are valid JSON and are spliced in. `error_class`
    is None exactly where the outcome is an answer. `cost_nano` is what this answer cost, `waste_nano`
    what was paid without a delivered answer; the cost of a line that is no answer counts as waste too.
    """

    index: int
    outcome: Outcome
    provider: str
    route: Route
    rounds: int
    produced_at: datetime
    error_class: ErrorClass | None = None
    code: str = ""
    message: str = ""
    text: str | None = None
    body: Any = None
    tool_calls: list[Any] | None = None
    model: str | None = None
    usage: Usage | None = None
    cost_nano: int | None = None
    sync_cost_nano: int | None = None
    waste_nano: int = 0
    cost_estimated: bool = False
    provider_ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.outcome.answered:
            self.waste_nano += self.cost_nano or 0
            self.cost_nano = self.sync_cost_nano = None


def encode_fragment(line: ResultLine) -> bytes:
    """The stored part of the result line, newline included, in the field order of `schemas.Result`.

    `error` and `null` fields are always there; `tool_calls` and `provider_ids` only if there are any.
    """
    usage = line.usage
    fields: dict[str, Any] = {
        "outcome": line.outcome.value,
        "text": line.text,
        "body": orjson.Fragment(line.body) if isinstance(line.body, bytes) else line.body,
        # The model's fields are flat numbers in the contract's order: as they are, without five look-ups.
        "usage": None if usage is None else usage.__dict__,
        "cost_usd": _money(line.cost_nano),
        "sync_cost_usd": _money(line.sync_cost_nano),
        "provider": line.provider,
        "model": line.model,
        "route": line.route.value,
        "rounds": line.rounds,
        "produced_at": iso(line.produced_at),
        "error": None
        if line.error_class is None
        else {"class": line.error_class.value, "code": line.code, "message": line.message},
    }
    if line.tool_calls is not None:
        fields["tool_calls"] = line.tool_calls
    if line.provider_ids:
        fields["provider_ids"] = line.provider_ids
    return b"," + answer_json.dumps(fields, orjson.OPT_APPEND_NEWLINE)[1:]


def result_row(line: ResultLine, size: int, codes: Names, models: Names) -> tuple[int, ...]:
    """The line's RESULT_ROW as a tuple; `size` is the fragment's."""
    usage = line.usage
    flags = FLAG_ESTIMATED if line.cost_estimated else 0
    tokens = (0, 0, 0, 0, 0)
    if usage is not None:
        flags |= FLAG_USAGE
        tokens = (
            min(usage.input_tokens, _U4_MAX),
            min(usage.cached_tokens, _U4_MAX),
            min(usage.cache_write_tokens, _U4_MAX),
            min(usage.output_tokens, _U4_MAX),
            min(usage.reasoning_tokens, _U4_MAX),
        )
    if line.cost_nano is not None:
        flags |= FLAG_COST
    if line.sync_cost_nano is not None:
        flags |= FLAG_SYNC_COST
    return (
        line.index,
        size,
        *tokens,
        codes.code(line.code),
        models.code(line.model or ""),
        OUTCOME_CODE[line.outcome],
        ERROR_CLASS_CODE[line.error_class],
        ROUTE_CODE[line.route],
        line.rounds,
        flags,
        line.cost_nano or 0,
        line.sync_cost_nano or 0,
        line.waste_nano,
        micros(line.produced_at),
    )


def make_rows(tuples: list[tuple[int, ...]]) -> Rows:
    return np.array(tuples, dtype=RESULT_ROW)


@lru_cache(maxsize=4096)
def iso(moment: datetime) -> str:
    """`2026-11-29T15:37:30.752Z`, the one form of times in result lines. Raises ValueError without a zone.

    Cached: it would be a quarter of a result line's cost, and providers' times are whole seconds.
    """
    micros(moment)
    text = moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00").rstrip("0").rstrip(".")
    return f"{text}Z"


def money(nano: int) -> str:
    """Nano-dollars as dollars with all digits and no trailing zeros: 1_500_000 is `0.0015`."""
    if 0 < nano < 1_000_000_000:  # nearly all lines
        return f"0.{nano:09d}".rstrip("0")
    whole, fraction = divmod(abs(nano), 1_000_000_000)
    text = f"{whole}.{fraction:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if nano < 0 else text


def _money(nano: int | None) -> orjson.Fragment | None:
    # A JSON number with all its digits: orjson knows no Decimal, a float would round.
    return None if nano is None else orjson.Fragment(money(nano))
