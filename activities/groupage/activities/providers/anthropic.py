"""Anthropic's Message Batches, through the official SDK.

A batch is one JSON body that carries all requests. It is streamed from the rendered file, so memory does not
grow with it: rendering writes each request as one element and its comma, and the create call puts the brackets
around them. Results are taken from the batch's own path rather than from `results_url`, which may name another
host than the one that is configured, and would take the key there.

A batch shows nothing of ours until its results can be read (anthropic_batches.py): `find` finds nothing, and
what a create call without an answer made is told by `find_doubtful` and proven by `status`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from groupage.activities.answers_anthropic import read_result_line
from groupage.activities.providers.anthropic_batches import (
    guess_id,
    not_ours,
    read_batch,
    read_guess,
    undecided,
)
from groupage.activities.providers.anthropic_bodies import MESSAGES, native_body, read_response
from groupage.activities.providers.anthropic_client import BATCHES, AnthropicClient
from groupage.activities.providers.anthropic_errors import translate
from groupage.activities.providers.anthropic_transfer import TAIL, body_size, first_wire_id, stream_body
from groupage.activities.providers.base import Answer, Doubt, RemoteObject, ResultFile, Submission, SyncCall, Traits
from groupage.activities.providers.call_errors import after_refused_cancel, raise_create_failed, unsendable
from groupage.activities.providers.compatibility import facts_of, limits_of
from groupage.activities.providers.early_refusals import PATIENCE_S, of_its_size
from groupage.activities.providers.openai_errors import create_failed
from groupage.activities.providers.openai_files import save_body
from groupage.activities.providers.profile_options import checked
from groupage.activities.providers.sync_replies import failed_call, timed_out
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchStatus, ErrorClass, ProviderLimits
from groupage.schemas.catalog import ProviderFacts
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_wire_id

PAGE = 1000
"""Batches a page, the most that the API gives."""
MAX_BODY_BYTES = 256_000_000
"""The catalog's limit is lower: what is translated may grow by more than is planned for."""
PROBES_KEPT = 10_000
SWEPT_MAX = 2000
"""Ended batches that one sweep opens to see whose they are, newest first: two minutes of the rate limit."""


class AnthropicProvider:
    """One credential profile at Anthropic. Connections belong to the running event loop."""

    traits = Traits(tags=False, inline=True, growth=256)

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self.name = name
        self._settings = settings = checked(name, settings)
        self._client = AnthropicClient(name, settings)
        self._owners: dict[str, str] = {}
        """Tag in the results of batches that have ended, "" for somebody else's: it never changes."""

    # ----- what a batch may hold, and how a line is written -----

    def facts(self, model: str) -> ProviderFacts:
        return facts_of(self.name, self._settings, model)

    def limits(self, endpoint: str, model: str) -> ProviderLimits:  # noqa: ARG002  # they differ by model alone
        return limits_of(self.name, self._settings, model)

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        """One element of the array `requests`, with its comma: JSON has no raw 0x0A, so it is one line."""
        params = native_body(endpoint, body, wire_id)
        return b'{"custom_id":"%b","params":%b}%b' % (wire_id.encode(), params, TAIL)

    # ----- submitting -----

    async def find(
        self, tag: str, *, since: datetime | None, not_ids: Sequence[str], files: Sequence[str] = ()
    ) -> BatchStatus | None:
        """Nothing: no batch shows a tag."""
        del tag, since, not_ids, files
        return None

    async def find_doubtful(self, doubt: Doubt) -> BatchStatus | None:
        known = {one for batch_id in doubt.not_ids for one in _ids(batch_id)}
        candidates: list[BatchStatus] = []
        async for batch, made_at in self._batches(doubt.since):
            fits = batch.total in {doubt.requests, -1} and (made_at is None or made_at <= doubt.until)
            if batch.batch_id in known or not fits:
                continue
            owner = await self._owner_of(batch)
            if owner == doubt.tag:
                return batch.model_copy(update={"tag": doubt.tag})
            if owner is None:
                candidates.append(batch)
        if not candidates:
            return None
        return undecided(guess_id(doubt.tag, [one.batch_id for one in candidates]), doubt.tag, candidates)

    async def upload(self, submission: Submission) -> list[str]:
        """Nothing to upload: the input travels with the create call. A body that is too large is refused here."""
        size = body_size(submission.path)
        if size > MAX_BODY_BYTES:
            raise ProviderError(
                f"create of {submission.tag}: a body of {size} bytes, {MAX_BODY_BYTES} are allowed",
                error_class=ErrorClass.too_large,
                code="request_too_large",
            )
        # Connected before the create call, whose time is short.
        await self._client.sdk()
        return []

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        del files
        await self._client.sdk()
        import httpx2

        what, size = f"create of {submission.tag}", body_size(submission.path)

        async def post(body: AsyncIterator[bytes], timeout_s: float) -> dict[str, Any]:
            headers = {"Content-Type": "application/json", "Content-Length": str(size)}
            options: Any = {"headers": headers, "timeout": self._client.timeout(timeout_s), "max_retries": 0}
            client = await self._client.sdk()
            return await self._client.call(
                what, client.post(BATCHES, cast_to=httpx2.Response, content=body, options=options)
            )

        try:
            batch = await post(stream_body(submission.path), self._settings.inline_create_timeout_s)
            return self._batch(batch, what).model_copy(update={"tag": submission.tag})
        except ProviderError as error:
            failed = await of_its_size(error, size, lambda body: post(body, PATIENCE_S))
            raise_create_failed(create_failed(failed), error)

    # ----- watching -----

    async def status(self, batch_id: str) -> BatchStatus:
        guess = read_guess(batch_id)
        return await self._status(batch_id) if guess is None else await self._resolve(batch_id, *guess)

    async def _status(self, batch_id: str) -> BatchStatus:
        what = f"status of {batch_id}"
        client = await self._client.sdk()
        return self._batch(
            await self._client.call(what, client.messages.batches.with_raw_response.retrieve(batch_id)), what
        )

    async def _resolve(self, guessed: str, tag: str, ids: Sequence[str]) -> BatchStatus:
        """What a guess has come to. Raises ProviderError(missing) where what is left of it cannot be seen."""
        open_: list[BatchStatus] = []
        unseen: ProviderError | None = None
        for batch_id in ids:
            try:
                batch = await self._status(batch_id)
            except ProviderError as error:
                if error.error_class is not ErrorClass.missing:
                    raise
                unseen = error
                continue
            owner = await self._owner_of(batch)
            if owner == tag:
                return batch.model_copy(update={"tag": tag})
            if owner is None:
                open_.append(batch)
        if open_:
            return undecided(guessed, tag, open_)
        if unseen is not None:
            raise unseen
        return not_ours(guessed, tag, ids)

    async def _owner_of(self, batch: BatchStatus) -> str | None:
        """The tag in a batch's results, "" for what is not ours; None while it has no results."""
        if batch.batch_id in self._owners:
            return self._owners[batch.batch_id]
        if not batch.output_files:
            # Archived: nobody can tell any more, and what we do not know to be ours is not.
            return "" if batch.phase.ended else None
        what = f"look into the results of {batch.batch_id}"
        response = await self._client.open_results(batch.batch_id, what)
        try:
            wire_id = await first_wire_id(response, what)
        finally:
            await response.aclose()
        decoded = decode_wire_id(wire_id)
        if len(self._owners) >= PROBES_KEPT:
            self._owners.clear()
        self._owners[batch.batch_id] = decoded.tag if decoded else ""
        return self._owners[batch.batch_id]

    async def cancel(self, batch_id: str) -> BatchStatus:
        if read_guess(batch_id) is not None:
            # It may be somebody else's: what is not proven ours is left alone. What is proven has ended.
            return await self.status(batch_id)
        what = f"cancel of {batch_id}"
        client = await self._client.sdk()
        try:
            batch = await self._client.call(what, client.messages.batches.with_raw_response.cancel(batch_id))
        except ProviderError as error:
            return await after_refused_cancel(error, self._status, batch_id)
        return self._batch(batch, what)

    # ----- harvesting -----

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        return [ResultFile("output", ref) for ref in status.output_files]

    async def download(self, file: ResultFile, path: Path) -> int:
        what = f"download of the results of {file.ref}"
        # Results before the end are an error of the SDK's own, of no class (SDK-02): the state comes first.
        now = await self._status(file.ref)
        import httpx2

        if now.raw_state != "ended":
            raise ProviderError(
                f"{what}: the batch is {now.raw_state or 'in no known state'}",
                error_class=ErrorClass.transient,
                code="not_ended",
            )
        response = await self._client.open_results(file.ref, what)
        try:
            return await save_body(response, path, what)
        except httpx2.RequestError as error:
            # Raised while the body streams, which is outside of the SDK's own translation.
            raise ProviderError(
                f"{what}: {type(error).__name__}: {error}", error_class=ErrorClass.transient, code="cut_short"
            ) from error
        finally:
            await response.aclose()

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        del endpoint
        return read_result_line(line)

    # ----- cleaning up -----

    async def delete(self, kind: str, ref: str) -> None:
        """The batch with its results: both kinds name it. One that has not ended is left to end."""
        del kind
        guess = read_guess(ref)
        client = await self._client.sdk()
        try:
            if guess is not None:
                found = await self._resolve(ref, *guess)
                if found.batch_id == ref:
                    return  # none is proven ours
                ref = found.batch_id
            await self._client.call(f"delete of {ref}", client.messages.batches.with_raw_response.delete(ref))
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise

    async def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        """Ended batches whose results carry our tag, as files: they hold data, and deleting is all they need.

        A live batch shows nothing of ours, so none is listed: its job's own record knows it.
        """
        prefix = f"g{owner}-"
        opened = 0
        async for batch, _ in self._batches(None):
            if not batch.output_files:
                continue
            opened += 1
            if opened > SWEPT_MAX:
                return
            tag = await self._owner_of(batch) or ""
            if tag.startswith(prefix):
                yield RemoteObject("file", batch.batch_id, tag, ended=True, created_at=batch.created_at)

    # ----- one by one -----

    async def complete(self, call: SyncCall) -> Answer:
        try:
            client = await self._client.sdk()
        except ProviderError as error:
            return failed_call(call, error)
        import anthropic
        import httpx2

        headers = {"Content-Type": "application/json", **call.extra}
        options: Any = {"headers": headers, "timeout": self._client.timeout(call.timeout_s), "max_retries": 0}
        try:
            body = native_body(call.endpoint, call.body, call.wire_id)
            async with asyncio.timeout(call.timeout_s):
                # Not messages.create: it would parse and write the body anew, and refuses long answers by a guess.
                response = await client.post(MESSAGES, cast_to=httpx2.Response, content=body, options=options)
        except anthropic.APIStatusError as error:
            return read_response(call, error.response)
        except TimeoutError:
            return timed_out(call)
        except anthropic.AnthropicError as error:
            failed = translate(error, f"{call.endpoint} for {call.wire_id}")
        except UnicodeEncodeError as error:
            failed = unsendable(error, call.endpoint)
        except ProviderError as error:
            failed = error
        else:
            return read_response(call, response)
        return failed_call(call, failed)

    async def close(self) -> None:
        await self._client.close()

    # ----- inside -----

    def _batch(self, batch: dict[str, Any], what: str) -> BatchStatus:
        try:
            return read_batch(batch)
        except ValueError as error:
            raise ProviderError(f"{what}: {error}", error_class=ErrorClass.transient, code="no_id") from error

    async def _batches(self, since: datetime | None) -> AsyncIterator[tuple[BatchStatus, datetime | None]]:
        """(batch, when it was made by our clock) of all made since then, newest first.

        One that cannot be read does not empty the listing (PO-10). The listing's own Date tells how far the two
        clocks are apart: a worker whose clock is wrong must not take a batch for older than its own call.
        """
        after: dict[str, Any] = {}
        while True:
            page, ahead = await self._client.page(limit=PAGE, **after)
            items = page.get("data")
            if not isinstance(items, list):
                raise ProviderError("list of batches: it has no data", error_class=ErrorClass.transient, code="no_data")
            last = ""
            for item in items:
                if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                    continue
                batch, last = read_batch(item), str(item["id"])
                made_at = batch.created_at - ahead if batch.created_at else None
                if since is not None and made_at is not None and made_at < since:
                    return
                yield batch, made_at
            if not page.get("has_more") or not last:
                return
            after = {"after_id": last}


def _ids(batch_id: str) -> list[str]:
    guess = read_guess(batch_id)
    return [batch_id] if guess is None else []
