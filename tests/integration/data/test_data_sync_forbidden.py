"""run_sync_shard where requests are refused with a 403: for themselves, or because the account is."""

import asyncio
from datetime import UTC, datetime, timedelta

from data_world import World, failing_answer, good_answer
from groupage.activities.sync_runner import run_sync_shard
from groupage.schemas import BatchPhase, ErrorClass, Outcome, Route, ShardReport
from groupage.schemas.activity_calls import RunSyncShard
from groupage.schemas.ids import decode_wire_id
from groupage.schemas.limits import FORBIDDEN_IN_A_ROW

OK, FAILED = Outcome.succeeded, Outcome.failed


async def run(
    world: World, count: int, forbidden, *, concurrency: int = 1, answer_s: float = 0.0, **more
) -> ShardReport:
    """`forbidden(index)` says which are refused, at once; answers take `answer_s`."""
    world.requests(count)
    world.plan(first_route=Route.sync, sync_shard_requests=10_000)

    async def reply(call):
        wire = decode_wire_id(call.wire_id)
        assert wire is not None
        if forbidden(wire.index):
            return failing_answer(call, ErrorClass.forbidden)
        await asyncio.sleep(answer_s)
        return good_answer(call)

    world.provider.reply = reply
    call = RunSyncShard(
        shard=world.shard(),
        rpm=60_000,
        concurrency=concurrency,
        attempts=3,
        timeout_s=5.0,
        deadline_at=datetime.now(UTC) + timedelta(seconds=60),
        **more,
    )
    return await run_sync_shard(world.store, world.provider, call, spool=world.spool)


async def test_promise_10_a_request_that_is_refused_for_itself_stops_no_other(world):
    report = await run(world, 40, lambda index: index == 3)
    assert report.outcomes == {OK: 39, FAILED: 1}
    assert report.unanswered == {ErrorClass.forbidden: 1}
    assert (report.phase, report.error) == (BatchPhase.completed, None)
    row = world.rows().rows[3]
    assert int(row["index"]) == 3
    assert len(world.provider.calls) == 40, "it was not tried again"


async def test_an_account_that_is_refused_everything_stops_after_few_calls_and_is_told(world):
    report = await run(world, 200, lambda index: True)
    assert report.phase is BatchPhase.failed
    assert report.error is not None
    assert (report.error.error_class, report.error.message) == (ErrorClass.forbidden, "no")
    assert report.unanswered == {
        ErrorClass.forbidden: FORBIDDEN_IN_A_ROW,
        ErrorClass.not_sent: 200 - FORBIDDEN_IN_A_ROW,
    }
    assert len(world.provider.calls) == FORBIDDEN_IN_A_ROW


async def test_an_account_that_dies_on_the_way_stops_though_much_was_answered(world):
    report = await run(world, 200, lambda index: index >= 100)
    assert report.error is not None
    assert report.outcomes[OK] == 100
    assert report.unanswered[ErrorClass.forbidden] == FORBIDDEN_IN_A_ROW


async def test_refusals_that_come_faster_than_answers_do_not_stop_the_shard(world):
    """A 403 takes no time, an answer does: a row of them is no sign while calls are under way."""
    report = await run(world, 120, lambda index: index % 2 == 1, concurrency=8, answer_s=0.05)
    assert report.error is None
    assert report.outcomes == {OK: 60, FAILED: 60}
    assert report.unanswered == {ErrorClass.forbidden: 60}


async def test_a_person_who_has_decided_that_it_is_about_the_requests_is_heeded(world):
    report = await run(world, 40, lambda index: index < 30, forbidden_alone=True)
    assert report.error is None
    assert report.outcomes == {OK: 10, FAILED: 30}


async def test_a_small_shard_of_refusals_ends_by_itself_and_leaves_the_judgement_to_the_job(world):
    report = await run(world, FORBIDDEN_IN_A_ROW, lambda index: True)
    assert report.error is None
    assert report.unanswered == {ErrorClass.forbidden: FORBIDDEN_IN_A_ROW}
