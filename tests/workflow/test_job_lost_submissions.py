"""Submissions of which nothing was heard for too long: a batch of theirs may be there."""

from datetime import timedelta

from groupage.schemas import BatchError, ErrorClass, JobPolicy, JobState
from groupage.workflows.policy.quota import ATTEMPTS

from tests.workflow.scripted_batch import Script

SILENT = BatchError(error_class=ErrorClass.transient, code="timeout", message="submit_batch did not end in time")


async def test_promise_2_a_submission_that_went_silent_is_looked_for_and_its_requests_are_not_sent_anew(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(refuse=[SILENT] if (r, s) == (0, 1) else [])
    summary = await jobs.run(deadline=timedelta(hours=48))
    assert (summary.state, summary.outcomes, summary.rounds) == (JobState.completed, {"succeeded": 20}, 1)
    assert {call.shard.round for call in world.submits} == {0}
    assert not world.paid_twice()


async def test_promise_2_one_that_stays_silent_is_never_taken_as_not_sent_without_a_look(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(refuse=[SILENT] * (ATTEMPTS + 1) if r == 0 else [])
    summary = await jobs.run(deadline=timedelta(days=14), policy=JobPolicy(poll="1s"))
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 10})
    assert world.calls["cancel_batch"] == 1
