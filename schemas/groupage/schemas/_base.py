"""The base of every message: frozen, and lenient on fields that a newer writer added."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)")


class Message(BaseModel):
    """Travels through Temporal or the store. Unknown fields are ignored so that old code reads new data."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def parse_duration(text: str) -> timedelta:
    """'90s', '30m', '6h', '1d12h' to a timedelta. Raises ValueError with an example."""
    stripped = text.strip().lower()
    if not stripped or _PART.sub("", stripped).strip():
        raise ValueError(f"{text!r} is not a duration: write 90s, 30m, 6h, 1d or 1d12h")
    return timedelta(seconds=sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(stripped)))


def _duration(value: Any) -> Any:
    # pydantic itself reads numbers (seconds) and ISO 8601 ("PT6H"); people write 6h.
    if isinstance(value, str) and not value.lstrip("+-").upper().startswith("P") and ":" not in value:
        return parse_duration(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
