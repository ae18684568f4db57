"""Batches that a provider takes and fails as a whole, for no reason that anybody knows."""

from datetime import timedelta

from groupage.schemas import BatchError, BatchPhase, ErrorClass, JobState

from tests.workflow.conftest import asked, decide
from tests.workflow.scripted_batch import Script

BROKEN = BatchError(error_class=ErrorClass.unknown, code="bad", message="Your organisation is not allowed")


def broken(r: int, s: int) -> Script:
    return Script(phase=BatchPhase.failed, error=BROKEN, turnaround_s=10)


async def test_where_every_batch_fails_as_a_whole_and_again_a_person_is_asked_in_the_providers_words(jobs, world):
    world.requests = 30
    world.script = lambda r, s: broken(r, s) if r < 2 else Script()
    handle = await jobs.start()
    status = await asked(jobs, handle)
    assert "openai fails every batch of this job as a whole and names no request that is at fault" in status.reason
    assert BROKEN.message in status.reason
    assert "`groupage decide t/k retry`" in status.next_step
    await decide(handle, "retry", "mended")
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 30})
    assert not world.paid_twice()


async def test_many_batches_that_fail_as_a_whole_at_one_time_ask_at_once(jobs, world):
    world.script = broken
    handle = await jobs.start()
    await asked(jobs, handle)
    assert len(world.batches) == 10
    await decide(handle, "accept")
    assert (await handle.result()).state is JobState.failed


async def test_a_batch_that_fails_as_a_whole_once_goes_again_and_nobody_is_asked(jobs, world):
    world.requests = 10
    world.script = lambda r, s: broken(r, s) if r == 0 else Script()
    summary = await jobs.run()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 10})


async def test_of_batches_that_fail_as_a_whole_for_one_request_the_others_are_answered(jobs, world):
    world.requests = 10
    world.script = lambda r, s: broken(r, s) if 3 in world.members[r, s] else Script()
    summary = await jobs.run()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 10})
    # By sync the one is answered too.
    assert len(world.sync_runs) == 1
    assert not world.paid_twice()


async def test_of_many_that_fail_as_a_whole_after_others_were_answered_a_person_is_asked_too(jobs, world):
    """They would be cut in halves ten times: 38,894 batches of 20."""
    world.requests, world.per_shard = 5 * 16, 16
    world.script = lambda r, s: Script(turnaround_s=60) if (r, s) == (0, 0) else broken(r, s)
    handle = await jobs.start(deadline=timedelta(hours=48))
    status = await asked(jobs, handle)
    assert BROKEN.message in status.reason
    assert len(world.batches) == 5 + 8
    await decide(handle, "accept")
    summary = await handle.result()
    assert (summary.state, summary.outcomes["succeeded"]) == (JobState.completed_with_failures, 16)
