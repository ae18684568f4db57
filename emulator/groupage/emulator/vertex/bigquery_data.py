"""The data plane in BigQuery: a job's rows from its input table, its results into an output table of its own.

The output has the input's columns as they were when the job was created, all of them nullable, and `response`
(JSON), `status` (STRING) and `processed_time` (TIMESTAMP). Until it is made, its folder holds the columns alone.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from groupage.emulator.core import Emulator
from groupage.emulator.vertex.bigquery_tables import BadName, Record, RowWriter, Warehouse, all_rows, new_table
from groupage.emulator.vertex.bigquery_values import BadValue, Field, plain, values_of
from groupage.emulator.vertex.data import Json, Unreadable

RESULT_COLUMNS: tuple[Field, ...] = (
    {"name": "response", "type": "JSON", "mode": "NULLABLE"},
    {"name": "status", "type": "STRING", "mode": "NULLABLE"},
    {"name": "processed_time", "type": "TIMESTAMP", "mode": "NULLABLE"},
)
SCHEME = "bq://"
_ID = re.compile(rb'"custom_id":"([^"\\]{1,200})"')
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


class Name(NamedTuple):
    project: str
    dataset: str
    table: str


def name_of(uri: str) -> Name:
    """Of `bq://project.dataset.table`. Raises Unreadable."""
    parts = uri.removeprefix(SCHEME).rsplit(".", 2)
    if not uri.startswith(SCHEME) or len(parts) != 3 or not all(parts):
        raise Unreadable(f"{uri!r} is not of the form bq://project.dataset.table")
    return Name(*parts)


class BigQueryTables:
    """A Place (data.py). `fetch` and `deliver` block: they run in threads."""

    def __init__(self, core: Emulator) -> None:
        self._clock = core.clock
        self._warehouse = Warehouse(core.state.directory / "bigquery")

    def check(self, job: Json, location: str) -> None:
        """Raises Unreadable where there is no table to read, or one that would be written over, or they are elsewhere."""
        source, target = _tables(job)
        for uri, name in ((source, name_of(source)), (target, name_of(target))):
            there = self._dataset(uri, name)["location"].lower()
            if location == "global" or (_REGION.fullmatch(there) and there != location):
                raise Unreadable(f"{uri} is in {there}, the job is in {location}: both have to be in one region.")
        columns = {field["name"]: field["type"] for field in self._source(source)["schema"]}
        if columns.get("request") not in ("STRING", "JSON"):
            raise Unreadable(f"Table {source} has no column request of JSON.")
        reserved = columns.keys() & {field["name"] for field in RESULT_COLUMNS}
        if reserved:
            raise Unreadable(f"Table {source} has columns of reserved names: {', '.join(sorted(reserved))}")
        if self._warehouse.table(*name_of(target), self._clock.now()) is not None:
            raise Unreadable(f"Table {target} exists already: name one that does not.")

    def fetch(self, job: Json, path: Path) -> bool:
        source, target = _tables(job)
        table, fields = self._source(source), self._source(source)["schema"]
        with path.open("wb", buffering=1 << 20) as lines:
            for values in all_rows(self._warehouse.table_folder(*name_of(source)), table):
                lines.write(orjson.dumps(_plain_row(fields, values)) + b"\n")
        self._columns(target).parent.mkdir(parents=True, exist_ok=True)
        self._columns(target).write_bytes(orjson.dumps([field | {"mode": "NULLABLE"} for field in fields]))
        return True

    def output_info(self, job: Json, at: str) -> Json:  # noqa: ARG002  # the job names its table itself
        name = name_of(_tables(job)[1])
        return {"bigqueryOutputDataset": f"{SCHEME}{name.project}.{name.dataset}", "bigqueryOutputTable": name.table}

    def deliver(self, job: Json, at: str, rows: Iterator[bytes], files: int) -> None:  # noqa: ARG002
        """All rows or none, in one table."""
        target = _tables(job)[1]
        name = name_of(target)
        home = self._dataset(target, name)
        schema = [*orjson.loads(self._columns(target).read_bytes()), *RESULT_COLUMNS]
        writer = RowWriter(self._warehouse.table_folder(*name), 1)
        try:
            for row in rows:
                writer.write(values_of(_row(row, schema), schema))
        finally:
            writer.close()
        made: Record = {"data": 1, "rows": writer.rows, "bytes": writer.size}
        table = new_table(home, name.table, schema, self._clock.now())
        self._warehouse.put_table(*name, table | made)

    def _columns(self, target: str) -> Path:
        return self._warehouse.table_folder(*name_of(target)) / "columns.json"

    def _dataset(self, uri: str, name: Name) -> Record:
        try:
            found = self._warehouse.dataset(name.project, name.dataset)
            self._warehouse.table_folder(*name)
        except BadName as error:
            raise Unreadable(f"{uri}: {error}") from error
        if found is None:
            raise Unreadable(f"Dataset {name.project}:{name.dataset} of {uri} does not exist.")
        return found

    def _source(self, uri: str) -> Record:
        found = self._warehouse.table(*name_of(uri), self._clock.now())
        if found is None:
            raise Unreadable(f"Table {uri} does not exist.")
        return found


def _tables(job: Json) -> tuple[str, str]:
    """URIs of input and output."""
    source = job["inputConfig"]["bigquerySource"].get("inputUri")
    return str(source), str(job["outputConfig"]["bigqueryDestination"].get("outputUri"))


def _plain_row(fields: list[Field], values: list[str | None]) -> dict[str, Any]:
    row = {field["name"]: plain(value, field["type"]) for field, value in zip(fields, values, strict=True)}
    if isinstance(row["request"], str):
        try:
            orjson.loads(row["request"])
        except orjson.JSONDecodeError:
            return row
        row["request"] = orjson.Fragment(row["request"].replace("\n", " "))
    return row


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
