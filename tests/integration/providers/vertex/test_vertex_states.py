"""Every documented state, as a word and as a number, and what nobody knows; failed looks; cancelling; time that is up."""

import pytest
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.activity_calls import CancelBatch
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError

STATES = [
    ("JOB_STATE_UNSPECIFIED", "JOB_STATE_UNSPECIFIED", BatchPhase.unknown),
    ("JOB_STATE_QUEUED", "JOB_STATE_QUEUED", BatchPhase.validating),
    ("JOB_STATE_PENDING", "JOB_STATE_PENDING", BatchPhase.validating),
    ("JOB_STATE_RUNNING", "JOB_STATE_RUNNING", BatchPhase.in_progress),
    ("JOB_STATE_SUCCEEDED", "JOB_STATE_SUCCEEDED", BatchPhase.completed),
    ("JOB_STATE_FAILED", "JOB_STATE_FAILED", BatchPhase.failed),
    ("JOB_STATE_CANCELLING", "JOB_STATE_CANCELLING", BatchPhase.cancelling),
    ("JOB_STATE_CANCELLED", "JOB_STATE_CANCELLED", BatchPhase.cancelled),
    ("JOB_STATE_PAUSED", "JOB_STATE_PAUSED", BatchPhase.in_progress),
    ("JOB_STATE_EXPIRED", "JOB_STATE_EXPIRED", BatchPhase.expired),
    ("JOB_STATE_UPDATING", "JOB_STATE_UPDATING", BatchPhase.in_progress),
    ("JOB_STATE_PARTIALLY_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED", BatchPhase.expired),
    # PO-05: a number that this SDK does not know is kept; of a word that it does not know it tells nothing.
    ("42", "42", BatchPhase.unknown),
    ("JOB_STATE_HIBERNATING", "JOB_STATE_UNSPECIFIED", BatchPhase.unknown),
    (None, "JOB_STATE_UNSPECIFIED", BatchPhase.unknown),
]


@pytest.mark.parametrize(("word", "raw", "phase"), STATES, ids=[str(word) for word, _, _ in STATES])
async def test_every_documented_state_has_its_phase_and_others_are_no_end(world, emulator, word, raw, phase):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state) == (phase, raw)
    assert bool(status.warning) == (phase is BatchPhase.unknown or "PAUSED" in raw)
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


@pytest.mark.parametrize(
    ("counts", "told"),
    [("null", (-1, -1, -1)), ("zero", (0, 0, 0)), ("unknown", (-1, -1, -1))],
)
async def test_PO_10_counts_that_are_missing_zero_or_minus_1_decide_nothing(world, emulator, counts, told):
    emulator.faults(batches=[{"effect": "counts", "counts": counts}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.total, status.completed, status.failed) == told
    report = await world.collect(ref, status, submitted)
    assert (report.count_mismatch, report.answered) == ("", 10)


async def test_PO_16_cancelling_what_has_ended_returns_how_it_ended(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.cancel(submitted.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, "JOB_STATE_SUCCEEDED")


async def test_PO_16_a_real_refusal_to_cancel_surfaces(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.cancel", "action": "error", "status": 400, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    assert failure.value.type == "provider.invalid"


async def test_PO_15_a_job_that_is_cancelling_is_not_cancelled_again(world, emulator):
    emulator.faults(batches=[{"effect": "slow_cancel", "seconds": "25m"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    for _ in range(3):
        status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
        assert (status.phase, status.raw_state) == (BatchPhase.cancelling, "JOB_STATE_CANCELLING")
    assert emulator.state()["calls"]["batches.cancel"] == 1
    emulator.advance("30m")
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
    assert (ended.phase, ended.raw_state) == (BatchPhase.cancelled, "JOB_STATE_CANCELLED")


async def test_a_failed_job_says_why(world, emulator):
    message = "The service account has no permission to read the bucket."
    emulator.faults(batches=[{"effect": "fail", "code": "PERMISSION_DENIED", "message": message}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.error.error_class) == (BatchPhase.failed, ErrorClass.account)
    assert (status.error.code, status.error.message) == ("PERMISSION_DENIED", message)


async def test_EX_a_job_that_waits_for_72_hours_expires_with_nothing(world, emulator):
    emulator.faults(batches=[{"effect": "queue", "seconds": "80h"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.advance("71h")
    waiting = await world.adapter.status(submitted.batch_id)
    assert (waiting.phase, waiting.raw_state) == (BatchPhase.validating, "JOB_STATE_PENDING")
    emulator.advance_at_once("2h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.raw_state, status.output_files) == (BatchPhase.expired, "JOB_STATE_EXPIRED", [])
    report = await world.collect(ref, status, submitted)
    assert report.unanswered == {ErrorClass.expired: 10}


async def test_EX_the_rest_of_a_job_is_given_up_a_day_after_it_began_and_what_is_there_is_kept(world, emulator):
    emulator.faults(batches=[{"effect": "queue", "seconds": "48h"}, {"effect": "turnaround", "seconds": "40h"}])
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance("71h")
    assert (await world.adapter.status(submitted.batch_id)).raw_state == "JOB_STATE_RUNNING"
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.phase, status.raw_state) == (BatchPhase.expired, "JOB_STATE_PARTIALLY_SUCCEEDED")
    assert 0 < status.completed < 20
    report = await world.collect(ref, status, submitted)
    assert report.answered == status.completed
    assert report.unanswered == {ErrorClass.expired: 20 - status.completed}
