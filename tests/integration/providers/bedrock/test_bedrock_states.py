"""Every documented state, and words that nobody knows; failed looks; stopping."""

import pytest
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.activity_calls import CancelBatch
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError

STATES = [
    ("Submitted", BatchPhase.validating),
    ("Validating", BatchPhase.validating),
    ("Scheduled", BatchPhase.validating),
    ("InProgress", BatchPhase.in_progress),
    ("Stopping", BatchPhase.cancelling),
    ("Completed", BatchPhase.completed),
    ("PartiallyCompleted", BatchPhase.expired),
    ("Expired", BatchPhase.expired),
    ("Stopped", BatchPhase.cancelled),
    ("Failed", BatchPhase.failed),
    # PO-05: not documented, or not the documented spelling.
    ("COMPLETED", BatchPhase.unknown),
    ("Paused", BatchPhase.unknown),
    (None, BatchPhase.unknown),
]


@pytest.mark.parametrize(("word", "phase"), STATES, ids=[str(word) for word, _ in STATES])
async def test_every_documented_state_has_its_phase_and_others_are_no_end(world, emulator, word, phase):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state) == (phase, word or "")
    assert bool(status.warning) == (phase is BatchPhase.unknown)
    assert status.phase.ended == bool(status.output_files), "results are looked for at the end only"
    if not phase.ended:
        with pytest.raises(ApplicationError) as failure:
            await attempt_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
        assert benign(failure.value)


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "error", "status": 500},
        {"action": "error", "status": 429, "retry_after": 7},
        {"action": "drop_before"},
        {"action": "html"},
        {"action": "slow", "seconds": "3s"},
        {"action": "cut"},
        {"action": "error", "status": 404},
    ],
    ids=["500", "429", "reset", "PO-22 html", "timeout", "cut", "PO-01 404"],
)
async def test_PO_02_a_failed_look_is_only_a_failed_look(make_world, emulator, fault):
    world = make_world(provider={"request_timeout_s": 0.5})
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    emulator.faults(calls=[{"call": "batches.retrieve", "times": 1, **fault}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
    assert benign(failure.value)
    assert failure.value.next_retry_delay.total_seconds() >= fault.get("retry_after", 0)
    assert (await world.ended(ref, submitted)).phase is BatchPhase.completed


async def test_PO_08_completed_without_its_results_is_looked_at_again(world, emulator):
    emulator.faults(batches=[{"effect": "late_output", "seconds": "2h"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    early = await world.adapter.status(submitted.batch_id)
    assert (early.phase, early.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    emulator.advance("3h")
    assert (await world.ended(ref, submitted)).output_files


@pytest.mark.parametrize("counts", ["null", "zero"])
async def test_PO_10_counts_that_are_missing_or_zero_decide_nothing(world, emulator, counts):
    emulator.faults(batches=[{"effect": "counts", "counts": counts}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.total, status.completed, status.failed) == (10, 10, 0), "as its manifest says"
    assert (await world.collect(ref, status, submitted)).count_mismatch == ""


async def test_PO_16_stopping_what_has_ended_returns_how_it_ended(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.cancel(submitted.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, "Completed")


async def test_PO_16_a_real_refusal_to_stop_surfaces(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.cancel", "action": "error", "status": 400, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    assert failure.value.type == "provider.invalid"


async def test_PO_15_a_job_that_is_stopping_is_not_stopped_again(world, emulator):
    emulator.faults(batches=[{"effect": "slow_cancel", "seconds": "25m"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    for _ in range(3):
        status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
        assert (status.phase, status.raw_state) == (BatchPhase.cancelling, "Stopping")
    assert emulator.state()["calls"]["batches.cancel"] == 1
    emulator.advance("30m")
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
    assert (ended.phase, ended.raw_state) == (BatchPhase.cancelled, "Stopped")


async def test_a_failed_job_says_why(world, emulator):
    emulator.faults(batches=[{"effect": "fail", "message": "The role could not be assumed: access denied."}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.error.error_class) == (BatchPhase.failed, ErrorClass.account)
    assert "assumed" in status.error.message


@pytest.mark.parametrize(("hours", "gone", "word"), [("24", "25h", "PartiallyCompleted"), ("72", "25h", "InProgress")])
async def test_the_time_that_a_job_may_take_is_the_one_asked_for(make_world, emulator, hours, gone, word):
    emulator.faults(batches=[{"effect": "turnaround", "seconds": "100h"}])
    world = make_world(provider={"options": {"timeout_hours": hours}})
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance(gone)
    await world.adapter.find(ref.tag, since=None, not_ids=[])
    if word == "PartiallyCompleted":
        status = await world.ended(ref, submitted)
        assert 0 < status.completed < 20
    else:
        status = await world.adapter.status(submitted.batch_id)
    assert status.raw_state == word
    assert (status.expires_at - status.created_at).total_seconds() == int(hours) * 3600
