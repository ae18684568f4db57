"""What the tests that are the same for every adapter have to know of each: one record a provider."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gcs_server import GcsServer, running_gcs
from groupage.schemas import BatchPhase, ErrorClass
from job_world import JobWorld
from provider_world import Emulator
from s3_server import S3Server, running_s3

Rows = Iterable[tuple[Any, ...]]
BUCKET = "groupage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What differs between providers. Tables are lists of rows, and the contract's tests say of what.

    world        jobs at the provider
    variables    the environment of whoever talks to it, from the emulator's base URL; `cleared` are unset
    emulator     options of its emulator
    store        the object store that its data lies in: "", "s3" or "gcs"
    tagged       batches can be found again by their tag
    uploads      input can be seen at the provider before there is a batch
    priced       the catalog knows what its models cost
    page         the constant that says how many batches are asked for at once
    unplugged    variables by which nobody is reached
    models       portable models, the first the usual one: each is answered by batch
    sync_models  and those that are asked one by one
    tool_models  and those whose calls of tools are of a shape of their own
    apis         a model for each call by which a model is asked
    gone         names of a file and a batch that were never there
    completed, cancelling, cancelled   the provider's words; cancelling None: it has none
    states       (word, raw state, phase, warned)
    refusals     (fault of the create call, class)
    quota        a fault of the create call that is over when something else has ended
    counts       (kind of lie, what is told of total, completed and failed)
    failures     (fault of the batch, class, code)
    top_error    how a line of status 400 is told
    mismatch     what is said of a batch that counts ten failures as successes
    partial      effects of a batch that expires with a part done; none: it loses all
    damaged      (name, model, effects of the batch, lines that are nobody's) with which each kind of damage is tried
    listed       (input counts as ended while its batch runs, files that are there at the end)
    sync_errors  (fault of the request, class)
    lost_replies (fault of the call, code)
    """

    label: str
    world: type[JobWorld]
    variables: Callable[[str], dict[str, str]]
    cleared: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()
    store: str = ""
    tagged: bool = True
    uploads: bool = True
    priced: bool = True
    page: str
    unplugged: Mapping[str, str]
    models: tuple[str, ...]
    sync_models: tuple[str, ...]
    tool_models: tuple[str, ...]
    apis: tuple[str, ...]
    gone: tuple[str, str]
    completed: str
    cancelling: str | None
    cancelled: str
    states: Rows
    refusals: Rows
    quota: Mapping[str, Any]
    counts: Rows
    failures: Rows
    top_error: str
    mismatch: str
    partial: tuple[list[dict[str, Any]], ...]
    damaged: Rows
    listed: tuple[bool, int]
    sync_errors: Rows
    lost_replies: Rows


@dataclass(slots=True)
class Site:
    """One provider's servers."""

    emulator: Emulator
    s3: S3Server | None = None
    gcs: GcsServer | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def emptied(self) -> None:
        self.emulator.reset()
        if self.s3:
            store = self.s3.open(f"s3://{BUCKET}")
            store.delete(list(store.list("")))
        if self.gcs:
            self.gcs.clear()


class Sites:
    """The servers of each provider, started when they are first needed and ended with the block that made this."""

    def __init__(self, stack: ExitStack, folder: Callable[[str], Path]) -> None:
        self._stack, self._folder = stack, folder
        self._sites: dict[str, Site] = {}

    def at(self, record: Record) -> Site:
        if record.label not in self._sites:
            self._sites[record.label] = self._stack.enter_context(self._started(record))
        return self._sites[record.label]

    @contextmanager
    def _started(self, record: Record) -> Iterator[Site]:
        with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            s3 = stack.enter_context(running_s3(self._folder("s3"))) if record.store == "s3" else None
            gcs = stack.enter_context(running_gcs(self._folder("gcs"))) if record.store == "gcs" else None
            stores = (s3.variables() if s3 else {}) | (gcs.variables() if gcs else {})
            for name, value in stores.items():
                patch.setenv(name, value)
            emulator = Emulator(self._folder("emulator"), *record.emulator)
            patch.undo()
            stack.callback(emulator.close)
            yield Site(emulator, s3, gcs, stores | record.variables(emulator.base_url))


BatchWord = tuple[str | None, str, BatchPhase, bool]


def words(known: Mapping[str, BatchPhase], unknown: Iterable[str | None]) -> list[BatchWord]:
    """Rows of `states`: documented words have phases, and of others (PO-05) a warning is given."""
    rows: list[BatchWord] = [(word, word, phase, False) for word, phase in known.items()]
    return rows + [(word, word or "", BatchPhase.unknown, True) for word in unknown]


def by_status(classes: Mapping[int, ErrorClass]) -> list[tuple[dict[str, Any], ErrorClass]]:
    """Rows of `sync_errors`: failed requests that say nothing but their HTTP status."""
    return [({"kind": "http", "status": status}, found) for status, found in classes.items()]
