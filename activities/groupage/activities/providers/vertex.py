"""Google Vertex AI's batch prediction jobs, for Gemini and for Claude, and its sync API.

Jobs through JobServiceClient (REST, in threads), one attempt a call, explicit timeouts. Input and output lie in a
bucket or a dataset of the user's own: vertex_data.py. The tag is a job's display name and a label; jobs are found
by a filter on the server's side. Settings: vertex_options.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from groupage.activities.answers_vertex import read_line
from groupage.activities.providers.base import Answer, Echo, RemoteObject, ResultFile, Submission, SyncCall, Traits
from groupage.activities.providers.batch_objects import furthest
from groupage.activities.providers.call_errors import after_refused_cancel, not_of_shape, raise_create_failed
from groupage.activities.providers.compatibility import facts_of, limits_of_translated
from groupage.activities.providers.exact_json import dumps
from groupage.activities.providers.native_bodies import native_body
from groupage.activities.providers.profile_options import checked
from groupage.activities.providers.vertex_bodies import echo_of, is_claude, model_path
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_data import DataPlane, Json, open_plane
from groupage.activities.providers.vertex_errors import create_failed, translated
from groupage.activities.providers.vertex_jobs import QUEUE_AND_RUN_S, TAG_LABEL, read_job, with_results
from groupage.activities.providers.vertex_options import read_options
from groupage.activities.providers.vertex_runtime import complete
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchStatus, ErrorClass, ProviderLimits
from groupage.schemas.catalog import ProviderFacts
from groupage.schemas.errors import ProviderError
from groupage.schemas.requests import NATIVE_ENDPOINTS

T = TypeVar("T")

PAGE = 100
MAX_PAGES = 1000


class VertexProvider:
    """One profile: credentials, project, location and a place for data."""

    # A label put into a body that has none needs a comma; one put among a body's own, its key and value alone.
    traits = Traits(echoes=True, growth=64)

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self.name = name
        self._settings = settings = checked(name, settings)
        self._options = read_options(settings)
        self._clients = Clients(settings, self._options)
        self._planes: dict[str, DataPlane] = {}

    # ----- what a job may hold, and how a line is written -----

    def facts(self, model: str) -> ProviderFacts:
        return facts_of(self.name, self._settings, model)

    def limits(self, endpoint: str, model: str) -> ProviderLimits:
        native = endpoint in NATIVE_ENDPOINTS["vertex"]
        limits = limits_of_translated(self.name, self._settings, model, native=native)
        return limits.model_copy(update={"completion_window_s": QUEUE_AND_RUN_S})

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        if body == b"{}":
            # What planning asks for: how much is added to a body.
            return self._plane().line(wire_id, body, claude=False)
        model, _, request = native_body("vertex", endpoint, body)
        return self._plane().line(wire_id, dumps(request), claude=is_claude(endpoint, model))

    def echo_of(self, endpoint: str, body: bytes) -> Echo:
        return echo_of(native_body("vertex", endpoint, body)[2])

    def _plane(self, ref: str = "") -> DataPlane:
        """The one for a ref, or for new data."""
        scheme = (ref or self._options.data).partition("://")[0]
        if scheme not in self._planes:
            self._planes[scheme] = open_plane(scheme, self._options, self._settings, self._clients)
        return self._planes[scheme]

    # ----- submitting -----

    async def find(
        self,
        tag: str,
        *,
        since: datetime | None,  # noqa: ARG002  # a filter by name needs no time
        not_ids: Sequence[str],
        files: Sequence[str] = (),  # noqa: ARG002  # a job always carries its name
    ) -> BatchStatus | None:
        matches = [
            await self._with_results(job, status)
            async for job, status in self._jobs(f'display_name="{tag}"')
            if status.tag == tag and status.batch_id not in not_ids
        ]
        return furthest(tag, matches, "jobs")

    async def upload(self, submission: Submission) -> list[str]:
        return await self._plane().upload(submission)

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        plane, tag = self._plane(files[0]), submission.tag
        claude = is_claude(submission.endpoint, submission.model)
        job = {
            "displayName": tag,
            "labels": {TAG_LABEL: tag},
            "model": model_path(submission.model, claude=claude),
            "inputConfig": plane.input_config(files),
            "outputConfig": plane.output_config(submission),
        }
        what = f"create of {tag}"

        def send(client: Any, **how: Any) -> Any:
            return client.create_batch_prediction_job(
                parent=self._clients.parent, batch_prediction_job=_as_proto(job), **how
            )

        try:
            return self._read(_as_json(await self._call(what, send, self._settings.create_timeout_s)), what)
        except ProviderError as error:
            raise_create_failed(create_failed(error), error)

    # ----- watching -----

    async def status(self, batch_id: str) -> BatchStatus:
        job = await self._job(batch_id)
        return await self._with_results(job, self._read(job, f"status of {batch_id}"))

    async def cancel(self, batch_id: str) -> BatchStatus:
        def send(client: Any, **how: Any) -> None:
            client.cancel_batch_prediction_job(name=batch_id, **how)

        try:
            await self._call(f"cancel of {batch_id}", send)
        except ProviderError as error:
            return await after_refused_cancel(error, self.status, batch_id)
        return await self.status(batch_id)

    async def _job(self, batch_id: str) -> Json:
        def send(client: Any, **how: Any) -> Any:
            return client.get_batch_prediction_job(name=batch_id, **how)

        return _as_json(await self._call(f"status of {batch_id}", send))

    async def _with_results(self, job: Json, status: BatchStatus) -> BatchStatus:
        """An ended job with the files that it has put out."""
        if not status.phase.ended or not status.input_files:
            return status
        return with_results(status, await self._plane(status.input_files[0]).result_files(job))

    # ----- harvesting -----

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        return [ResultFile("output", ref) for ref in status.output_files]

    async def download(self, file: ResultFile, path: Path) -> int:
        return await self._plane(file.ref).download(file.ref, path)

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        return read_line(line, endpoint)

    # ----- cleaning up -----

    async def delete(self, kind: str, ref: str) -> None:
        """A "file" is an object or a table of ours. A "batch" goes when it has ended, with everything it put out."""
        if kind == "file":
            await self._plane(ref).delete(ref)
            return
        try:
            job = await self._job(ref)
            status = self._read(job, f"delete of {ref}")
            if kind != "batch" or not status.phase.ended or not status.tag:
                return
            if status.input_files:
                plane = self._plane(status.input_files[0])
                for each in await plane.result_files(job):
                    await plane.delete(each)

            def send(client: Any, **how: Any) -> None:
                client.delete_batch_prediction_job(name=ref, **how)

            await self._call(f"delete of {ref}", send)
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise

    async def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        live: set[str] = set()
        async for _, status in self._jobs(f'display_name:"g{owner}-*"'):
            if not status.tag.startswith(f"g{owner}-"):
                continue
            if not status.phase.ended:
                live.add(status.tag)
            yield RemoteObject("batch", status.batch_id, status.tag, status.phase.ended, status.created_at)
        if self._options.data:
            async for each in self._plane().list_ours(owner):
                yield RemoteObject("file", each.ref, each.tag, each.tag not in live, each.made_at)

    # ----- one by one -----

    async def complete(self, call: SyncCall) -> Answer:
        return await complete(self._clients, self._options, self._settings, call)

    async def close(self) -> None:
        await asyncio.to_thread(self._clients.close)

    # ----- inside -----

    async def _jobs(self, query: str) -> AsyncIterator[tuple[Json, BatchStatus]]:
        """All jobs that a filter lets through."""
        token, what = "", "list of jobs"
        for _ in range(MAX_PAGES):
            request = {"filter": query, "page_size": PAGE, "page_token": token}

            def send(client: Any, request: dict[str, Any] = request, **how: Any) -> tuple[list[Json], str]:
                pager = client.list_batch_prediction_jobs(request={"parent": self._clients.parent, **request}, **how)
                page = next(iter(pager.pages))
                return [_as_json(job) for job in page.batch_prediction_jobs], str(page.next_page_token)

            jobs, following = await self._call(what, send)
            for job in jobs:
                yield job, self._read(job, what)
            if not following or following == token:
                return
            token = following

    def _read(self, job: Json, what: str) -> BatchStatus:
        try:
            return read_job(job)
        except ValueError as error:
            raise not_of_shape(what, "name") from error

    async def _call(self, what: str, send: Callable[..., T], timeout_s: float | None = None) -> T:
        """One call in a thread. `send` gets the client and how to call it: no retry, a timeout, our headers."""
        how = {
            "retry": None,
            "timeout": timeout_s or self._settings.request_timeout_s,
            "metadata": tuple(self._settings.extra_headers.items()),
        }
        return await asyncio.to_thread(lambda: translated(what, lambda: send(self._clients.jobs(), **how)))


def _as_proto(job: Json) -> Any:
    from google.cloud.aiplatform_v1.types import BatchPredictionJob
    from google.protobuf.json_format import ParseDict

    made = BatchPredictionJob()
    ParseDict(job, BatchPredictionJob.pb(made))
    return made


def _as_json(job: Any) -> Json:
    """In REST's words. A state that this SDK does not know stays a number."""
    from google.protobuf.json_format import MessageToDict

    return dict(MessageToDict(type(job).pb(job)))
