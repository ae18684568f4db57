"""Looking at a batch and stopping it: a look that fails says nothing, and what has ended stays as it ended."""

import pytest
from everywhere import everywhere
from groupage.schemas import BatchPhase
from temporalio.exceptions import ApplicationError


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
# OpenAI's are those of tests/integration/activities/test_waiting_for_batches.py.
@everywhere(lambda record: record.label != "openai")
async def test_PO_02_PO_22_a_failed_look_is_only_a_failed_look(world, emulator, fault):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    emulator.faults(calls=[{"call": "batches.retrieve", "times": 1, **fault}])
    before, slow = world.calls("batches.retrieve"), fault["action"] == "slow"
    if slow:
        world.hurry(0.5)
    failed = await world.goes_on(ref, submitted)
    assert failed.next_retry_delay.total_seconds() >= fault.get("retry_after", 0)
    # On a busy machine half a second may be over before the call has come in.
    told = world.calls("batches.retrieve") - before
    assert told in ({0, 1} if slow else {1}), "one attempt is one call"
    assert (await world.ended(ref, submitted)).phase is BatchPhase.completed


@everywhere()
async def test_PO_08_an_end_without_results_is_looked_at_again(world, emulator):
    emulator.faults(batches=[{"effect": "late_output", "seconds": "2h"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    early = await world.adapter.status(submitted.batch_id)
    assert (early.phase, early.settles_as) == (BatchPhase.finalizing, BatchPhase.completed)
    emulator.advance("3h")
    assert (await world.ended(ref, submitted)).output_files


@everywhere()
async def test_PO_16_cancelling_what_has_ended_returns_how_it_ended(world, emulator, record):
    submitted = await world.submit(await world.planned())
    emulator.finish()
    status = await world.adapter.cancel(submitted.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, record.completed)


@everywhere()
async def test_PO_16_a_real_refusal_to_cancel_surfaces(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.cancel", "action": "error", "status": 400, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await world.stop(ref, submitted)
    assert failure.value.type == "provider.invalid"


@everywhere(lambda record: record.cancelling)
async def test_PO_15_a_batch_that_is_being_cancelled_is_not_cancelled_again(world, emulator, record):
    emulator.faults(batches=[{"effect": "slow_cancel", "seconds": "25m"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    for _ in range(3):
        status = await world.stop(ref, submitted)
        assert (status.phase, status.raw_state) == (BatchPhase.cancelling, record.cancelling)
    assert world.calls("batches.cancel") == 1
    emulator.advance("30m")
    ended = await world.ended(ref, submitted)
    assert (ended.phase, ended.raw_state) == (BatchPhase.cancelled, record.cancelled)
