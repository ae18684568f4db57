"""needs_decision: what is asked, what the answers do, and that silence ends the job in time."""

from datetime import timedelta
from decimal import Decimal

import pytest
from groupage.schemas import (
    BatchError,
    BatchPhase,
    ErrorClass,
    Health,
    JobPolicy,
    JobState,
)
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import SearchAttributeKey

from tests.workflow.conftest import asked, decide
from tests.workflow.scripted_batch import Script
from tests.workflow.world import TOKEN

MOSTLY_INVALID = Script(answers=2, rest=ErrorClass.invalid, turnaround_s=60)
ACCOUNT = BatchError(error_class=ErrorClass.account, code="insufficient_quota", message="out of credit")


async def costly(jobs, world):
    world.estimate = Decimal(20)
    handle = await jobs.start(policy=JobPolicy(max_cost_usd=Decimal(5)))
    return handle, await asked(jobs, handle, step_s=0.2)


async def test_a_budget_asks_where_a_part_of_the_job_has_no_known_price(jobs, world):
    world.unpriced = 49
    handle = await jobs.start(policy=JobPolicy(max_cost_usd=Decimal(5)))
    status = await asked(jobs, handle, step_s=0.2)
    assert "leaves out 49 requests to no-such-price" in status.reason
    assert not world.sent
    await decide(handle, "go_on")
    assert (await handle.result()).state is JobState.completed


async def test_over_budget_asks_before_anything_is_sent_and_says_what_to_do(jobs, world):
    handle, status = await costly(jobs, world)
    assert status.health is Health.needs_decision
    assert "20.00 USD is above the policy's 5 USD" in status.reason
    assert "groupage decide t/k go_on" in status.next_step
    assert "temporal workflow update execute -w job/t/k --name decide" in status.next_step
    assert not world.sent
    attributes = (await handle.describe()).typed_search_attributes
    assert attributes.get(SearchAttributeKey.for_keyword("GroupageState")) == "needs_decision"
    assert attributes.get(SearchAttributeKey.for_keyword("GroupageHealth")) == "needs_decision"
    await decide(handle, "go_on")
    assert (await handle.result()).state is JobState.completed
    assert len(world.answered) == 100


async def test_over_budget_abort_ends_cancelled_with_nothing_sent(jobs, world):
    handle, _ = await costly(jobs, world)
    await decide(handle, "abort", "too much")
    summary = await handle.result()
    assert summary.state is JobState.cancelled
    assert "too much" in summary.reason
    assert not world.sent


async def test_over_budget_refuses_answers_that_make_no_sense(jobs, world):
    handle, _ = await costly(jobs, world)
    for unsuitable in ("retry", "accept"):
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await decide(handle, unsuitable)
        assert "decide go_on, abort" in str(caught.value.cause)
    await decide(handle, "abort")
    await handle.result()


async def test_over_budget_and_nobody_decides_ends_before_the_deadline_and_says_why(jobs, world):
    world.estimate = Decimal(20)
    summary = await jobs.run(deadline=timedelta(hours=5), policy=JobPolicy(max_cost_usd=Decimal(5)))
    assert summary.state is JobState.failed
    assert "nobody decided in time" in summary.reason
    assert summary.finished_at <= summary.deadline_at
    assert not world.sent


async def test_a_decision_is_rejected_while_nothing_is_asked(jobs, world):
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.state is JobState.running, step_s=0.2)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await decide(handle, "go_on")
    assert "nothing is to be decided" in str(caught.value.cause)
    await handle.result()


async def canary(jobs, world):
    world.script = lambda r, s: MOSTLY_INVALID if (r, s) == (0, 0) else Script()
    handle = await jobs.start(policy=JobPolicy(canary_requests=10))
    return handle, await asked(jobs, handle)


async def test_a_canary_that_mostly_fails_holds_the_rest_and_asks(jobs, world):
    handle, status = await canary(jobs, world)
    assert "8 of the first 10 requests failed for good" in status.reason
    assert len(world.batches) == 1
    await decide(handle, "go_on")
    summary = await handle.result()
    assert summary.state is JobState.completed_with_failures
    assert len(world.answered) == 92
    assert set(world.sent.values()) == {1}


async def test_a_canary_retry_sends_what_failed_once_more(jobs, world):
    handle, _ = await canary(jobs, world)
    await decide(handle, "retry")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert sorted(i for i, n in world.sent.items() if n == 2) == list(range(2, 10))


async def test_a_canary_accept_finishes_with_what_is_there(jobs, world):
    handle, _ = await canary(jobs, world)
    await decide(handle, "accept", "enough")
    summary = await handle.result()
    assert summary.state is JobState.completed_with_failures
    assert "accepted with what was there: enough" in summary.reason
    assert len(world.answered) == 2
    assert len(world.batches) == 1


async def test_a_canary_abort_ends_cancelled(jobs, world):
    handle, _ = await canary(jobs, world)
    await decide(handle, "abort")
    assert (await handle.result()).state is JobState.cancelled


async def test_a_good_canary_runs_alone_and_then_the_rest_goes(jobs, world):
    summary = await jobs.run(policy=JobPolicy(canary_requests=10))
    assert summary.state is JobState.completed
    first, *others = sorted(world.batches.values(), key=lambda b: b.submitted_at)
    assert first.shard == (0, 0)
    assert all(b.submitted_at >= first.ends_at() for b in others)


async def test_without_a_canary_the_first_shard_that_mostly_fails_holds_further_ones(jobs, world):
    world.script = lambda r, s: MOSTLY_INVALID if s == 0 else Script()
    handle = await jobs.start(policy=JobPolicy(window=2))
    await asked(jobs, handle)
    await jobs.env.sleep(7200)
    assert len(world.batches) == 2
    await decide(handle, "go_on")
    await handle.result()
    assert len(world.batches) == 10


async def test_QU_06_an_account_out_of_credit_asks_and_retry_sends_the_refused_again(jobs, world):
    world.script = lambda r, s: Script(answers=4, rest=ErrorClass.account) if (r, s) == (0, 0) else Script()
    handle = await jobs.start(policy=JobPolicy(window=1))
    status = await asked(jobs, handle)
    assert "key, permission or credit" in status.reason
    assert len(world.batches) == 1
    await decide(handle, "retry", "topped up")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert not world.paid_twice()


async def test_a_submission_refused_for_the_account_asks_and_goes_on_after_it_was_mended(jobs, world):
    world.script = lambda r, s: Script(refuse=[ACCOUNT] if r == 0 and s < 2 else [])
    handle = await jobs.start()
    status = await asked(jobs, handle, step_s=0.2)
    assert "out of credit" in status.reason
    await decide(handle, "go_on")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert set(world.sent.values()) == {1}


async def test_a_batch_that_failed_because_its_file_may_not_be_read_asks_and_goes_again_once_it_may(jobs, world):
    error = BatchError(error_class=ErrorClass.account, code="input_no_permissions", message="may not read the input")
    failed = Script(phase=BatchPhase.failed, error=error, turnaround_s=10)
    world.requests = 20
    world.script = lambda r, s: failed if (r, s) == (0, 1) else Script()
    handle = await jobs.start()
    status = await asked(jobs, handle)
    assert "may not read the input" in status.reason
    await decide(handle, "go_on")
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 20})
    assert not world.paid_twice()


async def test_a_batch_that_failed_because_its_file_was_changed_goes_again_and_nobody_is_asked(jobs, world):
    error = BatchError(error_class=ErrorClass.transient, code="input_modified", message="changed after the upload")
    failed = Script(phase=BatchPhase.failed, error=error, turnaround_s=10)
    world.requests = 20
    world.script = lambda r, s: failed if (r, s) == (0, 1) else Script()
    summary = await jobs.run()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 20})
    assert len(world.batches) == 3


NOT_ALLOWED = BatchError(error_class=ErrorClass.invalid, code="http_400", message="not while your account is like that")


async def test_QU_06_where_no_batch_is_taken_a_person_is_asked_and_retry_sends_the_same_again(jobs, world):
    """Twice, because the first time the cause is not mended yet."""
    world.requests = 30
    world.script = lambda r, s: Script(refuse=[NOT_ALLOWED] if r < 2 else [])
    handle = await jobs.start()
    for _ in range(2):
        status = await asked(jobs, handle, step_s=0.2)
        assert "openai takes no batch of this job and names no request that is at fault: not while" in status.reason
        assert "`groupage decide t/k retry`" in status.next_step
        await decide(handle, "retry", "mended")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert [plan.limits_factor for plan in world.plans] == [1.0, 1.0, 1.0]
    assert not world.paid_twice()


async def test_each_reason_for_which_no_batch_is_taken_is_told_with_how_many_it_holds_for(jobs, world):
    window = NOT_ALLOWED.model_copy(update={"message": f"create of {TOKEN}-r0-s1: no such window"})
    again = NOT_ALLOWED.model_copy(update={"message": f"create of {TOKEN}-r0-s2: no such window"})
    refusals = [NOT_ALLOWED, window, again]
    world.requests = 30
    world.script = lambda r, s: Script(refuse=[refusals[s]] if r == 0 else [])
    handle = await jobs.start()
    status = await asked(jobs, handle, step_s=0.2)
    assert "no such window (2 batches, 20 requests); not while your account" in status.reason
    await decide(handle, "retry")
    assert (await handle.result()).state is JobState.completed


async def test_where_no_batch_is_taken_go_on_cuts_them_until_it_is_known_which_request_is_at_fault(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(refuse=[NOT_ALLOWED] if 3 in world.members[r, s] else [])
    handle = await jobs.start()
    await asked(jobs, handle, step_s=0.2)
    await decide(handle, "go_on")
    summary = await handle.result()
    assert summary.state is JobState.completed_with_failures
    assert len(world.answered) == 9
    assert not world.paid_twice()


async def test_a_batch_that_is_not_taken_while_others_are_is_cut_without_asking(jobs, world):
    world.script = lambda r, s: Script(refuse=[NOT_ALLOWED] if 3 in world.members[r, s] else [])
    assert (await jobs.run()).state is JobState.completed_with_failures
    assert len(world.answered) == 99


async def test_go_on_is_heeded_as_often_as_it_is_said_while_everything_goes_by_sync(jobs, world):
    """The first time the key is not mended yet, nor the second; each time nothing was tried."""
    world.requests = 12
    refused: list[ErrorClass | None] = [ErrorClass.account]
    world.sync_answers = lambda index: refused[0]
    handle = await jobs.start(deadline=timedelta(minutes=10), policy=JobPolicy(turnaround="1h"))
    for turn in range(4):
        status = await asked(jobs, handle, step_s=1)
        assert "key, permission or credit" in status.reason
        if turn == 3:
            refused[0] = None
        await decide(handle, "go_on")
        await jobs.until(handle, lambda s, turn=turn: s.round > turn or s.state.ended, step_s=0.1)
    summary = await handle.result()
    assert (summary.state, summary.outcomes) == (JobState.completed, {"succeeded": 12})
    assert not world.batches


async def test_an_account_question_that_nobody_answers_ends_by_the_deadline_with_the_harvest(jobs, world):
    def script(r, s):
        return Script(refuse=[ACCOUNT]) if s == 0 else Script(turnaround_s=900_000, progress=0.3)

    world.script = script
    summary = await jobs.run(deadline=timedelta(hours=5))
    assert summary.state is JobState.completed_with_failures
    assert "nobody decided in time" in summary.reason
    assert len(world.answered) == 27
    assert summary.finished_at <= summary.deadline_at
    assert world.calls["run_sync_shard"] == 0


async def test_a_late_decision_still_escalates_in_time(jobs, world):
    """The question outlasts the looks at the batches; the answer must bring the deadline's alarm back."""
    world.requests, world.per_shard = 2000, 500
    world.script = lambda r, s: MOSTLY_INVALID if s == 0 else Script(turnaround_s=900_000, progress=0.5)
    handle = await jobs.start(deadline=timedelta(hours=10), policy=JobPolicy(window=2, poll="10m", turnaround="1h"))
    await asked(jobs, handle, step_s=600)
    await jobs.env.sleep(8 * 3600)
    await decide(handle, "go_on")
    summary = await handle.result()
    assert summary.finished_at <= summary.deadline_at
    assert summary.outcomes["succeeded"] == 2000 - 498


async def attribute(handle, name: str) -> str:
    return (await handle.describe()).typed_search_attributes.get(SearchAttributeKey.for_keyword(name))


async def test_a_key_revoked_while_batches_run_is_shown_as_stuck_until_it_works_again(jobs, world):
    """Promise 4, "says before why not": the job is told by its shards, which look on all the same."""
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_running == 10, step_s=60)
    assert (await jobs.status(handle)).health is Health.on_track
    world.key_revoked = True
    status = await jobs.until(handle, lambda s: s.health is Health.stuck, step_s=60)
    assert status.state is JobState.running
    assert status.reason.startswith("openai refuses the account, 10 of 10 running batches")
    assert "wrong API key" in status.reason
    assert "mend the key" in status.next_step
    assert await attribute(handle, "GroupageHealth") == "stuck"
    world.key_revoked = False
    status = await jobs.until(handle, lambda s: s.health is Health.on_track, step_s=60)
    assert status.reason == ""
    assert await attribute(handle, "GroupageHealth") == "on_track"
    assert (await handle.result()).state is JobState.completed
    assert set(world.sent.values()) == {1}


async def test_a_workers_full_disk_is_shown_and_the_answers_are_collected_once_there_is_room(jobs, world):
    world.disk_full_s = 3600.0
    handle = await jobs.start()
    status = await jobs.until(handle, lambda s: s.health is Health.stuck, step_s=60)
    assert status.reason.startswith("a worker's disk is full, 10 of 10 running batches")
    assert "make room" in status.next_step
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert set(world.sent.values()) == {1}


async def test_a_long_weekend_of_a_full_disk_costs_no_answer_however_fast_the_job_polls(jobs, world):
    world.requests, world.disk_full_s = 10, 100 * 3600.0
    summary = await jobs.run(deadline=timedelta(days=14), policy=JobPolicy(poll="1s"))
    assert summary.state is JobState.completed
    assert set(world.sent.values()) == {1}


async def test_CL_05_answers_that_nobody_could_collect_stay_at_the_provider_and_count_as_paid(jobs, world):
    world.requests, world.disk_full_s = 10, 12 * 86400.0
    summary = await jobs.run(deadline=timedelta(days=14), policy=JobPolicy(poll="1s"))
    assert summary.state is JobState.completed
    (lost, *_) = world.batches.values()
    assert lost.id not in [cleaned.batch_id for cleaned in world.cleaned]
    assert any(lost.id in name for name in summary.left_behind)
