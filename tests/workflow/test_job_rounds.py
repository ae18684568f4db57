"""What a job does with what its shards bring: rounds, classes, quotas, splits."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from groupage.schemas import (
    BadLines,
    BatchError,
    BatchPhase,
    ErrorClass,
    FailureAction,
    JobPolicy,
    JobSpec,
    JobState,
    Outcome,
    Route,
)
from groupage.schemas.ids import job_workflow_id
from groupage.schemas.signals import BATCH_JOB, SWEEP
from groupage.workflows import Sweep
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from tests.workflow.conftest import TASK_QUEUE
from tests.workflow.scripted_batch import Script

QUOTA = BatchError(error_class=ErrorClass.quota, code="token_limit_exceeded", message="enqueued token limit reached")


async def test_a_job_runs_by_batch_and_ends_completed(jobs, world):
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert len(world.answered) == 100
    assert not world.paid_twice()
    assert set(world.sent.values()) == {1}
    assert world.calls["clean_up_batch"] == 10
    assert world.calls["run_sync_shard"] == 0
    assert {f for c in world.cleaned for f in c.files} == {f"{k}-{b}" for b in world.batches for k in ("in", "out")}


async def test_a_job_started_with_plain_json_runs(jobs, world):
    handle = await jobs.start({"key": "plain", "provider": "openai", "deadline": "6h"})
    assert (await handle.result()).state is JobState.completed


async def test_an_empty_job_completes_at_once_and_sends_nothing(jobs, world):
    world.requests = 0
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert world.calls["plan_round"] == 0


async def test_a_workflow_id_that_does_not_match_the_job_is_refused_for_good(jobs, world):
    handle = await jobs.client.start_workflow(
        BATCH_JOB, JobSpec(key="a", tenant="t"), id="job/t/b", task_queue=TASK_QUEUE
    )
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert "job/t/a" in caught.value.cause.message
    assert caught.value.cause.type == "input.refused"
    assert not world.calls


async def test_an_argument_that_is_no_job_spec_fails_the_workflow_instead_of_hanging(jobs, world):
    handle = await jobs.client.start_workflow(
        BATCH_JOB, {"key": "a", "deadline": "soon"}, id=job_workflow_id("default", "a"), task_queue=TASK_QUEUE
    )
    with pytest.raises(WorkflowFailureError):
        await handle.result()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"policy": {"max_cost": "0.0000001"}}, "policy.max_cost_usd"),
        ({"policy": {"max_round": 1}}, "policy.max_rounds"),
        ({"input_ulr": "file:///data/in.jsonl"}, "input_url"),
    ],
)
async def test_a_misspelt_field_fails_the_start_and_nothing_is_read_or_sent(jobs, world, written, meant):
    handle = await jobs.start({"key": "a", "provider": "openai"} | written)
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert f"did you mean {meant}?" in caught.value.cause.message
    assert (caught.value.cause.type, caught.value.cause.non_retryable) == ("input.refused", True)
    assert not world.calls


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"deadline": 6}, "deadline 6: 6 is not a duration: write 90s, 30m, 6h"),
        ({"deadline": "9999999d"}, "deadline 9999999d: too long: at most 3650d"),
        ({"policy": {"effective_for": "9999999d"}}, "policy.effective_for 9999999d: too long"),
    ],
)
async def test_a_duration_without_a_unit_or_end_fails_the_start_and_nothing_is_read_or_sent(jobs, world, written, told):
    handle = await jobs.start({"key": "a", "provider": "openai"} | written)
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert told in caught.value.cause.message
    assert not world.calls


async def test_a_job_of_an_older_client_with_more_years_than_there_are_ends(jobs, world):
    too_long = {"deadline": "P9999999D", "policy": {"effective_for": "P9999999D"}}
    handle = await jobs.start({"key": "old", "fingerprint": "ab"} | too_long)
    assert (await handle.result()).state is JobState.completed


async def test_a_field_of_a_newer_client_does_not_stop_an_older_worker(jobs, world):
    handle = await jobs.start({"key": "newer", "fingerprint": "ab", "newer": 1, "policy": {"newer": 2}})
    assert (await handle.result()).state is JobState.completed


async def test_a_misspelt_field_fails_a_sweep_before_it_ends_anything(jobs):
    async with Worker(jobs.client, task_queue="sweeps", workflows=[Sweep]):
        with pytest.raises(WorkflowFailureError) as caught:
            await jobs.client.execute_workflow(
                SWEEP, {"provider": "openai", "dryrun": True}, id="sweep/openai/default", task_queue="sweeps"
            )
    assert "did you mean dry_run?" in str(caught.value.cause)


async def test_refused_input_ends_failed_with_the_report_and_sends_nothing(jobs, world):
    world.rejected, world.refused_input = 3, True
    summary = await jobs.run()
    assert summary.state is JobState.failed
    assert "3 of 100 lines cannot be sent: line 0" in summary.reason
    assert world.calls["plan_round"] == 0


async def test_a_key_taken_by_other_content_fails_with_the_conflict(jobs, world):
    error = BatchError(error_class=ErrorClass.invalid, code="conflict", message="other content under this key")
    world.prepare_error = ApplicationError(error.message, error, type="input.conflict", non_retryable=True)
    with pytest.raises(WorkflowFailureError) as caught:
        await jobs.run()
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "input.conflict"


async def test_EX_01_an_expired_batch_is_harvested_and_only_the_rest_goes_again(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(phase=BatchPhase.expired, answers=1) if r == 0 else Script()
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert world.sent == {0: 1, **dict.fromkeys(range(1, 10), 2)}
    assert world.plans[1].actions[ErrorClass.expired] is FailureAction.resubmit
    assert not world.paid_twice()


async def test_PF_09_expired_at_60_then_40_each_once(jobs, world):
    world.per_shard = 100
    world.script = lambda r, s: Script(phase=BatchPhase.expired, answers=60) if r == 0 else Script()
    summary = await jobs.run()
    assert sum(world.sent.values()) == 140
    assert summary.outcomes == {"succeeded": 100}


async def test_PF_02_a_success_state_with_only_permanent_failures_ends_failed(jobs, world):
    world.requests = 5
    world.script = lambda r, s: Script(answers=0, rest=ErrorClass.invalid)
    summary = await jobs.run()
    assert summary.state is JobState.failed
    assert set(world.sent.values()) == {1}


async def test_PF_08_requests_of_a_batch_that_is_gone_are_sent_once_more_and_no_oftener(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(gone=True, rest=ErrorClass.missing)
    summary = await jobs.run()
    assert summary.state is JobState.failed
    assert set(world.sent.values()) == {2}
    assert world.calls["run_sync_shard"] == 0


async def test_PF_08_a_missing_request_is_sent_once_more_and_then_given_up(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(answers=9 if r == 0 else 0, rest=ErrorClass.missing)
    summary = await jobs.run()
    assert world.sent[9] == 2
    assert summary.state is JobState.completed_with_failures


async def test_PF_08_a_request_that_is_first_missing_after_other_rounds_is_sent_once_more(jobs, world):
    world.requests = 10
    rests = [ErrorClass.expired, ErrorClass.expired, ErrorClass.missing]
    world.script = lambda r, s: Script(answers=9 if r == 0 else 0, rest=rests[r]) if r < 3 else Script()
    summary = await jobs.run(policy=JobPolicy(max_rounds=5))
    assert summary.state is JobState.completed
    assert world.sent[9] == 4
    assert world.calls["run_sync_shard"] == 0


async def test_PF_08_who_has_had_a_second_try_is_counted_request_by_request(jobs, world):
    """In the second round all are missing: half of them for the first time."""
    world.requests = 20
    rests = {(0, 0): ErrorClass.unreadable, (0, 1): ErrorClass.expired, (1, 0): ErrorClass.missing}
    rests[1, 1] = ErrorClass.missing
    world.script = lambda r, s: Script(answers=0, rest=rests[r, s]) if r < 2 else Script()
    handle = await jobs.start(policy=JobPolicy(max_rounds=5))
    status = await jobs.until(handle, lambda status: status.round == 2 and status.shards_running == 1, step_s=600)
    assert status.outcomes == {Outcome.failed: 10}, "nobody waits for those that were given up"
    summary = await handle.result()
    assert [world.sent[n] for n in range(20)] == [2] * 10 + [3] * 10
    assert summary.outcomes == {Outcome.succeeded: 10, Outcome.failed: 10}
    assert summary.rounds == 3


async def test_rounds_are_bounded_and_the_rest_goes_by_sync(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(answers=r, rest=ErrorClass.transient)
    summary = await jobs.run(policy=JobPolicy(max_rounds=3))
    assert summary.state is JobState.completed
    assert [p.first_route for p in world.plans] == [Route.batch, Route.batch, Route.batch, Route.sync]
    assert world.plans[3].actions[ErrorClass.transient] is FailureAction.sync
    assert world.sent[9] == 4


async def test_QU_01_a_quota_failure_waits_and_submits_the_same_shard_again(jobs, world):
    world.requests = 10
    scripts = iter(
        [
            Script(phase=BatchPhase.failed, error=QUOTA, turnaround_s=5),
            Script(phase=BatchPhase.failed, error=QUOTA, turnaround_s=5),
            Script(),
        ]
    )
    world._script = lambda key: next(scripts) if len(world.submits) > len(world.batches) else Script()
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert summary.rounds == 1
    assert [len(s.not_ids) for s in world.submits] == [0, 1, 2]
    starts = [b.submitted_at for b in world.batches.values()]
    pauses = [(b - a).total_seconds() for a, b in pairwise(starts)]
    assert 270 < pauses[0] < 400
    assert 540 < pauses[1] < 760
    assert set(world.collected) == {(0, 0)}


async def test_a_quota_refusal_at_submission_waits_too(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(refuse=[QUOTA, QUOTA])
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert summary.rounds == 1
    assert world.calls["submit_batch"] == 3


async def test_QU_07_a_shard_that_is_too_large_is_cut_and_never_sent_unchanged(jobs, world):
    error = BatchError(error_class=ErrorClass.too_large, code="too_many_tokens", message="over 120k tokens")
    world.requests, world.per_shard = 40, 40

    def script(r, s):
        return Script(refuse=[error] if len(world.members[r, s]) > 10 else [])

    world.script = script
    summary = await jobs.run(policy=JobPolicy(max_rounds=1))
    assert summary.state is JobState.completed
    assert [p.limits_factor for p in world.plans] == [1.0, 0.5, 0.25]
    assert set(world.sent.values()) == {1}
    assert len({tuple(m) for m in world.members.values()}) == len(world.members)
    assert world.calls["run_sync_shard"] == 0


async def test_a_batch_that_failed_validation_as_too_large_is_cut_too(jobs, world):
    error = BatchError(error_class=ErrorClass.too_large, code="file_too_large", message="too large")
    world.requests, world.per_shard = 20, 20

    def script(r, s):
        large = len(world.members[r, s]) > 10
        return Script(phase=BatchPhase.failed, error=error, turnaround_s=10) if large else Script()

    world.script = script
    summary = await jobs.run()
    assert summary.state is JobState.completed
    assert world.plans[1].limits_factor == 0.5


async def test_a_shard_refused_as_invalid_is_written_down_and_given_up(jobs, world):
    error = BatchError(
        error_class=ErrorClass.invalid, code="model_not_found", message="no such model", of_all_lines=True
    )
    world.requests = 20
    world.script = lambda r, s: Script(refuse=[error] if s == 0 else [])
    summary = await jobs.run()
    assert summary.state is JobState.completed_with_failures
    assert len(world.answered) == 10
    assert (0, 0) in world.collected
    assert max(p.round for p in world.plans) == 0
    assert any(c.shard.shard == 0 for c in world.cleaned)


def refused_for(*bad_lines: BadLines) -> BatchError:
    return BatchError(
        error_class=ErrorClass.invalid, code="invalid_json_line", message="not JSON", bad_lines=list(bad_lines)
    )


async def test_promise_10_a_batch_refused_for_lines_goes_again_without_them(jobs, world):
    world.requests, world.per_shard = 20, 20

    def script(r, s):
        members = world.members[r, s]
        named = [members.index(bad) + 1 for bad in (3, 17) if bad in members]
        return (
            Script(phase=BatchPhase.failed, error=refused_for(BadLines(lines=named)), turnaround_s=10)
            if named
            else Script()
        )

    world.script = script
    summary = await jobs.run(policy=JobPolicy(max_rounds=1))
    assert summary.state is JobState.completed_with_failures
    assert sorted(world.answered) == [n for n in range(20) if n not in {3, 17}]
    assert world.calls["run_sync_shard"] == 0
    assert [(p.round, p.limits_factor) for p in world.plans] == [(0, 1.0), (1, 1.0)]
    assert {index for index, found in world.state.items() if found is ErrorClass.invalid} == {3, 17}


async def test_promise_10_a_batch_refused_for_a_line_that_nobody_names_is_cut_until_that_line_is_alone(jobs, world):
    world.requests, world.per_shard = 16, 16

    def script(r, s):
        bad = 5 in world.members[r, s]
        return (
            Script(phase=BatchPhase.failed, error=refused_for(), turnaround_s=10, rest=ErrorClass.invalid)
            if bad
            else Script()
        )

    world.script = script
    summary = await jobs.run(policy=JobPolicy(max_rounds=1))
    assert sorted(world.answered) == [n for n in range(16) if n != 5]
    assert world.calls["run_sync_shard"] == 0
    assert summary.state is JobState.completed_with_failures
    assert not world.paid_twice()


async def test_a_reason_that_holds_for_all_requests_ends_the_cutting_and_is_told(jobs, world):
    world.requests, world.per_shard = 64, 64
    world.script = lambda r, s: Script(phase=BatchPhase.failed, error=refused_for(), turnaround_s=10)
    summary = await jobs.run()
    assert summary.state is JobState.failed
    assert len(world.batches) == 1 + 2 + 4 + 8
    assert world.calls["run_sync_shard"] == 0
    assert world.finalized.reason == "the provider refused whole batches: not JSON"


async def test_the_window_bounds_the_batches_that_run_at_once(jobs, world):
    world.requests = 120
    world.script = lambda r, s: Script(turnaround_s=600 + 60 * s)
    summary = await jobs.run(policy=JobPolicy(window=3))
    assert summary.state is JobState.completed
    assert world.running_batches_max == 3


async def test_sync_shards_share_the_rate_limit(jobs, world):
    world.requests = 3000
    world.sync_s = 0.02
    summary = await jobs.run(deadline=timedelta(minutes=9), policy=JobPolicy(sync_rpm=601, sync_latency="1s"))
    assert summary.state is JobState.completed
    assert world.plans[0].first_route is Route.sync
    assert world.highest_sync_rpm <= 601
    assert {r.rpm for r in world.sync_runs} == {150, 151}


async def test_what_could_not_be_deleted_is_named_in_the_summary(jobs, world):
    world.requests = 20
    world.left_behind = ["in-file-7"]
    world.script = lambda r, s: Script(turnaround_s=60 if s == 0 else 3600)
    summary = await jobs.run()
    assert "in-file-7" in summary.left_behind
    assert summary.state is JobState.completed


async def test_a_slow_deletion_does_not_delay_the_job(jobs, world):
    world.requests = 10
    world.clean_up_gate = asyncio.Event()
    summary = await jobs.run()
    assert world.calls["clean_up_batch"] == 1
    assert world.cleaned == []
    assert summary.state is JobState.completed


async def test_files_are_kept_where_the_policy_says_so(jobs, world):
    world.requests = 10
    await jobs.run(policy=JobPolicy(clean_up="keep"))
    assert world.calls["clean_up_batch"] == 0


async def test_cost_and_counts_are_seen_in_the_status(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=60 if s == 0 else 7200)
    handle = await jobs.start()
    status = await jobs.until(handle, lambda s: s.shards_done == 1, step_s=60)
    assert (status.answered, status.shards, status.shards_running) == (10, 2, 1)
    assert status.cost_usd == Decimal("0.01")
    assert status.escalate_at is not None
    assert status.escalate_at < status.deadline_at
    await handle.result()
