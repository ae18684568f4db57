"""BigQuery's datasets, tables and load jobs on disk: one JSON file a record, replaced whole; rows beside it.

::

    {state}/bigquery/{project}/datasets/{dataset}/record.json
                                       /{dataset}/tables/{table}/record.json, rows-1, index-1
                              /jobs/{job}.json
                    /uploads/{id}.json, {id}.bytes       of resumable uploads that have not ended

A table's record names its files of rows, so that one replacement of the record commits a load. A row lies as the
API shows it, `{"f":[{"v":"..."},...]}` and a newline; the index holds the end of each row, 8 bytes a row.
"""

import re
import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

Record = dict[str, Any]

_PROJECT = re.compile(r"[a-z0-9][a-z0-9.:-]{0,61}[a-z0-9]")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,1024}")
_TABLE = re.compile(r"[\w -]{1,300}")
_JOB = re.compile(r"[A-Za-z0-9_-]{1,1024}")
_INDEX_ROW = 8
NEVER = 1e18
"""When a table expires that does not."""


class BadName(ValueError):
    """A project, dataset, table or job cannot be called so."""


class Warehouse:
    """All records under one directory. Called in the event loop's thread; rows are written in others."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- datasets ------------------------------------------------------------

    def _dataset(self, project: str, dataset: str) -> Path:
        return self.root / _named(project, _PROJECT, "project") / "datasets" / _named(dataset, _DATASET, "dataset")

    def dataset(self, project: str, dataset: str) -> Record | None:
        return _read(self._dataset(project, dataset) / "record.json")

    def put_dataset(self, project: str, dataset: str, record: Record) -> None:
        _write(self._dataset(project, dataset) / "record.json", record)

    def drop_dataset(self, project: str, dataset: str) -> None:
        shutil.rmtree(self._dataset(project, dataset))

    # -- tables --------------------------------------------------------------

    def table_folder(self, project: str, dataset: str, table: str) -> Path:
        return self._dataset(project, dataset) / "tables" / _named(table, _TABLE, "table")

    def table(self, project: str, dataset: str, table: str, now: float) -> Record | None:
        """None for one that does not exist or has expired; the latter is gone from then on."""
        folder = self.table_folder(project, dataset, table)
        record = _read(folder / "record.json")
        if record is not None and now >= record["expires_at"]:
            shutil.rmtree(folder)
            return None
        return record

    def put_table(self, project: str, dataset: str, table: str, record: Record) -> None:
        """Commit a table, and remove the rows that its record no longer names."""
        folder = self.table_folder(project, dataset, table)
        _write(folder / "record.json", record)
        for path in folder.iterdir():
            if path.name.startswith(("rows-", "index-")) and int(path.name.rpartition("-")[2]) < record["data"]:
                path.unlink()

    def drop_table(self, project: str, dataset: str, table: str) -> None:
        shutil.rmtree(self.table_folder(project, dataset, table))

    def tables(self, project: str, dataset: str, now: float) -> Iterator[Record]:
        """By name."""
        folder = self._dataset(project, dataset) / "tables"
        for name in sorted(path.name for path in folder.iterdir()) if folder.is_dir() else ():
            record = self.table(project, dataset, name, now)
            if record is not None:
                yield record

    # -- load jobs and uploads -----------------------------------------------

    def job_path(self, project: str, job: str) -> Path:
        return self.root / _named(project, _PROJECT, "project") / "jobs" / f"{_named(job, _JOB, 'job')}.json"

    def job(self, project: str, job: str) -> Record | None:
        return _read(self.job_path(project, job))

    def put_job(self, project: str, job: str, record: Record) -> None:
        _write(self.job_path(project, job), record)

    def upload_path(self, upload: str) -> Path:
        """Where the bytes go that have come; beside them lies the record, `.json`."""
        folder = self.root / "uploads"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{_named(upload, _JOB, 'upload')}.bytes"

    def upload(self, upload: str) -> Record | None:
        return _read(self.upload_path(upload).with_suffix(".json"))

    def put_upload(self, upload: str, record: Record) -> None:
        _write(self.upload_path(upload).with_suffix(".json"), record)

    def drop_upload(self, upload: str) -> None:
        path = self.upload_path(upload)
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def new_table(home: Record, name: str, schema: list[Record], now: float) -> Record:
    """A table without rows."""
    lasts_ms = home["expiration_ms"]
    return {
        "name": name,
        "schema": schema,
        "created_at": now,
        "expires_at": NEVER if lasts_ms is None else now + lasts_ms / 1000,
        "visible_from": now,
        "labels": {},
        "description": "",
        "data": 0,
        "rows": 0,
        "bytes": 0,
        "loaded_by": "",
    }


def _named(name: str, pattern: re.Pattern[str], what: str) -> str:
    if not pattern.fullmatch(name):
        raise BadName(f"Invalid {what} ID {name!r}.")
    return name


def _read(path: Path) -> Record | None:
    try:
        record: Record = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return record


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(orjson.dumps(record))
    part.replace(path)


class RowWriter:
    """Writes one generation of a table's rows; blocks. `rows` and `size` (bytes) go into the table's record."""

    def __init__(self, folder: Path, data: int) -> None:
        self._rows = (folder / f"rows-{data}").open("wb", buffering=1 << 20)
        self._index = (folder / f"index-{data}").open("wb")
        self._ends = array("Q")
        self.rows = self.size = 0

    def write(self, values: list[str | None]) -> None:
        """In the schema's order, each as the API would show it."""
        self.size += self._rows.write(orjson.dumps({"f": [{"v": value} for value in values]}) + b"\n")
        self.rows += 1
        self._ends.append(self.size)
        if len(self._ends) == 1 << 16:
            self._flush()

    def _flush(self) -> None:
        self._ends.tofile(self._index)
        self._ends = array("Q")

    def close(self) -> None:
        self._flush()
        self._rows.close()
        self._index.close()


def read_rows(folder: Path, record: Record, start: int, most: int, most_bytes: int) -> list[bytes]:
    """Some rows from number `start` (from 0) on, at least one if there is one."""
    most = max(0, min(most, int(record["rows"]) - start))
    if not most:
        return []
    ends = array("Q")
    with (folder / f"index-{record['data']}").open("rb") as index:
        before = 0
        if start:
            index.seek((start - 1) * _INDEX_ROW)
            before = int.from_bytes(index.read(_INDEX_ROW), "little")
        ends.frombytes(index.read(most * _INDEX_ROW))
    end = next((at for at in reversed(ends) if at - before <= most_bytes), ends[0])
    with (folder / f"rows-{record['data']}").open("rb") as rows:
        rows.seek(before)
        return rows.read(end - before)[:-1].split(b"\n")


def all_rows(folder: Path, record: Record) -> Iterator[list[str | None]]:
    """The values of each row, one after the other."""
    if not record["rows"]:
        return
    with (folder / f"rows-{record['data']}").open("rb", buffering=1 << 20) as rows:
        for line in rows:
            yield [cell["v"] for cell in orjson.loads(line)["f"]]
