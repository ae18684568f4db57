"""run_sync_shard where a provider asks for longer pauses than the deadline allows."""

import time
from datetime import UTC, datetime, timedelta

import zstandard
from data_world import World, failing_answer, good_answer
from groupage.activities.sync_runner import SyncRunner, run_sync_shard
from groupage.schemas import ErrorClass, Outcome, Route, ShardReport
from groupage.schemas.activity_calls import RunSyncShard


async def run(world: World, seconds: float, reply, watched: list[SyncRunner] | None = None) -> ShardReport:
    world.requests(60)
    world.plan(first_route=Route.sync, sync_shard_requests=10_000)
    world.provider.reply = reply
    call = RunSyncShard(
        shard=world.shard(),
        rpm=60_000,
        concurrency=4,
        attempts=9,
        timeout_s=5.0,
        deadline_at=datetime.now(UTC) + timedelta(seconds=seconds),
    )
    watch = watched.append if watched is not None else lambda _: None
    return await run_sync_shard(world.store, world.provider, call, spool=world.spool, watch=watch)


async def test_SDK_06_one_wish_for_an_hour_does_not_outlast_the_deadline(world):
    def reply(call):
        if len(world.provider.calls) == 3:
            return failing_answer(call, ErrorClass.rate_limit, retry_after_s=3600)
        return good_answer(call)

    began = time.monotonic()
    report = await run(world, 10.0, reply)
    assert report.outcomes == {Outcome.succeeded: 60}
    assert time.monotonic() - began >= 4.5, "half of the time left is given to the provider's wish"


async def test_SDK_06_one_that_stays_is_asked_seldom_and_told_in_the_outcome(world):
    watched: list[SyncRunner] = []
    paused: list[float] = []

    def reply(call):
        if watched:
            paused.append(watched[0].progress().paused_s)
        if len(world.provider.calls) < 3:
            return good_answer(call)
        return failing_answer(call, ErrorClass.rate_limit, retry_after_s=3600)

    report = await run(world, 3.0, reply, watched)
    assert report.unanswered[ErrorClass.not_sent] > 40
    assert len(world.provider.calls) < 30
    assert max(paused) > 0, "its heartbeat says that it waits"
    (key,) = (key for key in world.store.list("") if "/results-" in key and key.endswith(".jsonl.zst"))
    told = zstandard.ZstdDecompressor().stream_reader(world.store.get(key)).read()
    assert b"the provider had asked for 3600 s without calls" in told
