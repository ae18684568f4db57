"""Tables in BigQuery on their way to and from Vertex, in flat memory. All functions block: run them in threads.

Up: a load job of our own id, its lines sent in pieces of 8 MiB; BigQuery takes no second job of an id, and a job's
rows are in the table all or not at all. Down: pages of at most some 10 MB (one row, if it is larger), each asked
for again by its token where it was cut. Creating calls are sent once; only reads are retried.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import orjson
from groupage.activities.providers.call_errors import not_of_shape
from groupage.activities.providers.sdk_loading import load
from groupage.activities.providers.vertex_errors import SDK, translate
from groupage.activities.threads import check
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store import answer_json

T = TypeVar("T")
Json = dict[str, Any]
log = logging.getLogger("groupage.vertex")

PIECE_BYTES = 8 << 20
"""A multiple of 256 KiB, as resumable uploads want it."""
READ_RETRY_S = 30.0
PAGE_ATTEMPTS = 4
PAGE_PAUSE_S = 0.5
POLL_S = (0.2, 5.0)
JSON_COLUMNS = frozenset({"request", "response"})
"""Columns that hold JSON, whether their type is JSON or STRING."""

_REASONS = {
    "rateLimitExceeded": ErrorClass.rate_limit,
    "jobRateLimitExceeded": ErrorClass.rate_limit,
    "quotaExceeded": ErrorClass.quota,
    "accessDenied": ErrorClass.account,
    "billingNotEnabled": ErrorClass.account,
    "billingTierLimitExceeded": ErrorClass.account,
    "blocked": ErrorClass.account,
    "invalid": ErrorClass.invalid,
    "invalidQuery": ErrorClass.invalid,
    "notFound": ErrorClass.missing,
    "duplicate": ErrorClass.transient,
    "backendError": ErrorClass.transient,
    "badGateway": ErrorClass.transient,
    "internalError": ErrorClass.transient,
    "jobBackendError": ErrorClass.transient,
    "jobInternalError": ErrorClass.transient,
    "resourceInUse": ErrorClass.transient,
    "resourcesExceeded": ErrorClass.transient,
    "stopped": ErrorClass.transient,
    "tableUnavailable": ErrorClass.transient,
    "timeout": ErrorClass.transient,
    "responseTooLarge": ErrorClass.too_large,
    "uploadTooLarge": ErrorClass.too_large,
}
"""BigQuery's reasons, of calls and of failed jobs ("Error messages"): they say more than the HTTP status."""


def called(what: str, work: Callable[[], T]) -> T:
    """Run it; what BigQuery's client raises becomes a ProviderError. `what` says what was tried."""
    load(*SDK, "google.cloud.bigquery", "google.resumable_media.requests", extra="vertex")
    from google.api_core.exceptions import RetryError, from_http_response
    from google.resumable_media import InvalidResponse

    try:
        return work()
    except ProviderError:
        raise
    except Exception as error:
        told: Any = error
        if isinstance(error, RetryError) and isinstance(error.cause, Exception):
            told = error.cause
        if isinstance(error, InvalidResponse):
            status = error.response.status_code
            if status < 400:
                raise not_of_shape(what, "upload's address or range") from error
            told = from_http_response(error.response)  # type: ignore[no-untyped-call]
        ours = translate(told, what)
        if ours is None:
            raise
        ours.error_class = _REASONS.get(reason_of(told), ours.error_class)
        raise ours from error


def reason_of(error: Any) -> str:
    """BigQuery's word for what went wrong, or ""."""
    errors = getattr(error, "errors", None)
    first = errors[0] if isinstance(errors, (list, tuple)) and errors else None
    return str(first.get("reason") or "") if isinstance(first, dict) else ""


def reads() -> Any:
    """The client's own retries, for calls that change nothing, and for a shorter time."""
    from google.cloud.bigquery import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(READ_RETRY_S)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where calls are made from: Google's client, its session, and timeouts as (to connect, longest silence)."""

    client: Any
    session: Any
    host: str
    small: tuple[float, float]
    transfer: tuple[float, float]
    stop: threading.Event


def table_at(desk: Desk, ref: str) -> Any:
    """A google.cloud.bigquery.Table, or None. `ref` is `project.dataset.table`."""
    from google.api_core.exceptions import NotFound

    try:
        return desk.client.get_table(ref, retry=reads(), timeout=desk.small)
    except NotFound:
        return None


@dataclass(frozen=True, slots=True)
class Load:
    """One load job that is to be: `project` runs and pays it, `ref` is the table, which exists."""

    project: str
    location: str
    job_id: str
    ref: str
    schema: tuple[tuple[str, str], ...]
    """(column, type), all of them required."""

    def job(self) -> Json:
        """As REST has it. A table with rows is left alone: the same rows are never there twice."""
        project, dataset, table = split_ref(self.ref)
        return {
            "jobReference": {"projectId": self.project, "jobId": self.job_id, "location": self.location},
            "configuration": {
                "load": {
                    "sourceFormat": "NEWLINE_DELIMITED_JSON",
                    "schema": {"fields": fields_of(self.schema)},
                    "destinationTable": {"projectId": project, "datasetId": dataset, "tableId": table},
                    "createDisposition": "CREATE_NEVER",
                    "writeDisposition": "WRITE_EMPTY",
                }
            },
        }


def fields_of(schema: Iterable[tuple[str, str]]) -> list[Json]:
    return [{"name": name, "type": kind, "mode": "REQUIRED"} for name, kind in schema]


def split_ref(ref: str) -> tuple[str, str, str]:
    """(project, dataset, table); a project's id may hold dots."""
    project, dataset, table = ref.rsplit(".", 2)
    return project, dataset, table


def job_at(desk: Desk, load: Load) -> Any:
    """The load job of this id as it is now, or None."""
    from google.api_core.exceptions import NotFound

    try:
        return desk.client.get_job(
            load.job_id, project=load.project, location=load.location, retry=reads(), timeout=desk.small
        )
    except NotFound:
        return None


def send(desk: Desk, load: Load, path: Path) -> Any:
    """Upload the file's lines as this job, once; the job as accepted, or None where its id is taken."""
    from google.resumable_media import InvalidResponse
    from google.resumable_media.common import RetryStrategy
    from google.resumable_media.requests import ResumableUpload

    url = f"{desk.host}/upload/bigquery/v2/projects/{load.project}/jobs?uploadType=resumable"
    upload: Any = ResumableUpload(url, PIECE_BYTES)  # type: ignore[no-untyped-call]
    # As Google's client does it: there is no other way to say so.
    upload._retry_strategy = RetryStrategy(max_retries=0)  # type: ignore[no-untyped-call]  # noqa: SLF001
    reply = None
    try:
        with path.open("rb") as file:
            upload.initiate(desk.session, file, load.job(), "application/json", timeout=desk.transfer)
            while not upload.finished:
                check(desk.stop)
                reply = upload.transmit_next_chunk(desk.session, timeout=desk.transfer)
    except InvalidResponse as error:
        if error.response.status_code == HTTPStatus.CONFLICT:
            return None
        raise
    body = reply.json() if reply is not None else None
    if not isinstance(body, dict) or not isinstance(body.get("jobReference"), dict):
        raise not_of_shape(f"upload of {load.job_id}", "jobReference")
    return desk.client.job_from_resource(body)


def ended(desk: Desk, job: Any, load: Load) -> Any:
    """The job when it has ended, well or not."""
    pause, longest = POLL_S
    while job is not None and job.state != "DONE":
        desk.stop.wait(pause)
        check(desk.stop)
        pause = min(pause * 1.5, longest)
        job = job_at(desk, load)
    if job is None:
        raise ProviderError(
            f"load job {load.job_id} cannot be seen yet", error_class=ErrorClass.transient, code="not_visible"
        )
    return job


def load_failed(load: Load, error: Json) -> ProviderError:
    """Why a load job failed."""
    reason, message = str(error.get("reason") or "failed"), str(error.get("message") or "without a message")
    found = _REASONS.get(reason, ErrorClass.transient)
    if found is ErrorClass.missing:
        found = ErrorClass.transient  # its table has gone: the next attempt makes it anew
    text = f"load job {load.job_id} into {load.ref}: {reason}: {message}"[:FAILURE_MESSAGE_MAX]
    return ProviderError(text, error_class=found, code=reason)


def get_rows(desk: Desk, table: Any, path: Path) -> int:
    """All rows of the table as JSON lines; returns the file's size. Raises transient where some did not come."""
    names = [field.name for field in table.schema]
    token: str | None = None
    size = rows = 0
    total = int(table.num_rows or 0)
    with path.open("wb", buffering=1 << 20) as file:
        while True:
            page = _page(desk, table, token)
            total = max(total, int(page.get("totalRows") or 0))
            for row in page.get("rows") or ():
                size += file.write(line_of(names, row))
                rows += 1
            token = page.get("pageToken")
            if not token:
                break
    if rows != total:
        raise ProviderError(
            f"download of {table.full_table_id}: {rows} of {total} rows came",
            error_class=ErrorClass.transient,
            code="cut_short",
        )
    return size


def _page(desk: Desk, table: Any, token: str | None) -> Json:
    """One page as REST has it: the client's own rows would have JSON parsed and written anew."""
    what = f"rows of {table.full_table_id}"
    for attempt in range(1, PAGE_ATTEMPTS + 1):
        check(desk.stop)
        try:
            return called(what, lambda: _one_page(desk, table, token, what))
        except ProviderError as error:
            if attempt == PAGE_ATTEMPTS or error.error_class not in {ErrorClass.transient, ErrorClass.rate_limit}:
                raise
            log.warning("%s: page %s again: %s", what, token or "one", error)
        desk.stop.wait(PAGE_PAUSE_S * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _one_page(desk: Desk, table: Any, token: str | None, what: str) -> Json:
    pages = desk.client.list_rows(table, page_token=token, retry=None, timeout=desk.transfer).pages
    page: Json = next(pages).raw_page
    rows = page.get("rows")
    if page.get("totalRows") is None or not (rows is None or isinstance(rows, list)):
        raise not_of_shape(what, "totalRows")
    return page


def line_of(names: list[str], row: Json) -> bytes:
    """A row of `tabledata.list` as a line of JSON: columns by name, null ones left out, JSON as it stands there."""
    cells = [cell["v"] for cell in row["f"]]
    made = {}
    for name, value in zip(names, cells, strict=True):
        if value is not None:
            made[name] = _spliced(value) if name in JSON_COLUMNS else value
    return answer_json.dumps(made) + b"\n"


def _spliced(value: Any) -> Any:
    """Text that is JSON goes in unchanged, and what is none as a text, so that the line can be read all the same."""
    if not isinstance(value, str):
        return value
    try:
        answer_json.loads(value.encode())
    except ValueError:  # no JSON; or half a surrogate pair, not escaped
        return value
    # Valid JSON has line feeds between its tokens only.
    return orjson.Fragment(value.replace("\n", " "))
