"""Every documented state, and words that nobody knows; failed looks; cancelling; expiry."""

import pytest
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError

STATES = [
    ("PENDING", BatchPhase.validating),
    ("QUEUED", BatchPhase.validating),
    ("RUNNING", BatchPhase.in_progress),
    ("UPDATING", BatchPhase.in_progress),
    ("PAUSED", BatchPhase.in_progress),
    ("CANCELLING", BatchPhase.cancelling),
    ("CANCELING", BatchPhase.cancelling),
    ("SUCCEEDED", BatchPhase.completed),
    ("PARTIALLY_SUCCEEDED", BatchPhase.completed),
    ("FAILED", BatchPhase.failed),
    ("CANCELLED", BatchPhase.cancelled),
    ("CANCELED", BatchPhase.cancelled),
    ("EXPIRED", BatchPhase.expired),
    # PO-05: nothing that ends.
    ("UNSPECIFIED", BatchPhase.unknown),
    ("HIBERNATING", BatchPhase.unknown),
]
WORDS = [
    *((f"{prefix}_STATE_{word}", phase) for word, phase in STATES for prefix in ("BATCH", "JOB")),
    ("batch_state_succeeded", BatchPhase.completed),
    ("succeeded", BatchPhase.completed),
    ("", BatchPhase.completed),
    (None, BatchPhase.completed),
]
"""Without a word the operation's own end decides."""


@pytest.mark.parametrize(("word", "phase"), WORDS, ids=[str(word) for word, _ in WORDS])
async def test_PO_05_every_documented_state_has_its_phase_and_others_are_no_end(world, emulator, word, phase):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state) == (phase, word or "")
    assert bool(status.warning) == (phase is BatchPhase.unknown)
    if not phase.ended:
        with pytest.raises(ApplicationError) as failure:
            await attempt_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
        assert benign(failure.value)


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


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "error", "status": 500},
        {"action": "error", "status": 503},
        {"action": "error", "status": 429, "retry_after": 7},
        {"action": "drop_before"},
        {"action": "html"},
        {"action": "slow", "seconds": "3s"},
        {"action": "cut"},
        {"action": "error", "status": 404},
    ],
    ids=["500", "503", "429", "reset", "PO-22 html", "timeout", "cut", "PO-01 404"],
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
    assert world.calls("batches.retrieve") == 1
    assert (await world.ended(ref, submitted)).phase is BatchPhase.completed


async def test_PO_08_succeeded_without_its_results_is_looked_at_again(world, emulator):
    emulator.faults(batches=[{"effect": "late_output", "seconds": "2h"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    early = await world.adapter.status(submitted.batch_id)
    assert (early.phase, early.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    emulator.advance("3h")
    assert (await world.ended(ref, submitted)).output_files


@pytest.mark.parametrize(("counts", "told"), [("null", (-1, -1, -1)), ("zero", (-1, -1, -1))])
async def test_PO_10_counts_that_are_missing_decide_nothing(world, emulator, counts, told):
    emulator.faults(batches=[{"effect": "counts", "counts": counts}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.total, status.completed, status.failed) == told
    report = await world.collect(ref, status, submitted)
    assert (report.outcomes, report.count_mismatch) == ({Outcome.succeeded: 10}, "")


async def test_PO_16_cancelling_what_has_ended_returns_how_it_ended(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.cancel(submitted.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, "BATCH_STATE_SUCCEEDED")


async def test_PO_16_a_real_refusal_to_cancel_surfaces(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.cancel", "action": "error", "status": 400, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    assert failure.value.type == "provider.invalid"


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


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({"code": "INTERNAL", "message": "An internal error has occurred."}, ErrorClass.transient),
        ({"code": "INVALID_ARGUMENT", "message": "Line 3 is not valid."}, ErrorClass.invalid),
        ({"code": "RESOURCE_EXHAUSTED", "message": "Resource has been exhausted."}, ErrorClass.quota),
        ({"code": "PERMISSION_DENIED", "message": "No access to the model."}, ErrorClass.account),
    ],
    ids=["internal", "invalid", "exhausted", "denied"],
)
async def test_a_failed_batch_says_why_though_the_sdk_drops_it(world, emulator, fault, found):
    emulator.faults(batches=[{"effect": "fail", **fault}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.error.error_class, status.error.code) == (BatchPhase.failed, found, fault["code"])
    assert status.error.message == fault["message"]


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
