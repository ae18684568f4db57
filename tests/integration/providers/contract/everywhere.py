"""By what a test of the contract is parametrised: every provider, or every row of each provider's own table."""

from collections.abc import Callable
from typing import Any

import pytest
import search_path  # noqa: F401  # what follows is found through it
from anthropic_record import ANTHROPIC
from azure_record import AZURE
from bedrock_record import BEDROCK
from gemini_record import GEMINI
from openai_record import OPENAI
from record import Record, Rows
from vertex_record import VERTEX

RECORDS = {one.label: one for one in (OPENAI, AZURE, ANTHROPIC, BEDROCK, GEMINI, VERTEX)}
"""A new adapter is one more record."""

Only = Callable[[Record], Any]


def everywhere(only: Only = lambda record: True) -> pytest.MarkDecorator:
    """The test runs with each provider, of those that there is something to be tried with."""
    chosen = [record for record in RECORDS.values() if only(record)]
    return pytest.mark.parametrize("record", chosen, ids=[record.label for record in chosen])


def rows(names: str, table: Callable[[Record], Rows], only: Only = lambda record: True) -> pytest.MarkDecorator:
    """The test runs with each row of each provider's table; `names` are those of a row's values."""
    found = [
        pytest.param(record, *row, id=f"{record.label}-{_name(row)}")
        for record in RECORDS.values()
        if only(record)
        for row in table(record)
    ]
    return pytest.mark.parametrize(("record", *names.split()), found)


def providers_of(test: Callable[..., Any]) -> set[str]:
    """Labels of the records that the test runs with."""
    marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    values = [value for names, found in marks if "record" in names for value in found]
    records = [getattr(value, "values", (value,))[0] for value in values]
    return {record.label for record in records}


def _name(row: tuple[Any, ...]) -> str:
    """A row is called by its first value; a fault by all that it says but its message."""
    first = row[0]
    if isinstance(first, dict):
        return "-".join(str(value) for name, value in first.items() if name != "message" or len(first) == 1)
    return str(first)
