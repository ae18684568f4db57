"""The one interface behind which every provider stands.

An adapter translates: limits, calls, states, error codes, result lines. It decides nothing about
retrying; each call is one attempt and raises `ProviderError` with our error class. Finding before
creating, waiting, harvesting and retrying are done once, for all providers, by the activities.
SDKs are imported inside the adapter at first use.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from groupage.schemas import BatchStatus, ErrorClass, Outcome, ProviderLimits, Usage
from groupage.schemas.catalog import ProviderFacts, provider_facts

CLOCK_SKEW = timedelta(days=1)
"""How far a provider's clock may be from ours, or ours from that of the worker before, where a listing is cut by time.
The tag tells what is ours; time only saves pages, and a clock may be hours wrong."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to become one provider batch. `path` is the rendered input, one line a request.

    `look_since` is set where an earlier attempt may have uploaded the input: look for it among the
    files made since then before uploading. `not_ids` are batches of this tag that are known to be dead.
    `left_s` is the time until the job's deadline, for providers that offer a choice of windows; None: not told.
    `first_left_s` is what it was at the shard's first attempt, and is the same in every later one: for a provider that
    tells a create that is sent again by its parameters.
    """

    tag: str
    endpoint: str
    model: str
    path: Path
    requests: int
    intent_at: datetime
    look_since: datetime | None = None
    not_ids: Sequence[str] = ()
    left_s: float | None = None
    first_left_s: float | None = None


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file of results to be fetched. `kind` is "output" or "errors": its name in the store.

    A file without `lines` of results (Bedrock's manifest) is stored as received and not read.
    """

    kind: str
    ref: str
    lines: bool = True


class Echo(NamedTuple):
    """Digests of the request that a line without an id repeats, 16 bytes each; of what, is the adapter's business.

    `exact` is of everything that was asked. `loose` leaves out what a server may write otherwise when it
    repeats a request: whatever has the same `exact` has the same `loose`.
    """

    exact: bytes
    loose: bytes


@dataclass(slots=True)
class Answer:
    """One result line, or one sync reply, read and classified.

    `wire_id` is None where the line carries no id: it is quarantined, unless its `echo` tells whose it is.
    `error_class` is None exactly where the outcome is an answer. `body` is the provider's answer, parsed.
    `retry_after_s` is set on sync replies only. A line that `says_nothing` repeats a request that did not
    run; it is passed over (without a wire id), so that the request counts as one that is in no file.
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
    echo: Echo | None = None
    says_nothing: bool = False


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


@dataclass(frozen=True, slots=True)
class Traits:
    """What the generic steps have to do differently for a provider; the defaults are what most are like.

    tags     batches can be found again by their tag. Without: `UntaggedProvider`, and one create at a time
    inline   the input travels in the create call itself, which therefore takes as long as an upload
    growth   bytes by which translating a portable body may lengthen a line, planned for beside the overhead
    echoes   result lines repeat their request, and may do without an id: `EchoingProvider`
    """

    tags: bool = True
    inline: bool = False
    growth: int = 0
    echoes: bool = False


_USUAL = Traits()


def traits_of(provider: BatchProvider) -> Traits:
    """An adapter that says nothing (no attribute `traits`) is like most."""
    traits = getattr(provider, "traits", _USUAL)
    assert isinstance(traits, Traits)
    return traits


def facts_about(provider: BatchProvider, model: str) -> ProviderFacts:
    """What the catalog says of the adapter's provider; one without a method `facts` is looked up by its name."""
    facts = getattr(provider, "facts", None)
    found = provider_facts(provider.name, model=model) if facts is None else facts(model)
    assert isinstance(found, ProviderFacts)
    return found


@dataclass(frozen=True, slots=True)
class Doubt:
    """A create call that may have made a batch: what is known of that batch, and what it is not.

    It holds so many `requests`, was made between `since` and `until` (our clock, wide enough for theirs to
    differ), and is none of `not_ids`.
    """

    tag: str
    requests: int
    since: datetime
    until: datetime
    not_ids: frozenset[str]


class UntaggedProvider(BatchProvider, Protocol):
    """One whose batches carry nothing of ours from outside; its `find` finds nothing."""

    async def find_doubtful(self, doubt: Doubt) -> BatchStatus | None:
        """The batch, or a stand-in for several that it may be, or None where there is none.

        A stand-in has an id of the adapter's own making. `status` of it tells, once that can be known, the
        batch that is proven ours, or a failure where none is; `cancel` and `delete` touch only what is proven.
        """
        ...


class EchoingProvider(BatchProvider, Protocol):
    """One whose result lines repeat the request."""

    def echo_of(self, endpoint: str, body: bytes) -> Echo:
        """What a line that repeats this request would carry as its `echo`. `body` as `render` gets it."""
        ...
