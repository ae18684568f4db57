"""The data plane in BigQuery: a job's rows from its input table, its results into an output table of its own.

The output has the input's columns, all of them nullable, and `response` (JSON), `status` (STRING) and
`processed_time` (TIMESTAMP). `fetch` and `deliver` block: run them in threads.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from groupage.emulator.core import Emulator
from groupage.emulator.vertex.bigquery_tables import Record, RowWriter, Warehouse, all_rows, new_table
from groupage.emulator.vertex.bigquery_values import BadValue, Field, plain, values_of

RESULT_COLUMNS: tuple[Field, ...] = (
    {"name": "response", "type": "JSON", "mode": "NULLABLE"},
    {"name": "status", "type": "STRING", "mode": "NULLABLE"},
    {"name": "processed_time", "type": "TIMESTAMP", "mode": "NULLABLE"},
)
SCHEME = "bq://"
_ID = re.compile(rb'"custom_id":"([^"\\]{1,200})"')
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


class Unusable(ValueError):
    """A job cannot have these tables; the text says why."""


class Place(NamedTuple):
    project: str
    dataset: str
    table: str


def place_of(uri: str) -> Place:
    """Of `bq://project.dataset.table`. Raises Unusable."""
    parts = uri.removeprefix(SCHEME).rsplit(".", 2)
    if not uri.startswith(SCHEME) or len(parts) != 3 or not all(parts):
        raise Unusable(f"{uri!r} is not of the form bq://project.dataset.table")
    return Place(*parts)


def warehouse_of(core: Emulator) -> Warehouse:
    return Warehouse(core.state.directory / "bigquery")


def check(core: Emulator, source: str, target: str, location: str) -> None:
    """Raises Unusable, as a job is refused that cannot run: no table to read, one that would be written over."""
    warehouse, now = warehouse_of(core), core.clock.now()
    for uri in (source, target):
        place = place_of(uri)
        dataset = warehouse.dataset(place.project, place.dataset)
        if dataset is None:
            raise Unusable(f"Dataset {place.project}:{place.dataset} of {uri} does not exist.")
        there = dataset["location"].lower()
        if location == "global" or (_REGION.fullmatch(there) and there != location):
            raise Unusable(f"{uri} is in {there}, the job is in {location}: both have to be in one region.")
    table = warehouse.table(*place_of(source), now)
    if table is None:
        raise Unusable(f"Table {source} does not exist.")
    columns = {field["name"]: field["type"] for field in table["schema"]}
    if columns.get("request") not in ("STRING", "JSON"):
        raise Unusable(f"Table {source} has no column request of JSON.")
    reserved = columns.keys() & {field["name"] for field in RESULT_COLUMNS}
    if reserved:
        raise Unusable(f"Table {source} has columns of reserved names: {', '.join(sorted(reserved))}")
    if warehouse.table(*place_of(target), now) is not None:
        raise Unusable(f"Table {target} exists already: name one that does not.")


def fetch(core: Emulator, source: str, path: Path) -> str:
    """Write the rows as lines of JSON, the request as an object; returns the columns, for `deliver`."""
    warehouse = warehouse_of(core)
    place = place_of(source)
    table = warehouse.table(*place, core.clock.now())
    if table is None:
        raise Unusable(f"Table {source} does not exist.")
    fields = table["schema"]
    with path.open("wb", buffering=1 << 20) as lines:
        for values in all_rows(warehouse.table_folder(*place), table):
            lines.write(orjson.dumps(_plain_row(fields, values)) + b"\n")
    return orjson.dumps([field | {"mode": "NULLABLE"} for field in fields]).decode()


def _plain_row(fields: list[Field], values: list[str | None]) -> dict[str, Any]:
    row = {field["name"]: plain(value, field["type"]) for field, value in zip(fields, values, strict=True)}
    if isinstance(row["request"], str):
        try:
            orjson.loads(row["request"])
        except orjson.JSONDecodeError:
            return row
        row["request"] = orjson.Fragment(row["request"].replace("\n", " "))
    return row


def deliver(core: Emulator, columns: str, results: Iterable[Path], target: str) -> None:
    """Put result lines into the output table, all or none. Doing it again puts the same rows."""
    warehouse, place, now = warehouse_of(core), place_of(target), core.clock.now()
    home = warehouse.dataset(place.project, place.dataset)
    if home is None:
        raise Unusable(f"Dataset {place.project}:{place.dataset} of {target} does not exist.")
    schema = [*orjson.loads(columns), *RESULT_COLUMNS]
    folder = warehouse.table_folder(*place)
    folder.mkdir(parents=True, exist_ok=True)
    table = new_table(home, place.table, schema, now)
    writer = RowWriter(folder, 1)
    try:
        for path in results:
            with path.open("rb", buffering=1 << 20) as lines:
                for line in lines:
                    writer.write(values_of(_row(line, schema), schema))
    finally:
        writer.close()
    made: Record = {"data": 1, "rows": writer.rows, "bytes": writer.size}
    warehouse.put_table(*place, table | made)


def _row(line: bytes, schema: list[Field]) -> dict[str, Any]:
    """A result line as a row. What a fault has damaged is a text where the response should be: tables hold JSON."""
    try:
        found = orjson.loads(line)
        if isinstance(found, dict):
            row = {field["name"]: found.get(field["name"]) for field in schema}
            if "request" in found:
                row["request"] = orjson.dumps(found["request"]).decode() if _is_text(schema) else found["request"]
            values_of(row, schema)
            return row
    except (orjson.JSONDecodeError, BadValue):
        found = None
    named = _ID.search(line)
    return {"custom_id": named[1].decode() if named else None, "response": line.decode("utf-8", "replace")}


def _is_text(schema: list[Field]) -> bool:
    return any(field["name"] == "request" and field["type"] == "STRING" for field in schema)
