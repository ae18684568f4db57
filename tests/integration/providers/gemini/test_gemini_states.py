"""Every documented state, and words that nobody knows; failed looks; cancelling; expiry."""

import pytest
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch
from provider_world import attempt_of, attempts_of


async def test_a_batch_is_pending_then_running_and_tells_its_counts(world, emulator):
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    first = await world.adapter.status(submitted.batch_id)
    assert (first.phase, first.tag, first.total) == (BatchPhase.validating, ref.tag, 20)
    emulator.advance("5m")
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.in_progress, "BATCH_STATE_RUNNING")
    assert 0 < status.completed < 20
    assert status.input_files == submitted.input_files
    emulator.finish()
    ended = await world.ended(ref, submitted)
    assert (ended.total, ended.completed, ended.failed) == (20, 20, 0)
    assert ended.output_files == [f"files/batch-{submitted.batch_id.removeprefix('batches/')}"]
    assert ended.ended_at > ended.created_at


async def test_PO_15_a_batch_that_is_being_cancelled_says_running_and_ends_cancelled(world, emulator):
    emulator.faults(batches=[{"effect": "slow_cancel", "seconds": "25m"}])
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance("5m")
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    assert (status.phase, status.raw_state) == (BatchPhase.cancelling, "BATCH_STATE_RUNNING")
    assert (await world.adapter.status(submitted.batch_id)).phase is BatchPhase.in_progress
    emulator.advance("30m")
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
    assert (ended.phase, ended.raw_state) == (BatchPhase.cancelled, "BATCH_STATE_CANCELLED")
    report = await world.collect(ref, ended, submitted)
    assert report.outcomes[Outcome.succeeded] + report.outcomes[Outcome.cancelled] == 20
    assert 0 < report.outcomes[Outcome.succeeded] < 20, "PF-13: what was answered before is kept"


async def test_a_batch_that_expires_after_48_hours_loses_everything_and_goes_again(world, emulator):
    emulator.faults(batches=[{"effect": "stall", "at": 0.6, "nth": [1]}])
    ref = await world.planned(10)
    submitted = await world.submit(ref)
    emulator.advance("47h")
    stalled = await world.adapter.status(submitted.batch_id)
    assert (stalled.phase, stalled.completed) == (BatchPhase.in_progress, 6)
    emulator.advance("2h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.raw_state, status.output_files) == (BatchPhase.expired, "BATCH_STATE_EXPIRED", [])
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.expired: 10}
    assert report.cost_usd == 0
    plan = await world.plan(1)
    assert (plan.requests, plan.batch_shards) == (10, 1)
    assert (await world.run_batch(1)).outcomes == {Outcome.succeeded: 10}
    assert emulator.ledger()["questions_paid_more_than_once"] == 0


async def test_PO_01_a_batch_that_was_deleted_is_missing(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    await world.adapter.delete("batch", submitted.batch_id)
    await world.adapter.delete("batch", submitted.batch_id)
    with pytest.raises(Exception, match="not found") as error:
        await world.adapter.status(submitted.batch_id)
    assert error.value.error_class is ErrorClass.missing
