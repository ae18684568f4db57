"""The filter of a listing: `display_name="x" AND labels.k=v AND NOT state="JOB_STATE_RUNNING"`.

As JobService documents it: `=` and `!=`, `:` with `*` for names and for the presence of a label, comparisons of
create_time; NOT, AND, OR in their usual order, no parentheses.
"""

import re
from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

Job = dict[str, Any]
Test = Callable[[Job], bool]

_TERM = re.compile(
    r"\s*(?P<negated>NOT\s+|-)?(?P<field>[a-z_]+(?:\.[a-z0-9_-]+)?)\s*(?P<how>!=|<=|>=|=|<|>|:)\s*"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|\S+)\s*"
)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


class BadFilter(ValueError):
    """The filter cannot be understood."""


def read_filter(text: str) -> Test:
    """What a job must be. Raises BadFilter."""
    if not text.strip():
        return lambda _job: True
    choices = [[_term(term) for term in _parts(part, "AND")] for part in _parts(text, "OR")]
    return lambda job: any(all(test(job) for test in tests) for tests in choices)


def _parts(text: str, word: str) -> list[str]:
    """Split at a word that stands outside of quotes."""
    parts, quoted, start = [], False, 0
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted and text.startswith(f" {word} ", at):
            parts.append(text[start:at])
            start = at + len(word) + 2
    return [*parts, text[start:]]


def _term(text: str) -> Test:
    found = _TERM.fullmatch(text)
    if found is None:
        raise BadFilter(f"Invalid filter: {text.strip()!r}")
    field, how, value = found["field"], found["how"], found["value"]
    value = value[1:-1].replace('\\"', '"') if value.startswith('"') else value
    test = _test(field, how, value)
    return (lambda job: not test(job)) if found["negated"] else test


def _test(field: str, how: str, value: str) -> Test:
    if field.startswith("labels.") and how in {"=", "!=", ":"}:
        key = field.partition(".")[2]
        if how == ":":
            return lambda job: key in job["labels"] and value in {"*", job["labels"][key]}
        return lambda job: _ORDERS[how](job["labels"].get(key), value)
    if field == "display_name" and how == ":":
        return lambda job: fnmatchcase(job["displayName"], value.replace("[", "[[]"))
    if field in {"display_name", "state"} and how in {"=", "!="}:
        name = "displayName" if field == "display_name" else "state"
        return lambda job: _ORDERS[how](job[name], value)
    if field == "create_time" and how != ":":
        try:
            at = datetime.fromisoformat(value)
        except ValueError as error:
            raise BadFilter(f"Invalid filter: {value!r} is not a time") from error
        return lambda job: _ORDERS[how](datetime.fromisoformat(job["createTime"]), at)
    raise BadFilter(f"Invalid filter: {field} {how}")
