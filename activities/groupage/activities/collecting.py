"""Collecting a provider batch: download, verify, store as received, read, store what it says.

The order makes each step safe to repeat: nothing is read that was not downloaded whole, nothing is
concluded before the bytes are in our store, `report.json` comes last and a shard that has one is not
touched again. What the files say is believed, not the status word or its counts (promise 6).
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import zstandard
from groupage.activities.doubles import find_doubles, may_cost
from groupage.activities.downloads import COPY_BYTES, Download, Replaced, digests, download_files
from groupage.activities.harvesting import Harvest, Quarantine, Reader
from groupage.activities.late import REPORT, note_if_late
from groupage.activities.looking import cancel_others
from groupage.activities.matching import ALIKE, Echoes
from groupage.activities.memory import give_back
from groupage.activities.normalising import Normaliser
from groupage.activities.pricing import PriceBook
from groupage.activities.providers.base import BatchProvider, Echo, EchoingProvider, facts_about, traits_of
from groupage.activities.refusals import NEIGHBOUR, Blame, blame
from groupage.activities.threads import check, in_thread
from groupage.schemas import BatchPhase, BatchStatus, ErrorClass, Outcome, ShardPlan, ShardReport
from groupage.schemas.activity_calls import CollectBatch
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import ResultLine
from groupage.store.rows import Indices, dollars
from groupage.store.segments import SegmentReader, read_manifest
from groupage.store.shard_results import ShardResults, ShardResultWriter
from groupage.store.shards import read_members, read_shard_plan

DOWNLOADS = 3
"""How often the files are fetched before a member that is in none of them is declared missing (RP-05)."""

QUARANTINE = "quarantine.jsonl.zst"
REPLACED = "replaced.json"
"""The status of a batch that named other result files later on: clean-up deletes those as well."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the worker's settings say about collecting."""

    spool: Path
    not_visible: timedelta = timedelta(minutes=15)
    """A result file that is not found is "not visible yet" for so long after the end (PO-01)."""
    pause_s: float = 2.0
    """Before the files are downloaded again."""
    heavy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Held while a shard's files are read: bounds the memory of all that run at once."""


@dataclass(slots=True)
class _Read:
    """What one reading of the files brought."""

    results: ShardResults | None
    harvest: Harvest
    missing: Indices
    notes: list[str] = field(default_factory=list)


async def collect_batch(store: Store, provider: BatchProvider, call: CollectBatch, limits: Limits) -> ShardReport:
    """Bring home what a provider batch holds. Raises ProviderError (transient: again), StoreError."""
    shard, job = call.shard, call.shard.job
    at = (job.tenant, job.key, shard.round, shard.shard)
    stored = await asyncio.to_thread(lambda: store.get_message_or_none(keys.shard_object(*at, REPORT), ShardReport))
    if stored is not None:
        return await asyncio.to_thread(note_if_late, store, job, stored)
    plan = await asyncio.to_thread(read_shard_plan, store, *at)
    limits.spool.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=limits.spool, prefix=f"{shard.tag}-") as name:
        try:
            read = await _download_and_read(store, provider, call, plan, limits, folder=Path(name))
        except Replaced as replaced:
            call = call.model_copy(update={"status": replaced.status})
            await asyncio.to_thread(store.put_message, keys.shard_object(*at, REPLACED), replaced.status)
            read = await _download_and_read(store, provider, call, plan, limits, folder=Path(name))
    report = _report(call, plan, read, await _doubles(store, provider, call))
    await asyncio.to_thread(store.put_message, keys.shard_object(*at, REPORT), report)
    return await asyncio.to_thread(note_if_late, store, job, report)


async def _doubles(store: Store, provider: BatchProvider, call: CollectBatch) -> list[BatchStatus]:
    """Other batches of the shard that may have answered it as well: cancelled here, followed up by cleaning up."""
    if not call.status.batch_id:
        return []
    doubles = [one for one in await find_doubles(store, provider, call.shard, call.status.batch_id) if may_cost(one)]
    await cancel_others(provider, doubles)
    return doubles


async def _download_and_read(
    store: Store, provider: BatchProvider, call: CollectBatch, plan: ShardPlan, limits: Limits, *, folder: Path
) -> _Read:
    collector = _Collector(store, provider, call, plan, folder)
    before: list[str] | None = None
    for turn in range(1, DOWNLOADS + 1):
        downloads, lost = await download_files(provider, call, limits.not_visible, folder)
        # Only files that were found wanting are worth a digest.
        found = await in_thread(partial(digests, downloads)) if before is not None else None
        same = found is not None and found == before
        async with limits.heavy:
            read = await in_thread(partial(collector.read, downloads, same=same, final=turn == DOWNLOADS))
            await asyncio.to_thread(give_back)
        if read.results is not None:
            read.notes += lost
            return read
        before = found or await in_thread(partial(digests, downloads))
        await asyncio.sleep(limits.pause_s * turn)
    raise AssertionError("the last turn is final")


class _Collector:
    """The blocking half: reads downloaded files into the store."""

    def __init__(
        self, store: Store, provider: BatchProvider, call: CollectBatch, plan: ShardPlan, folder: Path
    ) -> None:
        self._store = store
        self._provider = provider
        self._call = call
        self._plan = plan
        self._folder = folder
        job, shard = call.shard.job, call.shard
        self._at = (job.tenant, job.key, shard.round, shard.shard)

    def read(self, downloads: list[Download], stop: threading.Event, *, same: bool, final: bool) -> _Read:
        """Read the files; store results unless something is missing and the files may be fetched again.

        `same`: these bytes were read before; `final`: they are not fetched once more. The files are
        stored as received before anything is concluded from them.
        """
        members = read_members(self._store, *self._at)
        normaliser = self._normaliser()
        reader = Reader(
            tag=self._call.shard.tag,
            endpoint=self._plan.endpoint,
            members=members,
            read_line=self._provider.read_line,
            plain_chat=getattr(self._provider, "plain_chat", False),
            normaliser=normaliser,
            stop=stop,
            echoes=partial(self._echoes, members, stop) if traits_of(self._provider).echoes else None,
        )
        quarantined = self._folder / QUARANTINE
        with ShardResultWriter(self._store, *self._at, directory=self._folder) as writer:
            with Quarantine(quarantined) as quarantine:
                harvest = reader.read([(d.name, d.path) for d in downloads if d.lines], writer, quarantine)
            missing = writer.missing(members)
            if downloads and not final and self._incomplete(harvest, missing, same=same):
                return _Read(None, harvest, missing)
            for download in downloads:
                self._store_as_received(download, stop)
            if harvest.quarantined:
                self._store.put_file(keys.shard_object(*self._at, QUARANTINE), quarantined)
            for line in self._unanswered(normaliser, missing, harvest):
                writer.add(line)
            check(stop)
            return _Read(writer.close(), harvest, missing)

    def _echoes(self, members: Indices, stop: threading.Event, waiting: Indices, lines: Iterable[Echo]) -> Echoes:
        """The members by what a line that repeats their request would say; only those that wait can be taken."""
        job, endpoint = self._call.shard.job, self._plan.endpoint
        provider = cast("EchoingProvider", self._provider)
        bodies = SegmentReader(self._store, read_manifest(self._store, job.tenant, job.key)).bodies(members)

        def requests() -> Iterator[tuple[int, Echo]]:
            for index, body in bodies:
                check(stop)
                yield index, provider.echo_of(endpoint, body)

        return Echoes(requests(), waiting.tolist(), lines)

    def _incomplete(self, harvest: Harvest, missing: Indices, *, same: bool) -> bool:
        """Whether fetching the files again may bring more (RP-04, RP-05).

        Some lines of an expired or cancelled batch may be missing for good (PF-14), or because a file was
        cut at a line's end: only the same bytes a second time tell.
        """
        status = self._call.status
        told = max(status.completed, 0) + max(status.failed, 0)
        if harvest.cut or harvest.lines < told:
            return True
        return bool(len(missing)) and not same

    def _normaliser(self) -> Normaliser:
        call = self._call
        ended_at = call.status.ended_at or datetime.now(UTC)
        return Normaliser(
            provider=call.shard.job.provider,
            endpoint=self._plan.endpoint,
            model=self._plan.model,
            route=self._plan.route,
            round_=call.shard.round,
            prices=PriceBook(call.shard.job.provider, ended_at, partial(facts_about, self._provider)),
            sent_at=min(call.submitted_at, ended_at),
            ended_at=ended_at,
            batch_id=call.status.batch_id,
        )

    def _store_as_received(self, download: Download, stop: threading.Event) -> None:
        """Compressed, else byte for byte."""
        packed = self._folder / f"{download.name}.zst"
        compressor = zstandard.ZstdCompressor(level=1)
        with download.path.open("rb") as source, compressor.stream_writer(packed.open("wb")) as stream:
            while chunk := source.read(COPY_BYTES):
                check(stop)
                stream.write(chunk)
        self._store.put_file(keys.shard_object(*self._at, f"{download.name}.jsonl.zst"), packed)

    def _unanswered(self, normaliser: Normaliser, missing: Indices, harvest: Harvest) -> Iterable[ResultLine]:
        """Lines for the members that are in no file: each named, none guessed."""
        status = self._call.status
        fate = _fate(status, len(missing), harvest.unreadable_without_id)
        at_fault = self._at_fault()
        if status.error is not None and status.error.bad_lines:
            fate = NEIGHBOUR
        for index in missing.tolist():
            if index in at_fault:
                yield normaliser.unanswered(index, Outcome.failed, ErrorClass.invalid, *at_fault[index])
            elif index in harvest.alike:
                yield normaliser.unanswered(index, *_ALIKE)
            else:
                yield normaliser.unanswered(index, *fate)

    def _at_fault(self) -> Blame:
        if self._call.status.error is None:
            return {}
        job = self._call.shard.job
        reader = SegmentReader(self._store, read_manifest(self._store, job.tenant, job.key))
        return blame(self._call.status, read_members(self._store, *self._at), reader)


Fate = tuple[Outcome, ErrorClass, str, str]

_FATES: dict[BatchPhase, Fate] = {
    BatchPhase.expired: (Outcome.expired, ErrorClass.expired, "batch_expired", "the provider's window ended first"),
    BatchPhase.cancelled: (Outcome.cancelled, ErrorClass.cancelled, "batch_cancelled", "cancelled before it ran"),
    BatchPhase.failed: (Outcome.failed, ErrorClass.unknown, "batch_failed", "the batch failed without a reason"),
}
_MISSING = (Outcome.failed, ErrorClass.missing, "missing", "in no result file, though the batch ended")
_ALIKE = (
    Outcome.failed,
    ErrorClass.missing,
    ALIKE,
    "its result is in the quarantine: the provider writes this request and others alike, and whose it is, nobody knows",
)


def _fate(status: BatchStatus, missing: int, unreadable: int) -> Fate:
    """(outcome, class, code, message) of the members that no line tells of."""
    error = status.error
    if error is not None and status.phase not in {BatchPhase.cancelled, BatchPhase.expired}:
        return Outcome.failed, error.error_class, error.code, error.message
    if not status.batch_id:
        return Outcome.cancelled, ErrorClass.not_sent, "not_sent", "stopped before it was submitted"
    if status.phase in _FATES:
        return _FATES[status.phase]
    if unreadable >= missing:
        # As many lines without a readable id as members without a line: theirs, whichever is whose (RP-12).
        message = f"its line is among {unreadable} that cannot be read; they are kept in the quarantine"
        return Outcome.unreadable, ErrorClass.unreadable, "unreadable_line", message
    return _MISSING


def _report(call: CollectBatch, plan: ShardPlan, read: _Read, doubles: list[BatchStatus]) -> ShardReport:
    assert read.results is not None
    tally, status, harvest = read.results.tally, call.status, read.harvest
    ended_at = status.ended_at or datetime.now(UTC)
    lost = _results_are_lost(status)
    notes = [*read.notes, *_disagreements(status, plan, harvest, len(read.missing), read.results.duplicates)]
    notes += [
        f"batch {double.batch_id} ({double.raw_state}) was made of the same requests: its answers are waste"
        for double in doubles
    ]
    return ShardReport(
        round=call.shard.round,
        shard=call.shard.shard,
        route=plan.route,
        phase=status.phase,
        batch_id=status.batch_id,
        requests=plan.requests,
        outcomes=tally.outcomes,
        unanswered=tally.unanswered,
        top_errors=tally.top_errors,
        cost_usd=tally.cost_usd,
        waste_usd=tally.waste_usd + dollars(harvest.quarantined_cost_nano),
        cost_estimated=tally.cost_estimated,
        maybe_paid_twice=plan.requests if doubles else len(read.missing) if lost else 0,
        quarantined=harvest.quarantined,
        count_mismatch="; ".join(notes)[:1000],
        # Without the lines: the job is told how many requests are at fault, the store knows which.
        error=status.error.model_copy(update={"bad_lines": []}) if status.error else None,
        left_behind=[f"result files of {status.batch_id}, if it has any"] if lost else [],
        account_said=harvest.account_said,
        latency_s=max(0.0, (ended_at - call.submitted_at).total_seconds()),
    )


def _results_are_lost(status: BatchStatus) -> bool:
    """Whether the batch, or its files, cannot be seen any more: what it answered was paid, and is asked once more."""
    return bool(status.batch_id) and status.error is not None and status.error.error_class is ErrorClass.missing


def _disagreements(status: BatchStatus, plan: ShardPlan, harvest: Harvest, missing: int, duplicates: int) -> list[str]:
    """What the provider's counts say against the lines (PF-03, PF-07, PF-08, PF-14), and against each other."""
    notes = [status.warning] if status.warning else []
    if _results_are_lost(status) and status.error is not None and status.error.message != status.warning:
        notes.append(status.error.message)
    told = (status.total, status.completed, status.failed)
    # -1 is "not told"; zeros all over are what some providers say before they know (PO-10).
    if max(told) > 0:
        completed = status.completed not in {-1, harvest.answered}
        # Failed counts of 0 are common although there are failed lines; that is a disagreement as well.
        failed = status.failed not in {-1, harvest.failed}
        if completed or failed:
            notes.append(
                f"the provider counts {max(status.completed, 0)} completed and {max(status.failed, 0)} failed, "
                f"its lines say {harvest.answered} and {harvest.failed}"
            )
        if status.total > 0 and status.total != plan.requests:
            notes.append(f"the provider counts {status.total} requests, {plan.requests} were sent")
    if missing and status.phase is BatchPhase.completed:
        notes.append(f"{missing} of {plan.requests} requests are in no result file")
    if duplicates:
        notes.append(f"{duplicates} lines answer a request that has a line already")
    if harvest.cut:
        notes.append("a result file ends in the middle of a line")
    return notes
