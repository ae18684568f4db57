"""What people write is read strictly: a misspelt field is an error, not a default that nobody asked for; so is a
duration without a unit, or one that ends after all calendars.

Messages are read leniently, so that old code reads what newer code wrote. But whoever writes `max_cost` where
`max_cost_usd` is meant would run without a budget. So strictness stands at the doors, and nowhere else:

* in Python, making a `Written` from keywords or a mapping;
* in Temporal, a workflow that is started with plain JSON: its argument `NotesUnknown` and the workflow refuses.

JSON that Groupage itself wrote, in histories and in the store, is re-read by the same classes without any of this.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Self, get_args

from groupage.schemas._base import Duration, Message
from pydantic import (
    ModelWrapValidatorHandler,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

_DURATION = TypeAdapter[timedelta](Duration)


def _problems(kind: type[Message], data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A sentence for each key that is no field, with the likeliest one."""
    # What Groupage carries along for itself is not shown.
    known = [name for name, field in kind.model_fields.items() if field.repr]
    for name in data:
        if name in kind.model_fields:
            continue
        likely = get_close_matches(str(name), known, n=1)
        meant = f"did you mean {prefix}{likely[0]}? " if likely else ""
        yield f"unknown field {prefix}{name}: {meant}Known: {', '.join(known)}"


def unknown_fields(kind: type[Message], data: object, prefix: str = "") -> list[str]:
    """The problems of a whole message as plain data, and of the written messages in it."""
    if not isinstance(data, Mapping):
        return []
    found = list(_problems(kind, data, prefix))
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Written):
            found += unknown_fields(inner, data.get(name), f"{prefix}{name}.")
    return found


def unfit_durations(kind: type[Message], data: object, prefix: str = "") -> list[str]:
    """What JSON may say of durations, and a person must not: bare numbers, and more than the longest."""
    if not isinstance(data, Mapping):
        return []
    found = []
    for name, field in kind.model_fields.items():
        value, inner = data.get(name), field.annotation
        if isinstance(inner, type) and issubclass(inner, Written):
            found += unfit_durations(inner, value, f"{prefix}{name}.")
        elif value is not None and _holds_duration(inner):
            try:
                _DURATION.validate_python(value)
            except ValidationError as error:
                found.append(f"{prefix}{name} {value}: {error.errors()[0]['msg'].removeprefix('Value error, ')}")
    return found


def _holds_duration(annotation: object) -> bool:
    return annotation is timedelta or any(_holds_duration(part) for part in get_args(annotation))


class Written(Message):
    """A message that people write in Python: unknown keywords and keys are refused there, JSON is read leniently."""

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any, info: ValidationInfo) -> Any:
        if info.mode == "python" and isinstance(data, Mapping):
            problems = list(_problems(cls, data))
            if problems:
                raise ValueError("; ".join(problems))
        return data


class NotesUnknown(Message):
    """The argument of a workflow that people start with JSON: reads it leniently and notes what it should not have read.

    Reading must not refuse it, because a history that older code has run is read again; the workflow refuses.
    """

    _unknown: str = PrivateAttr("")

    @property
    def unknown(self) -> str:
        """What is wrong with the fields and durations, in words; empty if nothing is."""
        return self._unknown

    @model_validator(mode="wrap")
    @classmethod
    def _note_unknown(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        unknown = "; ".join(unknown_fields(cls, data))
        try:
            made = handler(data)
        except ValidationError as error:
            if not unknown:
                raise
            # A field that is missing is probably the one that is misspelt.
            raise ValueError(f"{unknown}; {error}") from error
        problems = [unknown] if unknown else []
        problems += unfit_durations(cls, data)
        if problems:
            made._unknown = "; ".join(problems)  # noqa: SLF001 - its own class made it
        return made
