"""OpenAI's batch API and its relatives, through the official SDK.

The SDK's own retries are off for every call: it would send a create call three times (docs/cases.md SU-04), and
retrying belongs to one layer, ours. Answers are read as JSON by us, because the SDK passes on what a gateway
says as a plain text where an object is expected (PO-22).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupage.activities.answers import read_batch_line, read_reply
from groupage.activities.providers.base import Answer, RemoteObject, ResultFile, Submission, SyncCall
from groupage.activities.providers.batch_objects import furthest, read_time
from groupage.activities.providers.call_errors import (
    after_refused_cancel,
    raise_create_failed,
    retry_after_s,
    unsendable,
)
from groupage.activities.providers.compatibility import compatibility_of, facts_of, limits_of
from groupage.activities.providers.openai_address import read_address
from groupage.activities.providers.openai_batches import OF_FILE, TAG_KEY, read_batch
from groupage.activities.providers.openai_errors import create_failed, read_object, translate
from groupage.activities.providers.openai_files import file_name, save_body, send_file, tag_of_file
from groupage.activities.providers.openai_listing import listed
from groupage.activities.providers.profile_options import checked
from groupage.activities.providers.sdk_loading import load
from groupage.activities.providers.sync_replies import failed_call, read_sync, timed_out
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchStatus, ErrorClass, ProviderLimits
from groupage.schemas.catalog import ProviderFacts
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai import AsyncOpenAI

PAGE = 100
"""Batches a page, the most that OpenAI gives."""


class OpenAIProvider:
    """One credential profile at one OpenAI-shaped provider. Connections belong to the running event loop."""

    _of_file: Mapping[str, ErrorClass] = OF_FILE

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self.name = name
        self._settings = settings = checked(name, settings)
        self._dialect = compatibility_of(name, settings)
        self._client: AsyncOpenAI | None = None
        self._connecting = asyncio.Lock()

    # ----- what a batch may hold, and how a line is written -----

    def facts(self, model: str) -> ProviderFacts:
        return facts_of(self.name, self._settings, model)

    def limits(self, endpoint: str, model: str) -> ProviderLimits:  # noqa: ARG002  # they differ by model alone
        return limits_of(self.name, self._settings, model)

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
            wire_id.encode(),
            self._written(endpoint).encode(),
            body,
        )

    def _written(self, endpoint: str) -> str:
        """The endpoint as lines and the create call name it."""
        return endpoint

    # ----- submitting -----

    async def find(
        self, tag: str, *, since: datetime | None, not_ids: Sequence[str], files: Sequence[str] = ()
    ) -> BatchStatus | None:
        known_files = set(files)
        if not self._dialect.metadata:
            known_files |= {file["id"] for file in await self._files_named(file_name(tag), since)}
        matches: list[BatchStatus] = []
        async for batch in self._batches(since):
            if batch.batch_id in not_ids:
                continue
            if batch.tag == tag or (not batch.tag and known_files.intersection(batch.input_files)):
                matches.append(batch.model_copy(update={"tag": tag}))
        return furthest(tag, matches)

    async def upload(self, submission: Submission) -> list[str]:
        name, size = file_name(submission.tag), submission.path.stat().st_size
        if submission.look_since is not None:
            usable = await self._usable_files(name, size, submission.look_since)
            if usable:
                return usable
        file = await self._settled_file(await self._upload_file(submission.path, name))
        stored = file.get("bytes")
        if file.get("status") == "error":
            await self.delete("file", str(file["id"]))
            raise ProviderError(
                f"upload of {name}: the provider could not take it in: {file.get('status_details') or 'no reason given'}",
                error_class=ErrorClass.transient,
                code="file_error",
            )
        if self._dialect.file_sizes and isinstance(stored, int) and stored != size:
            await self.delete("file", str(file["id"]))
            raise ProviderError(
                f"upload of {name}: {stored} of {size} bytes are there",
                error_class=ErrorClass.transient,
                code="cut_short",
            )
        return [str(file["id"])]

    async def _usable_files(self, name: str, size: int, since: datetime) -> list[str]:
        """Files of this name that are whole; those that are not are deleted."""
        usable: list[str] = []
        for named in await self._files_named(name, since):
            file = await self._settled_file(named)
            whole = not self._dialect.file_sizes or file.get("bytes") in {size, None}
            if whole and file.get("status") != "error":
                usable.append(str(file["id"]))
            else:
                await self.delete("file", str(file["id"]))
        return usable

    async def _settled_file(self, file: dict[str, Any]) -> dict[str, Any]:
        """The file once the server has taken it in, or has failed to."""
        return file

    def _expiry(self) -> dict[str, Any] | None:
        """When files shall delete themselves, in the provider's words; None where that is left to the provider."""
        shortest, longest = self._dialect.expiry_bounds_s
        seconds = self._settings.files_expire_after_s
        return {"anchor": "created_at", "seconds": min(max(seconds, shortest), longest)} if seconds else None

    async def _upload_file(self, path: Path, name: str) -> dict[str, Any]:
        options: dict[str, Any] = {"timeout": self._timeout(self._settings.transfer_timeout_s)}
        if self._dialect.expires_after and (expiry := self._expiry()):
            options["expires_after"] = expiry
        file = await send_file(await self._sdk(), self._call, path, name, options)
        if not isinstance(file.get("id"), str):
            raise ProviderError(
                f"upload of {name}: the answer has no file id", error_class=ErrorClass.transient, code="no_id"
            )
        return file

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        options: dict[str, Any] = {"completion_window": self._dialect.window(submission.left_s)}
        if self._dialect.metadata:
            options["metadata"] = {TAG_KEY: submission.tag, "groupage_requests": str(submission.requests)}
        if self._dialect.create_extra:
            options["extra_body"] = dict(self._dialect.create_extra)
        if self._dialect.output_expires_after and (expiry := self._expiry()):
            options["output_expires_after"] = expiry
        endpoint: Any = self._written(submission.endpoint)
        what = f"create of {submission.tag}"
        try:
            batch = await self._call(
                what,
                (await self._sdk()).batches.with_raw_response.create(
                    endpoint=endpoint,
                    input_file_id=files[0],
                    timeout=self._timeout(self._settings.create_timeout_s),
                    **options,
                ),
            )
            return self._batch(batch, what)
        except ProviderError as error:
            raise_create_failed(create_failed(error), error)

    # ----- watching -----

    async def status(self, batch_id: str) -> BatchStatus:
        what = f"status of {batch_id}"
        return self._batch(
            await self._call(what, (await self._sdk()).batches.with_raw_response.retrieve(batch_id)), what
        )

    async def cancel(self, batch_id: str) -> BatchStatus:
        what = f"cancel of {batch_id}"
        try:
            batch = await self._call(what, (await self._sdk()).batches.with_raw_response.cancel(batch_id))
        except ProviderError as error:
            return await after_refused_cancel(error, self.status, batch_id)
        return self._batch(batch, what)

    # ----- harvesting -----

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        outputs = [ResultFile("output", ref) for ref in status.output_files]
        return outputs + [ResultFile("errors", ref) for ref in status.error_files]

    async def download(self, file: ResultFile, path: Path) -> int:
        client, what = await self._sdk(), f"download of {file.ref}"
        import httpx2
        import openai

        streaming = client.files.with_streaming_response.content(
            file.ref,
            timeout=self._timeout(self._settings.transfer_timeout_s),
            extra_headers={"Accept-Encoding": "gzip, identity"},
        )
        try:
            async with streaming as response:
                return await save_body(response.http_response, path, what)
        except openai.OpenAIError as error:
            raise self._translated(error, what) from error
        except httpx2.RequestError as error:
            # Raised while the body streams, which is outside of the SDK's own translation.
            raise ProviderError(
                f"{what}: {type(error).__name__}: {error}", error_class=ErrorClass.transient, code="cut_short"
            ) from error

    plain_chat = True
    """Lines have the shape that `plain_answers` knows."""

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        return read_batch_line(line, endpoint)

    # ----- cleaning up -----

    async def delete(self, kind: str, ref: str) -> None:
        if kind != "file":
            return  # batches cannot be deleted here; they are only records
        try:
            await self._call(f"delete of {ref}", (await self._sdk()).files.with_raw_response.delete(ref))
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise

    async def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        prefix = f"g{owner}-"
        results: dict[str, tuple[str, bool]] = {}
        async for batch in self._batches(None):
            if not batch.tag.startswith(prefix) or decode_tag(batch.tag) is None:
                continue
            for ref in (*batch.output_files, *batch.error_files):
                results[ref] = (batch.tag, batch.phase.ended)
            yield RemoteObject("batch", batch.batch_id, batch.tag, batch.phase.ended, batch.created_at)
        for purpose in self._dialect.file_purposes:
            async for file in self._files(purpose, None):
                ref, created_at = str(file["id"]), read_time(file.get("created_at"))
                if ref in results:
                    tag, ended = results[ref]
                    yield RemoteObject("file", ref, tag, ended, created_at)
                    continue
                tag = tag_of_file(file)
                if tag.startswith(prefix) and decode_tag(tag) is not None:
                    yield RemoteObject("file", ref, tag, ended=True, created_at=created_at)

    # ----- one by one -----

    async def complete(self, call: SyncCall) -> Answer:
        try:
            client = await self._sdk()
        except ProviderError as error:
            return failed_call(call, error)
        import httpx2
        import openai

        headers = {"Content-Type": "application/json", **call.extra}
        options: Any = {"headers": headers, "timeout": self._timeout(call.timeout_s), "security": {"bearer_auth": True}}
        try:
            async with asyncio.timeout(call.timeout_s):
                response = await client.post(
                    self._path(call), cast_to=httpx2.Response, content=call.body, options=options
                )
        except openai.APIStatusError as error:
            return self._reply(call, error.response)
        except TimeoutError:
            return timed_out(call)
        except openai.OpenAIError as error:
            failed = self._translated(error, f"{call.endpoint} for {call.wire_id}")
        except UnicodeEncodeError as error:
            failed = unsendable(error, call.endpoint)
        except ProviderError as error:
            failed = error
        else:
            return self._reply(call, response)
        return failed_call(call, failed)

    def _path(self, call: SyncCall) -> str:
        """Where a sync request goes: the base URL ends in /v1 (or what stands for it), and so do our endpoints begin."""
        return call.endpoint.removeprefix("/v1")

    def _reply(self, call: SyncCall, response: "httpx2.Response") -> Answer:
        status, headers = response.status_code, response.headers

        def read(body: Any) -> Answer:
            return read_reply(call.wire_id, call.endpoint, status, body, headers.get("x-request-id", ""))

        return read_sync(call, status, response.content, read, lambda: retry_after_s(headers))

    async def close(self) -> None:
        client, self._client, self._connecting = self._client, None, asyncio.Lock()
        if client is not None:
            await client.close()

    # ----- inside -----

    async def _sdk(self) -> "AsyncOpenAI":
        async with self._connecting:
            if self._client is not None:
                return self._client
            # Importing the SDK takes a second of CPU and more on a busy machine: not in the event loop.
            self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> "AsyncOpenAI":
        load("openai", extra="openai")
        from openai import AsyncOpenAI

        base_url, api_key = read_address(self.name, self._settings, self._dialect)
        client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=self._timeout(self._settings.request_timeout_s),
            default_headers=dict(self._settings.extra_headers) or None,
        )
        # Resources are imported when they are first named.
        _ = client.batches.with_raw_response, client.files.with_raw_response
        return client

    def _timeout(self, silence_s: float) -> "httpx2.Timeout":
        import httpx2

        return httpx2.Timeout(silence_s, connect=self._settings.connect_timeout_s)

    async def _call(self, what: str, request: Awaitable[Any]) -> dict[str, Any]:
        import openai

        try:
            response = await request
        except openai.OpenAIError as error:
            raise self._translated(error, what) from error
        except UnicodeEncodeError as error:
            raise unsendable(error, what) from None
        return read_object(getattr(response, "http_response", response), what)

    def _translated(self, error: "openai.OpenAIError", what: str) -> ProviderError:
        return translate(error, what)

    def _batch(self, batch: dict[str, Any], what: str) -> BatchStatus:
        try:
            return read_batch(batch, self._of_file)
        except ValueError as error:
            raise ProviderError(f"{what}: {error}", error_class=ErrorClass.transient, code="no_id") from error

    async def _batches(self, since: datetime | None) -> AsyncIterator[BatchStatus]:
        """All batches made since then. One that cannot be read does not empty the listing (PO-10)."""
        client = await self._sdk()

        async def page(after: str | None) -> dict[str, Any]:
            options = self._page_options(PAGE, after)
            listing: Any = client.batches.with_raw_response.list(**options)
            return await self._call("list of batches", listing)

        async for item in listed(page, since, paged=self._dialect.list_takes_parameters):
            yield read_batch(item, self._of_file)

    async def _files(self, purpose: str, since: datetime | None) -> AsyncIterator[dict[str, Any]]:
        client = await self._sdk()

        async def page(after: str | None) -> dict[str, Any]:
            options = self._page_options(self._dialect.files_page, after)
            if self._dialect.list_takes_parameters:
                options |= {"purpose": purpose}
            listing: Any = client.files.with_raw_response.list(**options)
            return await self._call("list of files", listing)

        async for item in listed(page, since, paged=self._dialect.list_takes_parameters):
            if item.get("purpose") in {purpose, None}:
                yield item

    async def _files_named(self, name: str, since: datetime | None) -> list[dict[str, Any]]:
        return [file async for file in self._files("batch", since) if file.get("filename") == name]

    def _page_options(self, limit: int, after: str | None) -> dict[str, Any]:
        if not self._dialect.list_takes_parameters:
            return {}
        return {"limit": limit} if after is None else {"limit": limit, "after": after}
