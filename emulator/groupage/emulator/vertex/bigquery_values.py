"""Values of BigQuery's columns: from lines of JSON in, as `tabledata.list` shows them out. Everything is text there."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

Field = dict[str, Any]

TYPES = {
    "STRING": "STRING",
    "JSON": "JSON",
    "INTEGER": "INTEGER",
    "INT64": "INTEGER",
    "FLOAT": "FLOAT",
    "FLOAT64": "FLOAT",
    "BOOLEAN": "BOOLEAN",
    "BOOL": "BOOLEAN",
    "TIMESTAMP": "TIMESTAMP",
}
"""Types that tables can have here, and the name by which they are shown."""
_INT64 = range(-(2**63), 2**63)


class BadValue(ValueError):
    """A line does not fit the schema; the text says why."""


def checked_schema(fields: Any) -> list[Field]:
    """Raises BadValue for what is no schema, or holds types that are unknown here."""
    if not isinstance(fields, list) or not fields:
        raise BadValue("Empty schema specified")
    seen: list[Field] = []
    for field in fields:
        name, kind = (field.get("name"), TYPES.get(str(field.get("type")))) if isinstance(field, dict) else (None, None)
        if not isinstance(name, str) or kind is None or field.get("mode") == "REPEATED":
            raise BadValue(f"Invalid field in schema: {field}")
        if any(name.lower() == other["name"].lower() for other in seen):
            raise BadValue(f"Field {name} already exists in schema")
        seen.append({"name": name, "type": kind, "mode": field.get("mode") or "NULLABLE"})
    return seen


def read_line(line: bytes, schema: list[Field]) -> list[str | None]:
    """One line of NEWLINE_DELIMITED_JSON as the row's values. Raises BadValue."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadValue(f"JSON parsing error in row: {error}") from error
    if not isinstance(row, dict):
        raise BadValue("JSON parsing error in row: an object was expected")
    unknown = row.keys() - {field["name"] for field in schema}
    if unknown:
        raise BadValue(f"No such field: {min(unknown)}.")
    return values_of(row, schema)


def values_of(row: dict[str, Any], schema: Iterable[Field]) -> list[str | None]:
    return [_value(row.get(field["name"]), field) for field in schema]


def _value(value: Any, field: Field) -> str | None:
    if value is None:
        if field["mode"] == "REQUIRED":
            raise BadValue(f"Missing required field: {field['name']}.")
        return None
    try:
        return _TO_TEXT[field["type"]](value)
    except (TypeError, ValueError) as error:
        kind = field["type"]
        raise BadValue(f"Could not convert value to {kind}. Field: {field['name']}; Value: {value!r:.80}") from error


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise TypeError("an object is no string")
    return orjson.dumps(value).decode()


def _integer(value: Any) -> str:
    number = int(value)
    if number != float(value) or number not in _INT64:
        raise ValueError("no 64-bit integer")
    return str(number)


def _boolean(value: Any) -> str:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text


def _timestamp(value: Any) -> str:
    """Microseconds."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return str(round(value * 1_000_000))


_TO_TEXT = {
    "STRING": _string,
    "JSON": lambda value: orjson.dumps(value).decode(),
    "INTEGER": _integer,
    "FLOAT": lambda value: repr(float(value)),
    "BOOLEAN": _boolean,
    "TIMESTAMP": _timestamp,
}


def plain(value: str | None, kind: str) -> Any:
    """A stored value as JSON has it: what a reader of the whole table wants."""
    if value is None or kind in ("STRING", "TIMESTAMP"):
        return value
    if kind == "JSON":
        return orjson.loads(value)
    return value == "true" if kind == "BOOLEAN" else float(value) if kind == "FLOAT" else int(value)


def shown(row: bytes, kinds: list[str], chosen: list[int] | None, *, int64_timestamps: bool) -> bytes:
    """A stored row as a reply holds it: some of its columns, times in the form that was asked for."""
    if chosen is None and (int64_timestamps or "TIMESTAMP" not in kinds):
        return row
    cells = orjson.loads(row)["f"]
    if not int64_timestamps:
        for cell, kind in zip(cells, kinds, strict=True):
            if kind == "TIMESTAMP" and cell["v"] is not None:
                cell["v"] = repr(int(cell["v"]) / 1_000_000)
    return orjson.dumps({"f": cells if chosen is None else [cells[at] for at in chosen]})
