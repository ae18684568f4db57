"""The base of every message: frozen, and lenient on fields that a newer writer added."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
LONGEST = timedelta(days=3650)
"""Added to any time of ours it is still a time; longer ones are a slip of the hand."""
TOO_LONG = f"too long: at most {LONGEST.days}d"

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)")


class Message(BaseModel):
    """Travels through Temporal or the store. Unknown fields are ignored so that old code reads new data."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def parse_duration(text: str) -> timedelta:
    """'90s', '30m', '6h', '1d12h' to a timedelta, however long. Raises ValueError with an example."""
    stripped = text.strip().lower()
    if not stripped or _PART.sub("", stripped).strip():
        raise _no_duration(text)
    try:
        return timedelta(seconds=sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(stripped)))
    except OverflowError as error:
        raise ValueError(f"{text!r} is {TOO_LONG}") from error


def _no_duration(value: object) -> ValueError:
    return ValueError(f"{value!r} is not a duration: write 90s, 30m, 6h, 1d or 1d12h")


def read_duration(value: Any) -> Any:
    """What people write, for pydantic, which itself reads numbers (seconds) and ISO 8601 ("PT6H")."""
    if isinstance(value, str) and not value.lstrip("+-").upper().startswith("P") and ":" not in value:
        return parse_duration(value)
    return value


def _with_unit(value: Any, info: ValidationInfo) -> Any:
    # A 6 that was meant as hours would send the whole job by sync.
    if info.mode == "python" and isinstance(value, (int, float)):
        raise _no_duration(value)
    return read_duration(value)


def _bounded(value: timedelta, info: ValidationInfo) -> timedelta:
    if value <= LONGEST:
        return value
    if info.mode == "python":
        raise ValueError(TOO_LONG)
    return LONGEST


Duration = Annotated[timedelta, BeforeValidator(_with_unit), AfterValidator(_bounded)]
"""Strict where people write (`groupage.schemas.written`): in Python, settings and options a bare number and more than
LONGEST are refused. JSON is read leniently: a number is seconds, and what is longer is cut."""
