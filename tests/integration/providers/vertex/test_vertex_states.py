"""Every documented state, as a word and as a number, and what nobody knows; failed looks; cancelling; time that is up."""

from groupage.schemas import BatchPhase, ErrorClass


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
