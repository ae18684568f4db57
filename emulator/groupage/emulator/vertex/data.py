"""The data plane: a job's input from Cloud Storage, its predictions to Cloud Storage. Blocks: run in threads."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import orjson
from groupage.emulator.vertex.answers import is_claude, short
from groupage.emulator.vertex.rows import split
from groupage.schemas.limits import LINE_MAX_BYTES

Json = dict[str, Any]


class Unreadable(ValueError):
    """The input is not there, or its place says no; the text says which."""


_ONLY = b'{"request":'


class BadInput(ValueError):
    """The input is no list of requests: the job fails at validation."""


class Place(Protocol):
    """Where a job's data lie. Jobs are the create request's JSON."""

    def fetch(self, job: Json, path: Path) -> bool:
        """The input as lines `{"request": {...}, ...}`; whether columns beside it are repeated. Raises Unreadable."""
        ...

    def output_info(self, job: Json, at: str) -> Json:
        """The job's `outputInfo`. `at` is when it was created, as names have it."""
        ...

    def deliver(self, job: Json, at: str, rows: Iterator[bytes], files: int) -> None:
        """Put the rows there. Doing it again puts the same ones."""
        ...


class CloudStorage:
    """The server that STORAGE_EMULATOR_HOST names."""

    def __init__(self, max_bytes: int = 1_000_000_000) -> None:
        self._max_bytes = max_bytes

    def fetch(self, job: Json, path: Path) -> bool:
        from google.api_core.exceptions import GoogleAPICallError
        from requests.exceptions import RequestException

        with path.open("wb") as file:
            for uri in job["inputConfig"]["gcsSource"]["uris"]:
                try:
                    _blob(uri).download_to_file(file, retry=None, timeout=60)
                except (GoogleAPICallError, RequestException) as error:
                    raise Unreadable(f"The input {uri} could not be read: {error}") from error
        if path.stat().st_size > self._max_bytes:
            raise Unreadable(f"The input has {path.stat().st_size} bytes; at most {self._max_bytes} are allowed.")
        return False

    def output_info(self, job: Json, at: str) -> Json:
        prefix = str(job["outputConfig"]["gcsDestination"]["outputUriPrefix"]).rstrip("/")
        return {"gcsOutputDirectory": f"{prefix}/prediction-{short(job['model'])}-{at}"}

    def deliver(self, job: Json, at: str, rows: Iterator[bytes], files: int) -> None:
        folder = self.output_info(job, at)["gcsOutputDirectory"]
        with tempfile.TemporaryDirectory() as name:
            for file, path in split(rows, Path(name), files):
                _blob(f"{folder}/{file}").upload_from_filename(str(path), retry=None, timeout=60)


def _blob(uri: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client  # type: ignore[import-untyped]

    host = os.environ.get("STORAGE_EMULATOR_HOST")
    if not host:
        raise Unreadable("STORAGE_EMULATOR_HOST is not set: the emulator has no Cloud Storage of its own.")
    client = Client(project="emulator", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    bucket, _, key = uri.removeprefix("gs://").partition("/")
    return client.bucket(bucket).blob(key, chunk_size=8 << 20)


def as_records(source: Path, target: Path, model: str, most: int, *, columns: bool) -> int:
    """Check the form of all lines and write them, the model in front, for the worker; returns how many. Raises BadInput.

    `columns`: what stands beside the request is repeated with the result. Of Claude's rows the custom_id always is.
    """
    claude, name = is_claude(model), orjson.dumps(model)
    seen: set[str] = set()
    number = 0
    with source.open("rb") as lines, target.open("wb") as records:
        for line in lines:
            if line.isspace():
                continue
            number += 1
            row = _checked(line, number)
            kept = {key: value for key, value in row.items() if key != "request"} if columns else {}
            key = f"row {number}"
            if claude:
                key = _custom_id(row, number, seen)
                kept["custom_id"] = key
            # As it stands where it can be cut out: numbers of any size come through.
            whole = row.keys() == {"request"} and line.startswith(_ONLY)
            request = line.strip()[len(_ONLY) : -1] if whole else orjson.dumps(row["request"])
            columns_json = orjson.dumps(kept)
            records.write(
                b'{"model":%b,"key":%b,"kept":%b,"request":%b}\n' % (name, orjson.dumps(key), columns_json, request)
            )
    if not number:
        raise BadInput("The input has no rows.")
    if number > most:
        raise BadInput(f"The input has {number} rows; at most {most} are allowed.")
    return number


def _checked(line: bytes, number: int) -> Json:
    if len(line) > LINE_MAX_BYTES:
        raise BadInput(f"Row {number} is too long.")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"Row {number} is not valid JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("request"), dict):
        raise BadInput(f"Row {number} has no request.")
    return row


def _custom_id(row: Json, number: int, seen: set[str]) -> str:
    given = row.get("custom_id")
    if not isinstance(given, str) or not given or given in seen:
        raise BadInput(f"Row {number} has no custom_id, or one that is taken.")
    seen.add(given)
    return given
