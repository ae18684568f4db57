"""The one interface behind which every provider stands.

An adapter translates: limits, calls, states, error codes, result lines. It decides nothing about
retrying; each call is one attempt and raises `ProviderError` with our error class. Finding before
creating, waiting, harvesting and retrying are done once, for all providers, by the activities.
SDKs are imported inside the adapter at first use.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from groupage.schemas import BatchStatus, ErrorClass, Outcome, ProviderLimits, Usage


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to become one provider batch. `path` is the rendered input, one line a request.

    `look_since` is set where an earlier attempt may have uploaded the input: look for it among the
    files made since then before uploading.
    """

    tag: str
    endpoint: str
    model: str
    path: Path
    requests: int
    intent_at: datetime
    look_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file of results to be fetched. `kind` is "output" or "errors": its name in the store."""

    kind: str
    ref: str


@dataclass(slots=True)
class Answer:
    """One result line, or one sync reply, read and classified.

    `wire_id` is None where the line carries no id: it is quarantined. `error_class` is None exactly
    where the outcome is an answer. `body` is the provider's answer, parsed. `retry_after_s` is set on
    sync replies only.
    """

    wire_id: str | None
    outcome: Outcome
    error_class: ErrorClass | None = None
    code: str = ""
    message: str = ""
    body: Any = None
    text: str | None = None
    tool_calls: list[Any] | None = None
    model: str | None = None
    usage: Usage | None = None
    request_id: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """A batch or file at the provider that carries our tag; `kind` is "batch" or "file"."""

    kind: str
    id: str
    tag: str
    ended: bool = True
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SyncCall:
    """One request for the sync API."""

    wire_id: str
    endpoint: str
    body: bytes
    timeout_s: float
    extra: dict[str, str] = field(default_factory=dict)


class BatchProvider(Protocol):
    """All methods are one attempt each and raise ProviderError (never an SDK's own exception)."""

    name: str

    def limits(self, endpoint: str, model: str) -> ProviderLimits: ...

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        """One input line, newline included. `body` is JSON and is spliced in, not parsed."""
        ...

    async def find(
        self, tag: str, *, since: datetime | None, not_ids: Sequence[str], files: Sequence[str] = ()
    ) -> BatchStatus | None:
        """The batch that carries the tag, or None. Of several, the one that is furthest; `warning` names the rest.

        `since` is the earliest moment of creation, None: look at all. `files` are input files of ours: a
        batch made of one of them is ours even if it shows no tag.
        """
        ...

    async def upload(self, submission: Submission) -> list[str]:
        """Find or create the input file by tag; [] where the input travels with the create call.

        The first one is to be used; further ones are copies that earlier attempts left and that are to be deleted.
        """
        ...

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        """Exactly one create call. AmbiguousCreate where the provider may have accepted it."""
        ...

    async def status(self, batch_id: str) -> BatchStatus: ...

    async def cancel(self, batch_id: str) -> BatchStatus:
        """Ask for cancellation and return what is there now; a batch that has ended is no error (PO-16)."""
        ...

    def result_files(self, status: BatchStatus) -> list[ResultFile]: ...

    async def download(self, file: ResultFile, path: Path) -> int:
        """Stream one file to `path`, byte for byte; returns its size. A body cut short raises transient."""
        ...

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        """Read one result line. Never raises: what cannot be read is `unreadable`."""
        ...

    async def delete(self, kind: str, ref: str) -> None:
        """Delete a "file" or "batch"; one that is gone already, or cannot be deleted by design, is no error."""
        ...

    def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        """All batches and files whose tag starts with this deployment's owner code."""
        ...

    async def complete(self, call: SyncCall) -> Answer:
        """One sync request, one attempt. Provider errors come back as an Answer, not as an exception."""
        ...

    async def close(self) -> None: ...
