"""A shard by the sync API: one call a request, as fast as allowed, answers into the store as they come.

What a killed worker pays again is bounded: an answer counts as in flight until its flush is
acknowledged, and new calls wait while too many are. The next attempt reads what was flushed and
sends only the rest; calls are logged in the store before they are made (`SendLog`), so that those
that were in flight are known and go into the report as `maybe_paid_twice`.
"""

import asyncio
import heapq
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from groupage.activities.flushing import Flusher
from groupage.activities.late import REPORT
from groupage.activities.normalising import Normaliser
from groupage.activities.pacing import RETRIED, Denials, Latency, Pace, backoff_s, pause_s
from groupage.activities.pricing import PriceBook
from groupage.activities.providers.base import Answer, BatchProvider, SyncCall, facts_about
from groupage.schemas import BatchError, BatchPhase, ErrorClass, Message, Outcome, Route, ShardPlan, ShardReport
from groupage.schemas.activity_calls import RunSyncShard
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import wire_id
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import ResultLine
from groupage.store.segments import SegmentReader, StoredRequest, read_manifest
from groupage.store.send_log import SendLog
from groupage.store.shard_results import ShardResults, read_shard_results, read_shard_rows
from groupage.store.shards import read_answered, read_members, read_shard_plan
from groupage.store.sync_parts import SyncPartWriter, compact, read_flushed

GRACE_S = 3.0
"""How long calls in flight may still end by themselves once the shard is told to stop."""

MAYBE_PAID_CODES = frozenset({"timeout", "connection_lost", "cut_short", "not_json"})
"""Errors after which the provider may have answered, and billed, all the same."""

BLOCK_MIN = 8
"""Requests are read, and logged as about to be sent, in blocks of this many or of as many as may be open."""


class SyncProgress(Message):
    """Heartbeat details of a sync shard. `in_flight`: calls open now, and answers that are not flushed."""

    requests: int = 0
    done: int = 0
    in_flight: int = 0
    maybe_paid_twice: int = 0
    concurrency: int = 0
    paused_s: float = 0.0
    """Until calls start again: the provider asked for it (Retry-After)."""


@dataclass(order=True, slots=True)
class _Item:
    """A request on its way; ordered by when its next attempt is due (seconds of the monotonic clock)."""

    due: float
    index: int
    request: StoredRequest = field(compare=False)
    attempt: int = field(default=1, compare=False)
    last: Answer | None = field(default=None, compare=False)


async def run_sync_shard(
    store: Store,
    provider: BatchProvider,
    call: RunSyncShard,
    *,
    spool: Path,
    watch: Callable[["SyncRunner"], None] = lambda _: None,
    keeps_on_cancel: Callable[[], bool] = lambda: True,
) -> ShardReport:
    """Send what is not answered yet; returns when all is answered, given up, or the time is over.

    `watch` is handed the runner for heartbeats.
    Cancelled, it keeps what came: if `keeps_on_cancel()` the shard ends there with a report, else (the
    worker goes away) the cancellation is passed on and another attempt goes on. Raises StoreError.
    """
    job, shard = call.shard.job, call.shard
    at = (job.tenant, job.key, shard.round, shard.shard)
    stored = await asyncio.to_thread(lambda: store.get_message_or_none(keys.shard_object(*at, REPORT), ShardReport))
    if stored is not None:
        return stored
    started_at = datetime.now(UTC)
    plan = await asyncio.to_thread(read_shard_plan, store, *at)
    results = await asyncio.to_thread(read_shard_results, store, *at)
    if results is not None:
        # An earlier attempt was killed between its last two writes: its parts are gone, nothing is left to send.
        rows = await asyncio.to_thread(read_shard_rows, store, *at)
        done = rows.rows["index"] if rows is not None else np.empty(0, np.uint32)
        log = await asyncio.to_thread(lambda: SendLog(store, *at, flushed=done))
        report = _report(call, results, started_at, maybe_paid_twice=log.maybe_paid_twice)
    else:
        flushed = await asyncio.to_thread(read_flushed, store, *at)
        members = await asyncio.to_thread(read_members, store, *at)
        answered = await asyncio.to_thread(read_answered, store, job.tenant, job.key, shard.round)
        left = np.setdiff1d(members, np.union1d(flushed.done, answered))
        log = await asyncio.to_thread(lambda: SendLog(store, *at, flushed=flushed.done))
        reader = SegmentReader(store, await asyncio.to_thread(read_manifest, store, job.tenant, job.key))
        normaliser = Normaliser(
            provider=job.provider,
            endpoint=plan.endpoint,
            model=plan.model,
            route=Route.sync,
            round_=shard.round,
            prices=PriceBook(job.provider, started_at, partial(facts_about, provider)),
            sent_at=started_at,
            ended_at=max(started_at, call.deadline_at),
        )
        runner = SyncRunner(
            provider,
            call,
            plan,
            normaliser=normaliser,
            writer=SyncPartWriter(store, *at, first_part=flushed.parts),
            log=log,
            requests=reader.requests(left),
            left=len(left),
        )
        watch(runner)
        stopped = await runner.run()
        if stopped and not keeps_on_cancel():
            await asyncio.to_thread(log.settle, runner.maybe_paid_twice)
            raise asyncio.CancelledError
        extra = await asyncio.to_thread(runner.not_sent, np.setdiff1d(left, runner.finished()), stopped=stopped)
        results = await asyncio.to_thread(lambda: compact(store, *at, directory=spool, extra=extra))
        report = _report(call, results, started_at, maybe_paid_twice=runner.maybe_paid_twice)
        report = report.model_copy(
            update={
                "phase": _phase(stopped=stopped, error=runner.error),
                "error": runner.error,
                "account_said": runner.denial_said,
            }
        )
    await asyncio.to_thread(store.put_message, keys.shard_object(*at, REPORT), report)
    await asyncio.to_thread(log.clear)
    return report


def _report(call: RunSyncShard, results: ShardResults, started_at: datetime, *, maybe_paid_twice: int) -> ShardReport:
    tally = results.tally
    return ShardReport(
        round=call.shard.round,
        shard=call.shard.shard,
        route=Route.sync,
        phase=BatchPhase.completed,
        requests=tally.requests,
        outcomes=tally.outcomes,
        unanswered=tally.unanswered,
        top_errors=tally.top_errors,
        cost_usd=tally.cost_usd,
        waste_usd=tally.waste_usd,
        cost_estimated=tally.cost_estimated,
        maybe_paid_twice=maybe_paid_twice,
        latency_s=(datetime.now(UTC) - started_at).total_seconds(),
    )


def _phase(*, stopped: bool, error: BatchError | None) -> BatchPhase:
    if stopped:
        return BatchPhase.cancelled
    return BatchPhase.failed if error is not None else BatchPhase.completed


class SyncRunner:
    """The loop: which request is next, when may it start, what does its answer mean."""

    def __init__(
        self,
        provider: BatchProvider,
        call: RunSyncShard,
        plan: ShardPlan,
        *,
        normaliser: Normaliser,
        writer: SyncPartWriter,
        log: SendLog,
        requests: Iterator[StoredRequest],
        left: int,
    ) -> None:
        self._provider = provider
        self._call = call
        self._plan = plan
        self._normaliser = normaliser
        self._log = log
        self._requests = requests
        self._fresh: list[_Item] = []
        self._exhausted = False
        self._retries: list[_Item] = []
        self._done: list[int] = []
        self._left = left
        self._wake = asyncio.Event()
        self._flusher = Flusher(writer, self._wake.set)
        self._open: set[asyncio.Task[None]] = set()
        self._latency = Latency()
        self._pace = Pace(call.rpm, call.concurrency, time.monotonic())
        self._deadline = time.monotonic() + (call.deadline_at - datetime.now(UTC)).total_seconds()
        self._crash: BaseException | None = None
        self._longest_wish_s = 0.0
        self._denials = Denials()
        self._denial: Answer | None = None
        self.error: BatchError | None = None
        self.maybe_paid_twice = log.maybe_paid_twice

    def progress(self) -> SyncProgress:
        return SyncProgress(
            requests=self._left,
            done=len(self._done),
            in_flight=len(self._open) + self._flusher.unflushed,
            maybe_paid_twice=self.maybe_paid_twice,
            concurrency=int(self._pace.limit),
            paused_s=round(self._pace.paused_s(time.monotonic()), 1),
        )

    @property
    def denial_said(self) -> str:
        """What the last refusal of a single request said; empty if there was none."""
        return self._denial.message[:FAILURE_MESSAGE_MAX] if self._denial is not None else ""

    def finished(self) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
        return np.array(sorted(self._done), np.uint32)

    async def run(self) -> bool:
        """Send all; True if it was cancelled on the way. What came is flushed when it returns."""
        stopped = False
        try:
            await self._send_all()
        except asyncio.CancelledError:
            stopped = True
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        finally:
            await self._end_open(GRACE_S if stopped else self._call.timeout_s)
            await self._flusher.close()
        return stopped

    async def _send_all(self) -> None:
        while self._flusher.failure is None and self.error is None:
            if self._crash is not None:
                raise self._crash
            now = time.monotonic()
            item, due_in = await self._next(now)
            if item is None and due_in is None and not self._open:
                return
            if now + self._latency.expected_s >= self._deadline and not self._open:
                return
            if self._in_doubt and not self._open and self._denial is not None:
                self._stop_for(self._denial)
                return
            wait = self._may_start_in(now)
            if item is not None and wait == 0.0:
                self._take(item)
                if item.last is not None and item.last.code in MAYBE_PAID_CODES:
                    await asyncio.to_thread(self._log.add, [item.index])
                self._pace.start(now)
                task = asyncio.create_task(self._send(item))
                self._open.add(task)
                task.add_done_callback(self._ended)
                continue
            pauses = [pause for pause in (due_in, wait, self._deadline - now) if pause is not None and pause > 0]
            await self._sleep(min(pauses, default=1.0))

    def _may_start_in(self, now: float) -> float | None:
        """Seconds; None: only once something else has ended."""
        if now + self._latency.expected_s >= self._deadline:
            return None
        if self._in_doubt:
            return None
        if self._flusher.unflushed >= max(64, 2 * self._call.concurrency):
            return None  # the store is slower than the provider: what is lost by a kill stays bounded
        return self._pace.wait_s(now)

    async def _next(self, now: float) -> tuple[_Item | None, float | None]:
        """(the item to send next, None) or (None, seconds until one is due); (None, None): none is waiting."""
        if self._retries and self._retries[0].due <= now:
            return self._retries[0], None
        if not self._fresh and not self._exhausted:
            block = max(BLOCK_MIN, self._call.concurrency)
            requests = await asyncio.to_thread(self._read_and_log, block)
            self._exhausted = len(requests) < block
            self._fresh = [_Item(now, request.index, request) for request in reversed(requests)]
        if self._fresh:
            return self._fresh[-1], None
        return None, (self._retries[0].due - now if self._retries else None)

    def _read_and_log(self, count: int) -> list[StoredRequest]:
        requests = list(islice(self._requests, count))
        if requests:
            self._log.add([request.index for request in requests])
        return requests

    def _take(self, item: _Item) -> None:
        if self._retries and self._retries[0] is item:
            heapq.heappop(self._retries)
        else:
            self._fresh.pop()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, 30.0)):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._open.discard(task)
        self._wake.set()
        if not task.cancelled():
            self._crash = self._crash or task.exception()

    async def _send(self, item: _Item) -> None:
        started = time.monotonic()
        wire = wire_id(self._call.shard.tag, item.index)
        timeout_s = min(self._call.timeout_s, max(0.1, self._deadline - started))
        try:
            answer = await self._provider.complete(SyncCall(wire, self._plan.endpoint, item.request.body, timeout_s))
        except ProviderError as error:
            answer = Answer(wire, Outcome.failed, error.error_class, error.code, str(error))
            answer.retry_after_s = error.retry_after_s
        except asyncio.CancelledError:
            self._pace.end(time.monotonic(), started, ErrorClass.cancelled, None)
            self.maybe_paid_twice += 1
            raise
        now = time.monotonic()
        self._pace.end(now, started, answer.error_class, answer.retry_after_s, self._deadline - now)
        if answer.error_class is None:
            self._latency.add(now - started)
        self._take_in(item, answer, now)

    def _take_in(self, item: _Item, answer: Answer, now: float) -> None:
        self._longest_wish_s = max(self._longest_wish_s, answer.retry_after_s or 0.0)
        if answer.code in MAYBE_PAID_CODES and answer.error_class is not None:
            self.maybe_paid_twice += 1
        self._look_for_refusal(answer)
        if answer.error_class in RETRIED and item.attempt < self._call.attempts:
            wish = answer.retry_after_s and pause_s(answer.retry_after_s, self._deadline - now)
            pause = backoff_s(item.attempt, wish, random.random())  # noqa: S311  # spreads load only
            heapq.heappush(self._retries, _Item(now + pause, item.index, item.request, item.attempt + 1, answer))
            return
        self._done.append(item.index)
        self._normaliser.ended_at = datetime.now(UTC)
        self._flusher.add(self._normaliser.line(item.index, answer))

    def _look_for_refusal(self, answer: Answer) -> None:
        self._denials.add(answer.error_class)
        if answer.error_class is ErrorClass.forbidden:
            self._denial = answer
        elif answer.error_class is ErrorClass.account:
            self._stop_for(answer)

    def _stop_for(self, answer: Answer) -> None:
        if self.error is None and answer.error_class is not None:
            self.error = BatchError(
                error_class=answer.error_class, code=answer.code[:200], message=answer.message[:FAILURE_MESSAGE_MAX]
            )

    @property
    def _in_doubt(self) -> bool:
        """Whether calls are held back until it is known if any that is under way is answered."""
        return self._denials.doubtful and not self._call.forbidden_alone

    async def _end_open(self, grace_s: float) -> None:
        """Let open calls end for a moment, then cut them off: the provider may bill those all the same."""
        if self._open and grace_s:
            await asyncio.wait(set(self._open), timeout=grace_s)
        cut = set(self._open)
        for task in cut:
            task.cancel()
        if cut:
            await asyncio.wait(cut)

    def not_sent(self, indices: "np.ndarray[tuple[int], np.dtype[np.uint32]]", *, stopped: bool) -> list[ResultLine]:
        """Lines for the requests without a final answer: their last error, or that they were never sent."""
        tried = {item.index: item.last for item in self._retries if item.last is not None}
        wish = f"; the provider had asked for {self._longest_wish_s:g} s without calls" if self._longest_wish_s else ""
        outcome, code, message = Outcome.expired, "deadline", f"the deadline came before it could be sent{wish}"
        if self.error is not None:
            outcome, code, message = Outcome.failed, "stopped", f"not sent: {self.error.message or self.error.code}"
        elif stopped:
            outcome, code, message = Outcome.cancelled, "stopped", "the job was stopped before it was sent"
        lines = []
        for index in indices.tolist():
            last = tried.get(index)
            if last is not None:
                lines.append(self._normaliser.line(index, last))
            else:
                lines.append(self._normaliser.unanswered(index, outcome, ErrorClass.not_sent, code, message[:1000]))
        return lines
