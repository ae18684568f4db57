"""run_sync_shard: as fast as allowed, every answer kept, nothing sent twice that was answered."""

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from data_world import World, failing_answer, good_answer
from groupage.activities import pacing
from groupage.activities.sync_runner import BLOCK_MIN, SyncRunner, run_sync_shard
from groupage.schemas import BatchPhase, ErrorClass, Outcome, Route, ShardReport
from groupage.schemas.activity_calls import RunSyncShard
from groupage.schemas.errors import ProviderError, StoreError
from groupage.schemas.ids import decode_wire_id
from groupage.store import keys
from groupage.store.shards import write_answered
from groupage.store.sync_parts import read_flushed

OK, FAILED, EXPIRED, CANCELLED = Outcome.succeeded, Outcome.failed, Outcome.expired, Outcome.cancelled


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    monkeypatch.setattr(pacing, "BACKOFF_FIRST_S", 0.01)


def planned(world: World, count: int) -> World:
    world.requests(count)
    assert world.plan(first_route=Route.sync, sync_shard_requests=10_000).sync_shards == 1
    return world


def index_of(call) -> int:
    decoded = decode_wire_id(call.wire_id)
    assert decoded is not None
    return decoded.index


async def run(world: World, *, seconds: float = 60, rpm: int = 60_000, concurrency: int = 8, **more) -> ShardReport:
    options = {"attempts": 3, "timeout_s": 5.0, **{k: more.pop(k) for k in ("attempts", "timeout_s") if k in more}}
    call = RunSyncShard(
        shard=world.shard(),
        rpm=rpm,
        concurrency=concurrency,
        deadline_at=datetime.now(UTC) + timedelta(seconds=seconds),
        **options,
    )
    return await run_sync_shard(world.store, world.provider, call, spool=world.spool, **more)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


def flushed(world: World) -> list[int]:
    return read_flushed(world.store, world.job.tenant, world.job.key, 0, 0).done.tolist()


def sends(world: World) -> list[str]:
    return list(world.store.list(keys.shard_sends(world.job.tenant, world.job.key, 0, 0)))


async def test_every_request_is_answered_once_and_costed_at_the_sync_price(world):
    planned(world, 200)
    world.provider.reply = good_answer
    report = await run(world)
    assert (report.outcomes, report.phase, report.route) == ({OK: 200}, BatchPhase.completed, Route.sync)
    assert report.cost_usd == 200 * Decimal("0.000021")
    assert sorted(index_of(call) for call in world.provider.calls) == list(range(200))
    assert world.provider.calls[0].body.startswith(b"{")
    assert world.rows().rows["rounds"].tolist() == [1] * 200
    assert list(world.store.list(keys.shard_parts(world.job.tenant, world.job.key, 0, 0))) == []


async def test_promise_3_what_a_batch_has_answered_since_the_planning_is_passed_over(world):
    planned(world, 5)
    world.provider.reply = good_answer
    write_answered(world.store, world.job.tenant, world.job.key, 0, np.array([1, 3], np.uint32))
    report = await run(world)
    assert sorted(index_of(call) for call in world.provider.calls) == [0, 2, 4]
    assert (report.requests, report.outcomes, report.unanswered) == (3, {OK: 3}, {})
    assert world.rows().rows["index"].tolist() == [0, 2, 4]


async def test_running_it_again_sends_nothing(world):
    planned(world, 5)
    world.provider.reply = good_answer
    first = await run(world)
    assert await run(world) == first
    assert len(world.provider.calls) == 5


async def test_no_more_calls_are_open_than_allowed(world):
    planned(world, 60)

    async def slowly(call):
        await asyncio.sleep(0.01)
        return good_answer(call)

    world.provider.reply = slowly
    report = await run(world, concurrency=7)
    assert report.outcomes == {OK: 60}
    assert world.provider.most_open == 7


async def test_the_rate_is_kept(world):
    planned(world, 40)
    world.provider.reply = good_answer
    began = time.monotonic()
    await run(world, rpm=1200)
    # 20 a second after a first burst of 20.
    assert time.monotonic() - began > 0.9


async def test_invariant_6_transient_errors_are_tried_again_and_permanent_ones_are_not(world):
    planned(world, 3)
    seen: dict[int, int] = {}

    def reply(call):
        index = index_of(call)
        seen[index] = seen.get(index, 0) + 1
        if index == 0 and seen[index] < 3:
            return failing_answer(call, ErrorClass.transient)
        if index == 1:
            return failing_answer(call, ErrorClass.invalid)
        if index == 2:
            return failing_answer(call, ErrorClass.rate_limit)
        return good_answer(call)

    world.provider.reply = reply
    report = await run(world, attempts=3)
    assert seen == {0: 3, 1: 1, 2: 3}
    assert report.outcomes == {OK: 1, FAILED: 2}
    assert report.unanswered == {ErrorClass.invalid: 1, ErrorClass.rate_limit: 1}


async def test_SDK_06_a_retry_after_pauses_all_calls(world):
    planned(world, 10)
    started: list[float] = []

    def reply(call):
        started.append(time.monotonic())
        if len(started) == 1:
            return failing_answer(call, ErrorClass.rate_limit, retry_after_s=0.6)
        return good_answer(call)

    world.provider.reply = reply
    report = await run(world, concurrency=1)
    assert report.outcomes == {OK: 10}
    assert started[1] - started[0] >= 0.6


async def test_an_account_error_stops_the_shard_and_is_told(world):
    planned(world, 50)

    def reply(call):
        return good_answer(call) if len(world.provider.calls) < 10 else failing_answer(call, ErrorClass.account)

    world.provider.reply = reply
    report = await run(world, concurrency=1)
    assert report.phase is BatchPhase.failed
    assert report.error is not None
    assert report.error.error_class is ErrorClass.account
    assert report.outcomes == {OK: 9, FAILED: 41}
    assert report.unanswered == {ErrorClass.account: 1, ErrorClass.not_sent: 40}
    assert len(world.provider.calls) == 10


async def test_a_missing_key_is_an_account_error_too(world):
    planned(world, 5)

    async def no_key(_call):
        raise ProviderError("no API key", error_class=ErrorClass.account, code="no_api_key")

    world.provider.reply = no_key
    report = await run(world, concurrency=1)
    assert report.error is not None
    assert (report.error.code, len(world.provider.calls)) == ("no_api_key", 1)


async def test_invariant_5_no_call_starts_that_cannot_end_before_the_deadline(world):
    planned(world, 200)

    async def slowly(call):
        await asyncio.sleep(0.2)
        return good_answer(call)

    world.provider.reply = slowly
    began = time.monotonic()
    report = await run(world, seconds=2.5, concurrency=2)
    # All of them would take twenty seconds.
    assert time.monotonic() - began < 12
    assert report.phase is BatchPhase.completed
    assert 1 <= report.outcomes[OK] <= 26
    assert report.outcomes[OK] + report.outcomes[EXPIRED] == 200
    assert report.unanswered == {ErrorClass.not_sent: report.outcomes[EXPIRED]}
    assert len(world.provider.calls) == report.outcomes[OK]


async def test_a_deadline_that_has_passed_sends_nothing(world):
    planned(world, 3)
    world.provider.reply = good_answer
    report = await run(world, seconds=-1)
    assert report.outcomes == {EXPIRED: 3}
    assert world.provider.calls == []


async def test_a_killed_worker_loses_no_flushed_answer_and_pays_again_at_most_what_was_in_flight(world):
    planned(world, 100)
    blocked = asyncio.Event()

    async def until_blocked(call):
        if len(world.provider.calls) > 60:
            await blocked.wait()
        return good_answer(call)

    world.provider.reply = until_blocked
    runners: list[SyncRunner] = []
    task = asyncio.create_task(run(world, concurrency=5, watch=runners.append, keeps_on_cancel=lambda: False))
    await until(lambda: len(flushed(world)) >= 60)
    assert runners[0].progress().in_flight == 5
    # Like a kill: the first attempt stands still for good, its successor knows the store alone.
    world.provider.reply = good_answer
    sent_before = len(world.provider.calls)
    report = await run(world)
    assert report.outcomes == {OK: 100}
    assert len(world.provider.calls) - sent_before == 40
    # At least what was in flight, at most one block of the log more.
    assert 5 <= report.maybe_paid_twice < 5 + BLOCK_MIN
    assert sends(world) == []
    blocked.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_second_kill_adds_to_what_may_be_paid_twice_and_loses_nothing_of_the_first(world):
    planned(world, 40)
    tasks = []
    for attempt in (1, 2):
        last = len(world.provider.calls) + 10

        async def until_blocked(call, last=last):
            if len(world.provider.calls) > last:
                await asyncio.Event().wait()
            return good_answer(call)

        world.provider.reply = until_blocked
        tasks.append(asyncio.create_task(run(world, concurrency=2, keeps_on_cancel=lambda: False)))
        await until(lambda attempt=attempt: len(flushed(world)) >= 10 * attempt)
        await until(lambda attempt=attempt: len(world.provider.calls) == 12 * attempt)
    world.provider.reply = good_answer
    report = await run(world)
    assert report.outcomes == {OK: 40}
    assert len(world.provider.calls) == 40 + 2 + 2
    assert 2 + 2 <= report.maybe_paid_twice < 2 + 2 + 2 * BLOCK_MIN
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_kill_between_the_results_and_the_report_sends_nothing_again(world, monkeypatch):
    planned(world, 12)
    world.provider.reply = good_answer
    put = world.store.put_message

    def killed(key, message):
        if key.endswith("/report.json"):
            raise StoreError("killed")
        put(key, message)

    monkeypatch.setattr(world.store, "put_message", killed)
    with pytest.raises(StoreError, match="killed"):
        await run(world)
    monkeypatch.undo()
    report = await run(world)
    assert (report.outcomes, report.maybe_paid_twice) == ({OK: 12}, 0)
    assert len(world.provider.calls) == 12
    assert sends(world) == []


async def test_a_lost_reply_is_known_even_if_the_worker_is_killed_later(world):
    planned(world, 1)
    blocked = asyncio.Event()

    async def reply(call):
        if len(world.provider.calls) > 1:
            await blocked.wait()
        answer = failing_answer(call, ErrorClass.transient)
        answer.code = "connection_lost"
        return answer

    world.provider.reply = reply
    task = asyncio.create_task(run(world, keeps_on_cancel=lambda: False))
    await until(lambda: len(world.provider.calls) == 2)
    world.provider.reply = good_answer
    report = await run(world)
    assert (report.outcomes, report.maybe_paid_twice) == ({OK: 1}, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_may_have_been_billed(world):
    planned(world, 1)

    def reply(call):
        if len(world.provider.calls) > 1:
            return good_answer(call)
        answer = failing_answer(call, ErrorClass.transient)
        answer.code = "timeout"
        return answer

    world.provider.reply = reply
    report = await run(world)
    assert (report.outcomes, report.maybe_paid_twice) == ({OK: 1}, 1)


async def test_TE_06_a_cancelled_shard_keeps_what_came_and_ends_in_seconds(world):
    planned(world, 50)

    async def reply(call):
        if len(world.provider.calls) > 20:
            await asyncio.sleep(60)
        return good_answer(call)

    world.provider.reply = reply
    task = asyncio.create_task(run(world, concurrency=4))
    await until(lambda: len(world.provider.calls) >= 24)
    began = time.monotonic()
    task.cancel()
    report = await task
    assert time.monotonic() - began < 40, "the calls would take a minute"
    assert report.phase is BatchPhase.cancelled
    assert report.outcomes == {OK: 20, CANCELLED: 30}
    assert report.maybe_paid_twice == 4


async def test_promise_7_a_worker_that_goes_away_flushes_and_the_next_one_goes_on(world):
    planned(world, 30)

    async def reply(call):
        if len(world.provider.calls) > 10:
            await asyncio.sleep(60)
        return good_answer(call)

    world.provider.reply = reply
    task = asyncio.create_task(run(world, concurrency=2, keeps_on_cancel=lambda: False))
    await until(lambda: len(world.provider.calls) >= 12)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(flushed(world)) == 10
    world.provider.reply = good_answer
    report = await run(world)
    assert (report.outcomes, report.maybe_paid_twice) == ({OK: 30}, 2)
    assert len(world.provider.calls) == 12 + 20


async def test_a_store_that_cannot_be_written_fails_the_activity_and_stops_spending(world, monkeypatch):
    planned(world, 500)
    world.provider.reply = good_answer

    def broken(_key, _data):
        raise StoreError("disk full")

    monkeypatch.setattr(world.store, "put_new", broken)
    with pytest.raises(StoreError, match="disk full"):
        await run(world, concurrency=4)
    assert len(world.provider.calls) <= 64 + 4


async def test_a_provider_in_trouble_is_called_less_and_recovers(world):
    planned(world, 300)
    rng = random.Random(3)

    async def reply(call):
        await asyncio.sleep(0.002)
        if world.provider.open_calls > 6:
            return failing_answer(call, ErrorClass.rate_limit)
        return failing_answer(call, ErrorClass.transient) if rng.random() < 0.02 else good_answer(call)

    world.provider.reply = reply
    report = await run(world, concurrency=64, attempts=20)
    assert report.outcomes == {OK: 300}
    assert len(world.provider.calls) < 600
