"""More batches of a shard than the one that counts: their answers are paid for, delivered to nobody, and said so.

A create call that was proven absent may get through all the same, if it was held up for longer than the whole window
(intents.py). Such a batch carries the tag. Collecting looks for it, cancels it and counts the shard's requests as
maybe paid twice; cleaning up waits until it has ended, puts a report of what its answers cost among the late ones,
which every reader of the summary adds, and deletes what it left.
"""

import asyncio
import hashlib
import threading
from datetime import datetime
from functools import partial
from pathlib import Path

from groupage.activities.intents import read_log
from groupage.activities.pricing import PriceBook
from groupage.activities.providers.base import BatchProvider, ResultFile, facts_about
from groupage.activities.sweep import read_submitted
from groupage.activities.threads import check, in_thread
from groupage.schemas import BatchStatus, ErrorClass, Outcome, Route, ShardPlan, ShardRef, ShardReport
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_wire_id
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import dollars
from groupage.store.shards import read_shard_plan
from temporalio import activity

_LINES_BETWEEN_CHECKS = 2048


async def find_doubles(store: Store, provider: BatchProvider, shard: ShardRef, batch_id: str) -> list[BatchStatus]:
    """All batches with the shard's tag but this one, where there may be any. Looking may fail without harm: [] then."""
    log = await asyncio.to_thread(read_log, store, shard)
    if not log.doubtful and not await asyncio.to_thread(_has_duplicates, store, shard):
        return []
    since, files = (log.last.first_at, log.last.files) if log.last else (None, [])
    doubles: list[BatchStatus] = []
    try:
        while True:
            known = [batch_id, *(double.batch_id for double in doubles)]
            double = await provider.find(shard.tag, since=since, not_ids=known, files=files)
            if double is None:
                return doubles
            doubles.append(double)
    except ProviderError as error:
        activity.logger.warning("could not look for more batches of %s: %s", shard.tag, error)
        return doubles


def _has_duplicates(store: Store, shard: ShardRef) -> bool:
    submitted = read_submitted(store, shard.job.tenant, shard.job.key, shard.round, shard.shard)
    return submitted is not None and bool(submitted.duplicates)


def may_cost(double: BatchStatus) -> bool:
    """False for one that ended with nothing done, as a batch does that is refused for a quota."""
    done = bool(double.output_files or double.error_files) or double.completed > 0
    return done or not double.phase.ended


async def note_cost(store: Store, provider: BatchProvider, shard: ShardRef, double: BatchStatus, spool: Path) -> None:
    """Keep what the answers of an ended double have cost, once. `spool` is a folder. Raises ProviderError, StoreError."""
    job = shard.job
    digest = hashlib.blake2b(double.batch_id.encode(), digest_size=8).hexdigest()
    key = keys.late_report(job.tenant, job.key, shard.round, shard.shard, digest)
    # Once it is noted, its files may be deleted: they tell nothing any more.
    if not may_cost(double) or await asyncio.to_thread(store.exists, key):
        return
    plan = await asyncio.to_thread(read_shard_plan, store, job.tenant, job.key, shard.round, shard.shard)
    count = _Count(provider, plan, shard.tag, double.ended_at or activity.info().scheduled_time)
    for file in provider.result_files(double):
        if file.lines:
            await _count_file(provider, file, count, spool / "double")
    told = ShardReport(
        round=shard.round,
        shard=shard.shard,
        route=Route.batch,
        phase=double.phase,
        batch_id=double.batch_id,
        requests=plan.requests,
        outcomes={Outcome.succeeded: count.answers} if count.answers else {},
        waste_usd=dollars(count.nanos),
        duplicate=True,
    )
    await asyncio.to_thread(store.put_message, key, told)


async def _count_file(provider: BatchProvider, file: ResultFile, count: "_Count", path: Path) -> None:
    try:
        await provider.download(file, path)
    except ProviderError as error:
        if error.error_class is not ErrorClass.missing:
            raise
        activity.logger.warning("nobody knows what the answers in %s cost: %s", file.ref, error)
    else:
        await in_thread(partial(count.read, path))


class _Count:
    """Answers in a result file that are the shard's, and what they cost."""

    def __init__(self, provider: BatchProvider, plan: ShardPlan, tag: str, at: datetime) -> None:
        self._provider, self._plan, self._tag = provider, plan, tag
        self._prices = PriceBook(provider.name, at, partial(facts_about, provider))
        self.answers = self.nanos = 0

    def read(self, path: Path, stop: threading.Event) -> None:
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not number % _LINES_BETWEEN_CHECKS:
                    check(stop)
                answer = self._provider.read_line(line, self._plan.endpoint)
                decoded = decode_wire_id(answer.wire_id) if answer.wire_id else None
                if decoded is None or decoded.tag != self._tag:
                    continue
                self.answers += answer.error_class is None
                if answer.usage is not None:
                    model = answer.model or self._plan.model
                    price = self._prices.price(model, Route.batch) or self._prices.price(self._plan.model, Route.batch)
                    self.nanos += price.nanos(answer.usage) if price else 0
