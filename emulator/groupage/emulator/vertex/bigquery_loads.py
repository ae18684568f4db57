"""Load jobs: their input comes by multipart or resumable upload, in lines of JSON, and is put into a table.

A job is accepted when the last byte of its upload has come, and works from then on whoever asks; it is done whole
or not at all. What a kill interrupts begins anew when somebody asks for the job.
"""

import asyncio
import re
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import orjson
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.vertex.bigquery_errors import already_exists, not_found, refusal
from groupage.emulator.vertex.bigquery_tables import Record, RowWriter, Warehouse, all_rows, new_table
from groupage.emulator.vertex.bigquery_values import BadValue, checked_schema, read_line

ROW_BYTES = 100_000_000
"""Of one row of JSON (BigQuery quotas, load jobs)."""
MULTIPART_BYTES = 64 << 20
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_EVERYWHERE = ("US", "EU")
"""Jobs in these locations are found without naming it (jobs.get)."""


class Failed(Exception):
    """A load job fails: the reason word and the message of its errorResult."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Target:
    project: str
    dataset: str
    table: str

    def __str__(self) -> str:
        return f"{self.project}:{self.dataset}.{self.table}"


class Loads:
    """The handlers of uploads and jobs."""

    def __init__(self, core: Emulator, warehouse: Warehouse) -> None:
        self._core, self._warehouse = core, warehouse
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()

    # -- uploads -------------------------------------------------------------

    async def begin(self, call: Call) -> Reply:
        """Multipart: the whole job. Resumable: where to send its bytes."""
        kind = call.request.query_params.get("uploadType")
        if kind == "resumable":
            return await self._begin_resumable(call)
        if kind != "multipart":
            raise refusal(400, f"Invalid upload type {kind!r}.")
        body = bytearray()
        async for chunk in call.request.stream():
            body += chunk
            if len(body) > MULTIPART_BYTES:
                raise refusal(413, "The upload is too large: use a resumable one.", "uploadTooLarge")
        job, media = _related(call.request.headers.get("content-type", ""), bytes(body))
        upload = self._core.new_id("upload-")
        self._warehouse.upload_path(upload).write_bytes(media)
        return self._accept(call, job, upload)

    async def _begin_resumable(self, call: Call) -> Reply:
        upload = self._core.new_id("upload-")
        self._warehouse.upload_path(upload).write_bytes(b"")
        self._warehouse.put_upload(upload, {"job": await call.json()})
        return Reply(200, b"", {"location": str(call.request.url.include_query_params(upload_id=upload))})

    async def go_on(self, call: Call) -> Reply:
        """A piece of a resumable upload, or a question about what has come."""
        upload = call.request.query_params.get("upload_id", "")
        record, path = self._warehouse.upload(upload), self._warehouse.upload_path(upload)
        if record is None:
            raise not_found(f"Upload {upload}")
        given = _RANGE.fullmatch(call.request.headers.get("content-range", ""))
        if given is None:
            raise refusal(400, "Failed to parse Content-Range header.")
        size = path.stat().st_size
        if given[1] is not None:
            if int(given[1]) > size:
                raise refusal(400, f"Invalid request: {size} bytes have come, the next ones start at {given[1]}.")
            size = await _take(call, path, int(given[1]))
        if given[3] != "*" and size == int(given[3]):
            return self._accept(call, record["job"], upload)
        return Reply(308, b"", {"range": f"bytes=0-{size - 1}"} if size else {})

    def _accept(self, call: Call, body: Record, upload: str) -> Reply:
        project = call.request.path_params["project"]
        reference = body.get("jobReference") or {}
        job_id = str(reference.get("jobId") or self._core.new_id("job_"))
        load = (body.get("configuration") or {}).get("load")
        if not isinstance(load, dict) or load.get("sourceFormat") != "NEWLINE_DELIMITED_JSON":
            raise refusal(400, "Only load jobs of NEWLINE_DELIMITED_JSON are understood here.")
        target = _target(load)
        home = self._warehouse.dataset(target.project, target.dataset)
        if home is None:
            raise not_found(f"Dataset {target.project}:{target.dataset}")
        location = str(reference.get("location") or home["location"])
        if location.lower() != home["location"].lower():
            # As the real one says it: each location has its own catalogue of datasets.
            raise not_found(f"Dataset {target.project}:{target.dataset} was not found in location {location}")
        if self._warehouse.job(project, job_id) is not None:
            self._warehouse.drop_upload(upload)
            raise already_exists(f"Job {project}:{home['location']}.{job_id}")
        record = {
            "id": job_id,
            "location": home["location"],
            "load": load,
            "upload": upload,
            "created_at": self._core.clock.now(),
            "state": "RUNNING",
            "error": None,
            "rows": 0,
            "bytes": 0,
            "input_bytes": self._warehouse.upload_path(upload).stat().st_size,
        }
        self._warehouse.put_job(project, job_id, record)
        self._work_on(project, record)
        return json_reply(_shape(project, record))

    # -- jobs ----------------------------------------------------------------

    async def get(self, call: Call) -> Reply:
        project, job_id = call.request.path_params["project"], call.request.path_params["job"]
        record = self._warehouse.job(project, job_id)
        location = call.request.query_params.get("location")
        if record is None or (location or record["location"]).lower() != record["location"].lower():
            raise not_found(f"Job {project}:{location or 'US'}.{job_id}")
        if location is None and record["location"].upper() not in _EVERYWHERE:
            raise not_found(f"Job {project}:{job_id}")
        if record["state"] == "RUNNING":
            self._work_on(project, record)
        return json_reply(_shape(project, record))

    def _work_on(self, project: str, record: Record) -> None:
        key = (project, record["id"])
        task = self._tasks.get(key)
        if task is None or task.done():
            self._tasks[key] = asyncio.create_task(self._run(project, record))
            self._tasks[key].add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _run(self, project: str, record: Record) -> None:
        # One load at a time: two into one table would write the same files.
        async with self._one_at_a_time:
            done = dict(record, state="DONE")
            try:
                done["rows"], done["bytes"] = await self._load(_target(record["load"]), record)
            except (Failed, BadValue) as error:
                reason = error.reason if isinstance(error, Failed) else "invalid"
                done["error"] = {"reason": reason, "message": str(error)}
            self._warehouse.put_job(project, record["id"], done)
            self._warehouse.drop_upload(record["upload"])

    async def _load(self, target: _Target, record: Record) -> tuple[int, int]:
        """Rows and bytes. Raises Failed or BadValue."""
        load, warehouse, now = record["load"], self._warehouse, self._core.clock.now()
        where = (target.project, target.dataset, target.table)
        given = (load.get("schema") or {}).get("fields")
        table = warehouse.table(*where, now)
        if table is None:
            home = warehouse.dataset(target.project, target.dataset)
            if home is None or load.get("createDisposition") == "CREATE_NEVER":
                raise Failed("notFound", f"Not found: Table {target}")
            table = new_table(home, target.table, checked_schema(given), now)
        if table["loaded_by"] == record["id"]:
            return table["rows"], table["bytes"]  # killed between the table's record and the job's
        kind = load.get("writeDisposition") or "WRITE_APPEND"
        if kind == "WRITE_EMPTY" and table["rows"]:
            raise Failed("duplicate", f"Already Exists: Table {target}")
        if given is not None:
            schema = checked_schema(given)
            if kind != "WRITE_TRUNCATE" and schema != table["schema"]:
                raise Failed("invalid", f"Provided Schema does not match Table {target}.")
            table["schema"] = schema
        source = warehouse.upload_path(record["upload"])
        folder = warehouse.table_folder(*where)
        folder.mkdir(parents=True, exist_ok=True)
        rows, size = await asyncio.to_thread(_copy, source, folder, table, append=kind == "WRITE_APPEND")
        current = warehouse.table(*where, self._core.clock.now())
        kept = {name: current[name] for name in ("labels", "description", "expires_at")} if current else {}
        made = {"data": table["data"] + 1, "rows": rows, "bytes": size, "loaded_by": record["id"]}
        warehouse.put_table(*where, table | kept | made)
        return rows, size


def _copy(source: Path, folder: Path, table: Record, *, append: bool) -> tuple[int, int]:
    """Write the table's next generation of rows; blocks."""
    writer = RowWriter(folder, table["data"] + 1)
    try:
        if append:
            for values in all_rows(folder, table):
                writer.write(values)
        with source.open("rb", buffering=1 << 20) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if len(line) > ROW_BYTES:
                    raise Failed("invalid", f"Error while reading data, error message: Row {number} is too large.")
                try:
                    writer.write(read_line(line, table["schema"]))
                except BadValue as error:
                    raise Failed(
                        "invalid",
                        "Error while reading data, error message: JSON table encountered too many errors, giving up. "
                        f"Rows: {number}; errors: 1. {error}",
                    ) from error
    finally:
        writer.close()
    return writer.rows, writer.size


async def _take(call: Call, path: Path, start: int) -> int:
    """Write what comes from there on; returns how many bytes there are now, also of a piece that was cut."""
    with path.open("r+b") as file:
        file.seek(start)
        file.truncate()
        async for chunk in call.request.stream():
            file.write(chunk)
        return file.tell()


def _related(content_type: str, body: bytes) -> tuple[Record, bytes]:
    """The job and the bytes of a multipart/related body. Raises ApiError 400."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if not content_type.startswith("multipart/related") or not isinstance(boundary, str):
        raise refusal(400, "Expected multipart/related with a boundary.")
    delimiter = b"--" + boundary.encode("latin-1")
    first = body.find(delimiter)
    second = body.find(b"\r\n" + delimiter, first + 1)
    last = body.rfind(b"\r\n" + delimiter + b"--")
    if first < 0 or second < 0 or last <= second:
        raise refusal(400, "Multipart must have 2 parts.")
    head = _part(body[first + len(delimiter) : second])
    media = _part(body[second + 2 + len(delimiter) : last])
    try:
        job = orjson.loads(head)
    except orjson.JSONDecodeError as error:
        raise refusal(400, f"Invalid JSON payload: {error}", "parseError") from error
    return job, media


def _part(part: bytes) -> bytes:
    """A part without its headers."""
    return part[part.index(b"\r\n\r\n") + 4 :] if b"\r\n\r\n" in part else b""


def _target(load: Record) -> _Target:
    given = load.get("destinationTable") or {}
    return _Target(*(str(given.get(name) or "") for name in ("projectId", "datasetId", "tableId")))


def _shape(project: str, record: Record) -> Record:
    at = str(round(record["created_at"] * 1000))
    status: Record = {"state": record["state"]}
    statistics: Record = {"creationTime": at, "startTime": at}
    if record["state"] == "DONE":
        statistics["endTime"] = at
        statistics["load"] = {
            "inputFiles": "1",
            "inputFileBytes": str(record["input_bytes"]),
            "outputRows": str(record["rows"]),
            "outputBytes": str(record["bytes"]),
            "badRecords": "0",
        }
    if record["error"]:
        status |= {"errorResult": record["error"], "errors": [record["error"]]}
    return {
        "kind": "bigquery#job",
        "id": f"{project}:{record['location']}.{record['id']}",
        "jobReference": {"projectId": project, "jobId": record["id"], "location": record["location"]},
        "configuration": {"jobType": "LOAD", "load": record["load"]},
        "status": status,
        "statistics": statistics,
    }
