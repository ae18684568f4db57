"""Requests that are refused with a 403: the job goes on where they are refused for themselves, and asks where it may
be the account.
"""

from datetime import timedelta

from groupage.schemas import ErrorClass, JobPolicy, JobState

from tests.workflow.conftest import asked, decide
from tests.workflow.scripted_batch import Script

BY_SYNC = {"deadline": timedelta(minutes=10), "policy": JobPolicy(turnaround="1h")}


async def test_promise_10_lines_that_are_refused_for_themselves_fail_and_nobody_is_asked(jobs, world):
    world.script = lambda r, s: Script(answers=9, rest=ErrorClass.forbidden) if s in {0, 4} else Script()
    summary = await jobs.run()
    assert (summary.state, summary.outcomes) == (JobState.completed_with_failures, {"succeeded": 98, "failed": 2})
    assert set(world.sent.values()) == {1}


async def test_promise_10_the_same_by_sync_though_one_shard_holds_nothing_else(jobs, world):
    world.requests = 5
    world.sync_answers = lambda index: ErrorClass.forbidden if index == 4 else None
    handle = await jobs.start(**BY_SYNC)
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed_with_failures, {"succeeded": 4, "failed": 1})
    assert set(world.sent.values()) == {1}


async def test_a_batch_of_which_each_line_is_refused_asks_and_retry_sends_them_again(jobs, world):
    world.script = lambda r, s: Script(answers=0, rest=ErrorClass.forbidden) if (r, s) == (0, 3) else Script()
    handle = await jobs.start(policy=JobPolicy(window=1))
    status = await asked(jobs, handle)
    assert "openai refuses 10 requests for lack of a permission and answers none beside them" in status.reason
    assert "`groupage decide t/k retry`" in status.next_step
    assert len(world.batches) == 4, "no further one was sent"
    await decide(handle, "retry")
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 100})
    assert not world.paid_twice()


async def test_go_on_says_that_it_is_about_those_requests_and_nobody_is_asked_again(jobs, world):
    world.script = lambda r, s: Script(answers=0, rest=ErrorClass.forbidden) if s in {0, 3} else Script()
    handle = await jobs.start(policy=JobPolicy(window=1))
    await asked(jobs, handle)
    await decide(handle, "go_on")
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed_with_failures, {"succeeded": 80, "failed": 20})
    assert set(world.sent.values()) == {1}


async def test_a_mostly_refused_canary_is_asked_about_once(jobs, world):
    world.script = lambda r, s: Script(answers=1, rest=ErrorClass.forbidden) if (r, s) == (0, 0) else Script()
    handle = await jobs.start(policy=JobPolicy(canary_requests=10))
    await asked(jobs, handle)
    await decide(handle, "go_on")
    summary = await handle.result()
    assert summary.outcomes == {"succeeded": 91, "failed": 9}


async def test_an_account_that_is_refused_everything_by_sync_asks_once_a_round_and_none_is_a_try(jobs, world):
    """Other lanes are under way while it is asked and answered."""
    world.requests = 40
    refused: list[ErrorClass | None] = [ErrorClass.forbidden]
    world.sync_answers = lambda index: refused[0]
    handle = await jobs.start(**BY_SYNC)
    for turn in range(3):
        status = await asked(jobs, handle, step_s=1)
        assert "for lack of a permission" in status.reason
        if turn == 2:
            refused[0] = None
        await decide(handle, "retry")
        await jobs.until(handle, lambda s, turn=turn: s.round > turn or s.state.ended, step_s=0.1)
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 40})
    assert not world.paid_twice()


async def test_calls_are_told_that_a_person_has_decided_on_the_requests(jobs, world):
    world.script = lambda r, s: Script(answers=4, rest=ErrorClass.transient if s else ErrorClass.forbidden)
    world.sync_answers = lambda index: ErrorClass.forbidden if index < 50 else None
    handle = await jobs.start(policy=JobPolicy(window=1, max_rounds=1))
    await asked(jobs, handle)
    await decide(handle, "go_on")
    summary = await handle.result()
    assert (summary.state, summary.outcomes["succeeded"]) == (JobState.completed_with_failures, 40 + 5 * 6)
    assert all(run.forbidden_alone for run in world.sync_runs)


async def test_promise_4_a_few_refusals_keep_the_rest_from_no_escalation(jobs, world):
    world.requests, world.per_shard = 8, 4
    few = Script(answers=0, rest=ErrorClass.forbidden, turnaround_s=60)
    world.script = lambda r, s: few if s == 0 else Script(turnaround_s=30 * 86_400, cancel_s=1.0)
    summary = await jobs.run(deadline=timedelta(hours=12))
    assert (summary.state, summary.outcomes) == (JobState.completed_with_failures, {"succeeded": 4, "failed": 4})
    assert world.sync_runs


async def test_promise_10_two_refused_in_a_late_round_fail_alone_where_the_job_was_answered(jobs, world):
    def script(round_: int, shard: int) -> Script:
        if round_:
            return Script(answers=0, rest=ErrorClass.forbidden)
        return Script(answers=8, rest=ErrorClass.expired) if shard == 0 else Script()

    world.script = script
    summary = await jobs.run(deadline=timedelta(hours=24))
    assert (summary.state, summary.outcomes) == (JobState.completed_with_failures, {"succeeded": 98, "failed": 2})
