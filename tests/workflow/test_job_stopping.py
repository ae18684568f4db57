"""Escalation, deadlines and cancellation: a job ends in time, harvested, whatever the batches do."""

import asyncio
from datetime import timedelta

import pytest
from groupage.schemas import CancelInput, ErrorClass, FailureAction, Health, JobPolicy, JobState, JobStatus, Route
from groupage.schemas.signals import SIGNAL_STOP, UPDATE_CANCEL, StopBatch
from groupage.workflows.policy.escalation import settle_s
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError

from tests.workflow.scripted_batch import Script

DAYS = 86_400.0


async def test_escalation_sends_only_what_is_unanswered_and_makes_the_deadline(jobs, world):
    world.script = lambda r, s: Script(turnaround_s=60) if s < 6 else Script(turnaround_s=9 * DAYS, progress=0.5)
    summary = await jobs.run(deadline=timedelta(hours=6))
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert summary.finished_at > summary.accepted_at + timedelta(hours=4)
    assert not world.paid_twice()
    assert sum(len(world.members[r.shard.round, r.shard.shard]) for r in world.sync_runs) == 20
    assert world.calls["cancel_batch"] == 4
    assert world.plans[1].actions[ErrorClass.cancelled] is FailureAction.sync


async def test_EX_04_a_provider_that_never_expires_does_not_hold_the_job_beyond_its_deadline(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(turnaround_s=365 * DAYS, cancel_s=None)
    summary = await jobs.run(deadline=timedelta(hours=2))
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert len(world.answered) == 10


async def test_PO_15_a_cancel_that_takes_25_minutes_is_waited_for_and_harvested(jobs, world):
    world.requests, world.per_shard = 2000, 2000
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, cancel_s=1500, progress=0.071)
    summary = await jobs.run(deadline=timedelta(hours=10))
    assert summary.state is JobState.completed
    assert world.calls["cancel_batch"] == 1
    assert sum(len(world.members[r.shard.round, r.shard.shard]) for r in world.sync_runs) == 2000 - 142
    assert not world.paid_twice()
    assert summary.finished_at <= summary.deadline_at


async def test_a_deadline_of_a_minute_works_and_settles_within_its_share(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, cancel_s=3)
    summary = await jobs.run(deadline=timedelta(seconds=60), policy=JobPolicy(turnaround="10s"))
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert world.plans[0].first_route is Route.batch
    assert settle_s(JobPolicy(), 60.0) <= 9.0


async def test_a_deadline_too_near_for_a_batch_goes_by_sync_at_once(jobs, world):
    world.requests = 50
    summary = await jobs.run(deadline=timedelta(seconds=20))
    assert summary.state is JobState.completed
    assert world.calls["submit_batch"] == 0


async def test_a_deadline_that_has_passed_is_said_and_nothing_is_sent(jobs, world):
    world.prepare_s = 1.5
    summary = await jobs.run(deadline=timedelta(seconds=1))
    assert summary.state is JobState.failed
    assert "deadline" in summary.reason
    assert not world.sent


async def test_without_escalation_the_job_ends_at_the_deadline_with_what_the_batches_have(jobs, world):
    world.script = lambda r, s: Script(turnaround_s=60) if s < 6 else Script(turnaround_s=9 * DAYS, progress=0.5)
    summary = await jobs.run(deadline=timedelta(hours=6), policy=JobPolicy(escalate=False))
    assert summary.state is JobState.completed_with_failures
    assert len(world.answered) == 80
    assert world.calls["run_sync_shard"] == 0
    assert not world.plans[0].escalate, "planning sends nothing by sync, either"
    assert "not to escalate" in summary.reason
    assert summary.finished_at <= summary.deadline_at


async def test_counts_do_not_move_escalation_because_a_batch_may_not_settle(jobs, world):
    world.requests, world.per_shard = 20_000, 20_000
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, progress=0.95, cancel_s=None)
    summary = await jobs.run(deadline=timedelta(hours=11), policy=JobPolicy(poll="10m", turnaround="1h"))
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert sum(len(world.members[r.shard.round, r.shard.shard]) for r in world.sync_runs) == 20_000


async def test_a_job_that_sync_could_not_save_waits_for_its_batches_and_says_so(jobs, world):
    world.requests, world.per_shard = 100_000, 10_000
    world.script = lambda r, s: Script(turnaround_s=4 * 3600)
    handle = await jobs.start(deadline=timedelta(hours=6), policy=JobPolicy(sync_rpm=10))
    status = await jobs.until(handle, lambda s: s.shards_running == 10, step_s=60)
    assert status.health is Health.at_risk
    assert "sync could not take all" in status.reason
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert world.calls["cancel_batch"] == 0


async def cancel(handle) -> JobStatus:
    return await handle.execute_update(UPDATE_CANCEL, CancelInput(reason="not needed"), result_type=JobStatus)


async def test_cancel_while_running_harvests_what_is_there(jobs, world):
    world.script = lambda r, s: Script(turnaround_s=60) if s < 3 else Script(turnaround_s=9 * DAYS, progress=0.5)
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_done == 3, step_s=30)
    assert (await cancel(handle)).cancel_requested
    summary = await handle.result()
    assert summary.state is JobState.cancelled
    assert "not needed" in summary.reason
    assert len(world.answered) == 30 + 7 * 5
    assert world.calls["cancel_batch"] == 7
    assert world.calls["run_sync_shard"] == 0


async def test_PF_13_cancel_at_5_of_25_keeps_the_5(jobs, world):
    world.requests, world.per_shard = 25, 25
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, progress=0.2)
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_running == 1, step_s=30)
    await cancel(handle)
    summary = await handle.result()
    assert summary.outcomes == {"succeeded": 5, "failed": 20}


async def test_cancel_while_preparing_ends_cancelled_and_sends_nothing(jobs, world):
    world.prepare_gate = asyncio.Event()
    handle = await jobs.start()
    assert (await jobs.status(handle)).state is JobState.preparing
    await cancel(handle)
    world.prepare_gate.set()
    assert (await handle.result()).state is JobState.cancelled
    assert not world.sent


async def test_cancel_while_the_input_cannot_be_read_ends_after_a_minute(jobs, world):
    world.prepare_error = ApplicationError("the store is away", type="store.unavailable")
    handle = await jobs.start()
    await cancel(handle)
    summary = await handle.result()
    assert summary.state is JobState.cancelled
    assert "before its requests had been read" in summary.reason
    assert summary.finished_at >= summary.accepted_at + timedelta(seconds=60)
    assert world.calls["finalize_job"] == 0


async def test_cancel_while_escalating_keeps_what_sync_answered(jobs, world):
    world.requests, world.sync_gate = 3000, asyncio.Event()
    handle = await jobs.start(deadline=timedelta(minutes=9))
    await jobs.until(handle, lambda s: s.state is JobState.escalating, step_s=0.2)
    await cancel(handle)
    world.sync_gate.set()
    summary = await handle.result()
    assert summary.state is JobState.cancelled


async def test_cancel_while_finalizing_is_rejected(jobs, world):
    world.requests, world.finalize_gate = 10, asyncio.Event()
    handle = await jobs.start()
    result = asyncio.create_task(handle.result())
    await world.finalizing.wait()
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await cancel(handle)
    assert "too late" in str(caught.value.cause)
    world.finalize_gate.set()
    assert (await result).state is JobState.completed


async def test_cancel_through_temporal_harvests_and_ends_as_cancelled(jobs, world):
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, progress=0.5)
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_running == 10, step_s=30)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert world.finalized.cancelled
    assert len(world.answered) == 50
    assert world.calls["cancel_batch"] == 10


async def test_CL_07_a_shard_cancelled_through_temporal_cancels_its_batch_and_the_job_goes_on(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=7200, progress=0.5) if r == 0 else Script()
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_running == 2, step_s=30)
    await jobs.client.get_workflow_handle("job/t/k/r0-s001").cancel()
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert world.calls["cancel_batch"] == 1
    assert not world.paid_twice()
    assert sum(world.sent.values()) == 25


async def test_a_stop_before_submission_sends_nothing(jobs, world):
    world.requests = 10
    handle = await jobs.start()
    child = "job/t/k/r0-s000"
    world.script = lambda r, s: Script(submit_s=0.0)
    await jobs.client.start_workflow(
        "ProviderBatch",
        {
            "shard": {
                "job": {"tenant": "t", "key": "other", "token": "gabcdef-abcdefghijklm", "provider": "openai"},
                "round": 0,
                "shard": 0,
            },
            "policy": {},
            "requests": 7,
        },
        id="job/t/other/r0-s000",
        task_queue="groupage-test",
        start_signal=SIGNAL_STOP,
        start_signal_args=[StopBatch(reason="no", settle_s=5)],
    )
    report = await jobs.client.get_workflow_handle("job/t/other/r0-s000").result()
    assert report["unanswered"] == {"not_sent": 7}
    assert (await handle.result()).state is JobState.completed
    assert [s.shard.job.key for s in world.submits] == ["k"]
    assert child in {f"job/t/{s.shard.job.key}/r{s.shard.round}-s{s.shard.shard:03d}" for s in world.submits}


async def test_a_stop_during_submission_finds_the_batch_and_cancels_it(jobs, world):
    world.requests = 10
    world.script = lambda r, s: Script(turnaround_s=9 * DAYS, submit_s=1.0)
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_running == 1, step_s=0.1)
    await cancel(handle)
    assert (await handle.result()).state is JobState.cancelled
    assert all(b.cancelled_at for b in world.batches.values())
