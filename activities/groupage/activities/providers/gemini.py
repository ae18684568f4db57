"""The Gemini API's batches, through google-genai, input and results in files.

Batches and input files carry the tag as their display name; there is no filter, so listings are scanned. An input
file goes up in pieces of 8 MiB and is gone after 48 hours, as results are: of a batch that expires nothing is left.
Result files cannot be deleted: their names are longer than what the call takes (python-genai issue 1759).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupage.activities.answers_gemini import read_line, read_reply
from groupage.activities.providers.base import CLOCK_SKEW, Answer, RemoteObject, ResultFile, Submission, SyncCall
from groupage.activities.providers.batch_objects import furthest
from groupage.activities.providers.call_errors import after_refused_cancel, raise_create_failed, retry_after_s
from groupage.activities.providers.compatibility import facts_of, limits_of_translated
from groupage.activities.providers.exact_json import dumps
from groupage.activities.providers.gemini_batches import created_at_of, display_name_of, read_operation
from groupage.activities.providers.gemini_bodies import is_embedding, model_path, render
from groupage.activities.providers.gemini_client import GeminiClient, milliseconds
from groupage.activities.providers.gemini_errors import answered, connection_error
from groupage.activities.providers.google_errors import of_one_request
from groupage.activities.providers.native_bodies import native_body
from groupage.activities.providers.openai_errors import create_failed
from groupage.activities.providers.openai_files import save_body
from groupage.activities.providers.profile_options import checked
from groupage.activities.providers.sync_replies import failed_call, read_sync, timed_out
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchPhase, BatchStatus, ErrorClass, ProviderLimits
from groupage.schemas.catalog import ProviderFacts
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag
from groupage.schemas.requests import NATIVE_ENDPOINTS

if TYPE_CHECKING:
    import httpx2
    from google.genai import types

PAGE = 100
FILES_PAGE = 100
"""The most that the Files API gives."""
MAX_PAGES = 10_000
"""A listing that goes on for longer than this goes round in circles."""
MIME_TYPE = "application/jsonl"
FILE_ID_MAX = 40
"""Characters of a file's id that delete takes."""


class GeminiProvider:
    """One key at the Gemini API. Connections belong to the running event loop."""

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self.name = name
        self._settings = settings = checked(name, settings)
        self._client = GeminiClient(name, settings)

    # ----- what a batch may hold, and how a line is written -----

    def facts(self, model: str) -> ProviderFacts:
        return facts_of(self.name, self._settings, model)

    def limits(self, endpoint: str, model: str) -> ProviderLimits:
        native = endpoint in NATIVE_ENDPOINTS["gemini"]
        return limits_of_translated(self.name, self._settings, model, native=native)

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        return render(wire_id, endpoint, body)

    # ----- submitting -----

    async def find(
        self,
        tag: str,
        *,
        since: datetime | None,
        not_ids: Sequence[str],
        files: Sequence[str] = (),  # noqa: ARG002  # a batch always carries its name
    ) -> BatchStatus | None:
        matches = [batch async for batch in self._batches(since) if batch.tag == tag and batch.batch_id not in not_ids]
        return furthest(tag, matches)

    async def upload(self, submission: Submission) -> list[str]:
        tag, size = submission.tag, submission.path.stat().st_size
        if submission.look_since is not None:
            usable = await self._usable_files(tag, size, submission.look_since)
            if usable:
                return usable
        sdk, what = await self._client.sdk(), f"upload of {tag}"
        config: types.UploadFileConfigDict = {
            "display_name": tag,
            "mime_type": MIME_TYPE,
            "http_options": {"timeout": milliseconds(self._settings.transfer_timeout_s)},
        }
        # By its path: the SDK reads an open file in the event loop's own thread.
        file = await self._client.call(what, sdk.aio.files.upload(file=str(submission.path), config=config))
        name = _named(file.name, what)
        if file.size_bytes not in {size, None}:
            await self.delete("file", name)
            raise ProviderError(
                f"{what}: {file.size_bytes} of {size} bytes are there",
                error_class=ErrorClass.transient,
                code="cut_short",
            )
        return [name]

    async def _usable_files(self, tag: str, size: int, since: datetime) -> list[str]:
        """Files of this name that are whole; those that are not are deleted."""
        usable: list[str] = []
        async for file in self._files(since):
            if file.get("displayName") != tag:
                continue
            name = str(file["name"])
            if str(file.get("sizeBytes", size)) == str(size) and file.get("state") != "FAILED":
                usable.append(name)
            else:
                await self.delete("file", name)
        return usable

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        what = f"create of {submission.tag}"
        embeddings = is_embedding(submission.endpoint, submission.model)
        batches = (await self._client.sdk()).aio.batches
        config: Any = {
            "display_name": submission.tag,
            "http_options": {"timeout": milliseconds(self._settings.create_timeout_s)},
        }
        try:
            if embeddings:
                made = batches.create_embeddings(model=submission.model, src={"file_name": files[0]}, config=config)
            else:
                made = batches.create(model=submission.model, src=files[0], config=config)
            batch = await self._client.call(what, made)
            name = _named(batch.name, what)
        except ProviderError as error:
            raise_create_failed(create_failed(error), error)
        return BatchStatus(
            batch_id=name,
            tag=submission.tag,
            phase=BatchPhase.validating,
            raw_state=str(batch.state.value if batch.state else ""),
            input_files=list(files),
            created_at=batch.create_time,
        )

    # ----- watching -----

    async def status(self, batch_id: str) -> BatchStatus:
        what = f"status of {batch_id}"
        # Past the SDK, which drops the batch's error and its counts.
        return _read(await self._client.rest(what, "GET", batch_id), what)

    async def cancel(self, batch_id: str) -> BatchStatus:
        what = f"cancel of {batch_id}"
        batches = (await self._client.sdk()).aio.batches
        try:
            await self._client.call(what, batches.cancel(name=batch_id))
        except ProviderError as error:
            return await after_refused_cancel(error, self.status, batch_id)
        now = await self.status(batch_id)
        if now.phase in {BatchPhase.validating, BatchPhase.in_progress}:
            # The API has no word for a batch that is being cancelled.
            return now.model_copy(update={"phase": BatchPhase.cancelling})
        return now

    # ----- harvesting -----

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        return [ResultFile("output", ref) for ref in status.output_files]

    async def download(self, file: ResultFile, path: Path) -> int:
        await self._client.sdk()
        import httpx2

        what = f"download of {file.ref}"
        timeout_s = self._settings.transfer_timeout_s
        try:
            # Past the SDK, which tells the server to be done within what is meant as the longest silence.
            response = await self._client.send(
                "GET", f"{file.ref}:download?alt=media", timeout_s=timeout_s, stream=True
            )
            try:
                if not response.is_success:
                    await response.aread()
                    raise answered(response, what)
                return await save_body(response, path, what)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise connection_error(error, what) from error

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        return read_line(line, endpoint)

    # ----- cleaning up -----

    async def delete(self, kind: str, ref: str) -> None:
        sdk, what = await self._client.sdk(), f"delete of {ref}"
        try:
            if kind == "file":
                await self._client.call(what, sdk.aio.files.delete(name=ref))
            elif kind == "batch":
                await self._client.call(what, sdk.aio.batches.delete(name=ref))
        except ProviderError as error:
            by_design = kind == "file" and error.status == 400 and _cannot_be_deleted(ref)
            if error.error_class is not ErrorClass.missing and not by_design:
                raise

    async def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        prefix = f"g{owner}-"
        async for batch in self._batches(None):
            if batch.tag.startswith(prefix) and decode_tag(batch.tag) is not None:
                yield RemoteObject("batch", batch.batch_id, batch.tag, batch.phase.ended, batch.created_at)
        async for file in self._files(None):
            # Result files are not among them: they carry no tag, and they cannot be deleted.
            tag = str(file.get("displayName") or "")
            if tag.startswith(prefix) and decode_tag(tag) is not None:
                created_at = created_at_of({"metadata": file})
                yield RemoteObject("file", str(file["name"]), tag, ended=True, created_at=created_at)

    # ----- one by one -----

    async def complete(self, call: SyncCall) -> Answer:
        what = f"{call.endpoint} for {call.wire_id}"
        try:
            await self._client.sdk()
        except ProviderError as error:
            return failed_call(call, error)
        import httpx2

        try:
            model, target, body = native_body("gemini", call.endpoint, call.body)
            path = f"{model_path(model)}:{target.removeprefix('/')}"
            async with asyncio.timeout(call.timeout_s):
                response = await self._client.send("POST", path, content=dumps(body), timeout_s=call.timeout_s)
        except TimeoutError:
            return timed_out(call)
        except ProviderError as error:
            return failed_call(call, error, of_one_request(error.error_class))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return failed_call(call, connection_error(error, what))
        return _reply(call, response)

    async def close(self) -> None:
        await self._client.close()

    # ----- inside -----

    async def _batches(self, since: datetime | None) -> AsyncIterator[BatchStatus]:
        """All batches made since then. One that cannot be read does not empty the listing (PO-10)."""
        async for item in self._listed("list of batches", "batches", "operations", PAGE):
            at = created_at_of(item)
            if isinstance(item.get("name"), str) and (since is None or at is None or at >= since - CLOCK_SKEW):
                yield read_operation(item, display_name_of(item))

    async def _files(self, since: datetime | None) -> AsyncIterator[dict[str, Any]]:
        async for item in self._listed("list of files", "files", "files", FILES_PAGE):
            at = created_at_of({"metadata": item})
            if isinstance(item.get("name"), str) and (since is None or at is None or at >= since - CLOCK_SKEW):
                yield item

    async def _listed(self, what: str, path: str, key: str, size: int) -> AsyncIterator[dict[str, Any]]:
        """All pages: in what order they come is not documented, so that none is left out for its age."""
        token = ""
        for _ in range(MAX_PAGES):
            query = f"?pageSize={size}" + (f"&pageToken={token}" if token else "")
            page = await self._client.rest(what, "GET", path + query)
            items = page.get(key)
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield item
            following = page.get("nextPageToken")
            if not isinstance(following, str) or not following or following == token:
                return
            token = following


def _read(operation: dict[str, Any], what: str) -> BatchStatus:
    try:
        return read_operation(operation)
    except ValueError as error:
        raise ProviderError(f"{what}: {error}", error_class=ErrorClass.transient, code="no_id", status=200) from error


def _named(name: str | None, what: str) -> str:
    """What was made, or an answer that is not the API's (PO-22)."""
    if not name:
        raise ProviderError(
            f"{what}: the answer names nothing", error_class=ErrorClass.transient, code="no_id", status=200
        )
    return name


def _cannot_be_deleted(ref: str) -> bool:
    return len(ref.removeprefix("files/")) > FILE_ID_MAX


def _reply(call: SyncCall, response: "httpx2.Response") -> Answer:
    """A reply of the sync API, whatever its status."""
    status = response.status_code
    return read_sync(
        call,
        status,
        response.content,
        lambda body: read_reply(call.wire_id, status, body),
        lambda: retry_after_s(response.headers),
    )
