"""Vertex's data in BigQuery (`GROUPAGE_VERTEX_DATA=bq://project.dataset`): two tables a submission, named by its tag.

::

    gk3v9q2_4f7xk2m9ab3cd_r0_s7_input      custom_id, request: what we load
    gk3v9q2_4f7xk2m9ab3cd_r0_s7_output     the same columns, response, status, processed_time: what Vertex writes
    gk3v9q2_4f7xk2m9ab3cd_r0_s7_output_2   where a job of this tag died: an output table must not exist before

Our id has a column of its own, which Vertex hands on (and which Claude's jobs demand), so a row is never joined by
its request. Requests are STRINGs: a column of type JSON would write numbers anew. The input is loaded by a job whose
id is made of the tag: one that is sent twice is a conflict and is looked at; after one that failed comes the next id.

Tables expire (`files_expire_after_s`), should every clean-up fail: ours from the beginning, Vertex's from when its
job is first seen to have ended. "As received" is here: the rows as JSON lines, the JSON in them unchanged.
"""

import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import orjson
from groupage.activities.providers.base import Submission
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_data import DataObject
from groupage.activities.providers.vertex_errors import translate
from groupage.activities.providers.vertex_options import VertexOptions, wrong
from groupage.activities.providers.vertex_tables import (
    Desk,
    Load,
    called,
    ended,
    fields_of,
    get_rows,
    job_at,
    load_failed,
    reads,
    send,
    split_ref,
    table_at,
)
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import in_thread
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag

T = TypeVar("T")
Json = dict[str, Any]
log = logging.getLogger("groupage.vertex")

DEFAULT_HOST = "https://bigquery.googleapis.com"
SCHEMA = (("custom_id", "STRING"), ("request", "STRING"))
LOADS_MAX = 20
"""Load jobs of one tag, those of earlier attempts included; each but the last has failed or lost its table."""
LABEL = "groupage"
SCHEME = "bq://"

_OURS = re.compile(r"(g[a-z2-7]{6}_[a-z2-7]{13}_r\d{1,2}_s\d{1,6})_(?:input|output(?:_\d+)?)")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


class BigQueryData:
    """A DataPlane (vertex_data.py)."""

    def __init__(self, options: VertexOptions, settings: ProviderSettings, clients: Clients) -> None:
        self._options, self._settings, self._clients = options, settings, clients
        self._dataset = options.data.removeprefix(SCHEME)
        self._host = os.environ.get("BIGQUERY_EMULATOR_HOST", "").rstrip("/") or DEFAULT_HOST
        self._location = ""
        """The dataset's, once it has been looked at."""

    def line(self, wire_id: str, request: bytes, *, claude: bool) -> bytes:  # noqa: ARG002  # one form for all models
        return b'{"custom_id":"%b","request":%b}\n' % (wire_id.encode(), orjson.dumps(request.decode()))

    def input_config(self, files: Sequence[str]) -> Json:
        return {"instancesFormat": "bigquery", "bigquerySource": {"inputUri": files[0]}}

    def output_config(self, submission: Submission) -> Json:
        number = f"_{len(submission.not_ids) + 1}" if submission.not_ids else ""
        uri = f"{SCHEME}{self._dataset}.{_stem(submission.tag)}_output{number}"
        return {"predictionsFormat": "bigquery", "bigqueryDestination": {"outputUri": uri}}

    # ----- up -----

    async def upload(self, submission: Submission) -> list[str]:
        ref = f"{self._dataset}.{_stem(submission.tag)}_input"

        def work(desk: Desk) -> list[str]:
            location = self._looked_at(desk)
            for number in range(1, LOADS_MAX + 1):
                if _has_rows(desk, ref, submission.requests):
                    return [SCHEME + ref]
                load = Load(self._clients.project, location, f"{submission.tag}-l{number}", ref, SCHEMA)
                self._load(desk, load, submission)
            raise ProviderError(
                f"{LOADS_MAX} load jobs into {ref} have failed", error_class=ErrorClass.invalid, code="load_jobs"
            )

        return await self._call(f"load of {ref}", work)

    def _load(self, desk: Desk, load: Load, submission: Submission) -> None:
        """Find or send the job of this id, and wait for its end. Raises for one of our own that has failed."""
        job, sent = job_at(desk, load), False
        if job is None:
            self._make_table(desk, load.ref, submission.tag)
            job, sent = send(desk, load, submission.path), True
            if job is None:
                # Another attempt was faster: what it has sent is the same.
                job, sent = job_at(desk, load), False
        job = ended(desk, job, load)
        if sent and job.error_result:
            raise load_failed(load, job.error_result)
        if sent and not _has_rows(desk, load.ref, submission.requests):
            # Not at once again: it would be sent over and over.
            text = f"load job {load.job_id} has ended well, but {load.ref} has not all of its rows"
            raise ProviderError(text, error_class=ErrorClass.transient, code="rows_missing")

    def _make_table(self, desk: Desk, ref: str, tag: str) -> None:
        from google.api_core.exceptions import Conflict, NotFound
        from google.cloud.bigquery import SchemaField, Table

        table = Table(ref, [SchemaField.from_api_repr(field) for field in fields_of(SCHEMA)])
        expiry = self._expiry()
        if expiry is not None:
            # Not even as null: a dataset may have an expiry of its own.
            table.expires = expiry
        table.labels = {LABEL: tag}
        try:
            desk.client.create_table(table, retry=None, timeout=desk.small)
        except Conflict:
            return  # made by an earlier attempt, whose load did not come through
        except NotFound:
            self._location = ""
            self._looked_at(desk)  # says that the dataset has gone since it was looked at
            raise

    # ----- down -----

    async def result_files(self, job: Json) -> list[str]:
        ref = _output_of(job)
        if not ref:
            return []

        def look(desk: Desk) -> list[str]:
            table = table_at(desk, ref)
            if table is None:
                return []
            if table.expires is None:
                self._let_expire(desk, table)
            return [SCHEME + ref]

        return await self._call(f"look at {ref}", look)

    def _let_expire(self, desk: Desk, table: Any) -> None:
        expiry = self._expiry()
        if expiry is None:
            return
        table.expires = expiry
        try:
            desk.client.update_table(table, ["expires"], retry=None, timeout=desk.small)
        except Exception as error:
            if translate(error, "expiry") is None:
                raise
            # Whatever it was: the results are there all the same and paid for, and clean-up deletes the table.
            log.warning("table %s will not expire by itself: %s", table.full_table_id, error)

    async def download(self, ref: str, path: Path) -> int:
        name = ref.removeprefix(SCHEME)

        def work(desk: Desk) -> int:
            table = desk.client.get_table(name, retry=reads(), timeout=desk.small)
            return get_rows(desk, table, path)

        return await self._call(f"download of {ref}", work)

    # ----- cleaning up -----

    async def delete(self, ref: str) -> None:
        name = ref.removeprefix(SCHEME)
        await self._call(
            f"delete of {ref}",
            lambda desk: desk.client.delete_table(name, not_found_ok=True, retry=None, timeout=desk.small),
        )

    async def list_ours(self, owner: str) -> AsyncIterator[DataObject]:
        head = f"g{owner}_"

        def look(desk: Desk) -> list[DataObject]:
            self._looked_at(desk)
            listed = desk.client.list_tables(self._dataset, retry=reads(), timeout=desk.small)
            return [found for each in listed if each.table_id.startswith(head) and (found := self._object(each))]

        for found in await self._call(f"list of {SCHEME}{self._dataset}", look):
            yield found

    def _object(self, listed: Any) -> DataObject | None:
        found = _OURS.fullmatch(listed.table_id)
        tag = found[1].replace("_", "-") if found else ""
        if decode_tag(tag) is None:
            return None
        return DataObject(f"{SCHEME}{self._dataset}.{listed.table_id}", tag, listed.created)

    # ----- inside -----

    def _expiry(self) -> datetime | None:
        seconds = self._settings.files_expire_after_s
        return datetime.now(UTC) + timedelta(seconds=seconds) if seconds else None

    def _looked_at(self, desk: Desk) -> str:
        """The dataset's location. Raises ProviderError(account) where the dataset cannot be used."""
        from google.api_core.exceptions import NotFound

        if self._location:
            return self._location
        wanted, given = self._options.location, self._options.data
        try:
            dataset = desk.client.get_dataset(self._dataset, retry=reads(), timeout=desk.small)
        except NotFound:
            project, name, _ = split_ref(f"{self._dataset}.")
            raise wrong(
                f"there is no dataset {self._dataset} (GROUPAGE_VERTEX_DATA={given}, or the option data): make it "
                f"with `bq --location={wanted or 'LOCATION'} mk --dataset {project}:{name}`, or name another one"
            ) from None
        location = str(dataset.location or "")
        if _REGION.fullmatch(location.lower()) and _REGION.fullmatch(wanted) and location.lower() != wanted:
            raise wrong(
                f"dataset {self._dataset} (GROUPAGE_VERTEX_DATA={given}) lies in {location}, and jobs run in {wanted} "
                "(GOOGLE_CLOUD_LOCATION): Vertex wants both in one region; change one of the two"
            )
        self._location = location
        return location

    def _session(self) -> Any:
        def make() -> Any:
            from google.auth.transport.requests import AuthorizedSession

            return AuthorizedSession(self._clients.credentials_at(self._host))  # type: ignore[no-untyped-call]

        return self._clients.once("bigquery session", make)

    def _client(self) -> Any:
        def make() -> Any:
            from google.cloud import bigquery

            return bigquery.Client(
                project=self._clients.project,
                credentials=self._clients.credentials_at(self._host),
                _http=self._session(),
                client_options={"api_endpoint": self._host},
            )

        return self._clients.once("bigquery", make)

    async def _call(self, what: str, work: Callable[[Desk], T]) -> T:
        """Work that ends soon after its activity is cancelled; its thread's end is awaited."""
        settings = self._settings

        def run(stop: threading.Event) -> T:
            desk = Desk(
                self._client(),
                self._session(),
                self._host,
                (settings.connect_timeout_s, settings.request_timeout_s),
                (settings.connect_timeout_s, settings.transfer_timeout_s),
                stop,
            )
            return work(desk)

        return await in_thread(lambda stop: called(what, lambda: run(stop)))


def _has_rows(desk: Desk, ref: str, rows: int) -> bool:
    """Whether the table holds the input. One that holds anything else goes: no batch is made of it."""
    table = table_at(desk, ref)
    if table is None or not table.num_rows:
        return False
    if int(table.num_rows) == rows:
        return True
    desk.client.delete_table(ref, not_found_ok=True, retry=None, timeout=desk.small)
    return False


def _stem(tag: str) -> str:
    """Table names have letters, digits and _ everywhere; our tags have no _."""
    return tag.replace("-", "_")


def _output_of(job: Json) -> str:
    """`project.dataset.table` of a job's output, or ""."""
    info = job.get("outputInfo") or {}
    uri = str(((job.get("outputConfig") or {}).get("bigqueryDestination") or {}).get("outputUri") or "")
    dataset, table = str(info.get("bigqueryOutputDataset") or ""), str(info.get("bigqueryOutputTable") or "")
    if dataset and table:
        uri = f"{dataset}.{table.rpartition('.')[2]}"
    ref = uri.removeprefix(SCHEME)
    return ref if ref.count(".") >= 2 else ""
