"""What the time-skipping server does not do. Times are real here, so short.

It tells no parent of a terminated child, and its time stands still once children outlive the run that
started them (continue-as-new, an ended job).
"""

import asyncio
import sysconfig
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from groupage.schemas import ErrorClass, JobPolicy, JobState, ShardReport
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from groupage.schemas.signals import SEARCH_ATTRIBUTES, SIGNAL_SHARD_DONE, SIGNAL_STOP, StopBatch
from groupage.workflows import steps
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from tests.workflow.conftest import Jobs, payload_sizes, serving
from tests.workflow.scripted_batch import Script
from tests.workflow.world import World

KEYS = {"Keyword": SearchAttributeKey.for_keyword, "Datetime": SearchAttributeKey.for_datetime}
POLICY = JobPolicy(poll="1s")


async def wall_clock() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def live() -> AsyncIterator[Jobs]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(Path(sysconfig.get_path("scripts")) / "temporal"),
        data_converter=pydantic_data_converter,
        search_attributes=[KEYS[kind](name) for name, kind in SEARCH_ATTRIBUTES.items()],
    ) as env:
        world = World(wall_clock, requests=20)
        async with serving(env, world) as jobs:
            yield jobs


async def running(jobs: Jobs, workflow_id: str, *, not_run: str = "") -> str:
    """Wait until that workflow runs (in another run than `not_run`); its run id."""
    for _ in range(900):
        try:
            description = await jobs.client.get_workflow_handle(workflow_id).describe()
        except RPCError:
            description = None  # not started yet
        alive = description is not None and description.status is WorkflowExecutionStatus.RUNNING
        if alive and description.run_id != not_run:
            return description.run_id
        await asyncio.sleep(0.1)
    raise AssertionError(f"{workflow_id} does not run")


async def test_a_terminated_shard_is_started_again_and_adopts_its_batch(live):
    script = Script(turnaround_s=9e9)
    live.world.script = lambda r, s: script
    handle = await live.start(policy=POLICY)
    lost = await running(live, "job/t/k/r0-s001")
    while len(live.world.batches) < 2:  # noqa: ASYNC110 - the world fills up in this loop's own activities
        await asyncio.sleep(0.1)
    await live.client.get_workflow_handle("job/t/k/r0-s001").terminate("lost")
    await running(live, "job/t/k/r0-s001", not_run=lost)
    script.turnaround_s = 0.0
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert len(live.world.batches) == 2
    assert set(live.world.sent.values()) == {1}


async def test_a_shard_that_is_lost_again_and_again_does_not_hang_the_job(live):
    live.world.requests = 10
    live.world.script = lambda r, s: Script(turnaround_s=9e9 if r == 0 else 1)
    handle = await live.start(policy=POLICY)
    run_id = ""
    for _ in range(4):
        run_id = await running(live, "job/t/k/r0-s000", not_run=run_id)
        await live.client.get_workflow_handle("job/t/k/r0-s000").terminate("lost")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert live.world.plans[1].actions[ErrorClass.not_sent] == "resubmit"


async def test_a_deadline_of_seconds_is_kept_with_real_timers(live):
    live.world.script = lambda r, s: Script(turnaround_s=9e9, progress=0.5, cancel_s=0.5)
    summary = await live.run(deadline=timedelta(seconds=45), policy=POLICY)
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert len(live.world.answered) == 20


async def ended(jobs: Jobs, workflow_id: str) -> ShardReport:
    return await jobs.client.get_workflow_handle(workflow_id, result_type=ShardReport).result()


async def test_an_unsettled_batch_is_reported_in_time_and_harvested_late_as_waste(live):
    live.world.requests = 10
    script = Script(turnaround_s=9e9, cancel_s=9e9, progress=0.4)
    live.world.script = lambda r, s: script
    summary = await live.run(deadline=timedelta(seconds=40), policy=POLICY)
    assert summary.state is JobState.completed
    assert summary.finished_at <= summary.deadline_at
    assert any("had not ended" in name for name in summary.left_behind)
    assert live.world.finalized.unsettled == ["0-0"]
    assert live.world.collected == []
    script.cancel_s = 0.0
    report = await ended(live, "job/t/k/r0-s000")
    assert live.world.collected == [(0, 0)]
    assert len(live.world.paid_twice()) == 4
    assert report.phase == "cancelled"
    assert live.world.calls["cancel_batch"] == 1
    assert live.world.calls["clean_up_batch"] == 1


async def stopped_in_doubt(live: Jobs, **doubt: object) -> ShardReport:
    """A job of ten requests whose first shard is told to stop while nobody knows whether it has a batch."""
    live.world.requests = 10
    first, second = Script(turnaround_s=9e9, doubt_s=9e9, progress=0.5, **doubt), Script(turnaround_s=9e9)
    live.world.script = lambda r, s: first if r == 0 else second
    handle = await live.start(policy=POLICY)
    shard = live.client.get_workflow_handle("job/t/k/r0-s000")
    await running(live, shard.id)
    while not live.world.batches:  # noqa: ASYNC110 - the world fills up in this loop's own activities
        await asyncio.sleep(0.1)
    await shard.signal(SIGNAL_STOP, StopBatch(reason="not needed", settle_s=3.0))
    await running(live, "job/t/k/r1-s000")
    assert live.world.plans[1].actions[ErrorClass.cancelled] == "resubmit", "the job did not wait"
    first.doubt_s = 0.0
    report = await ended(live, shard.id)
    second.turnaround_s = 0.0
    assert (await handle.result()).state is JobState.completed
    return report


async def test_SU_02_a_batch_that_shows_after_the_job_went_on_is_cancelled_harvested_and_counted(live):
    """Promises 2 and 8, where the doubt about a create call outlasts the time that a stopped shard has."""
    report = await stopped_in_doubt(live)
    batch = next(iter(live.world.batches.values()))
    assert batch.cancelled_at is not None
    assert (report.batch_id, report.phase, report.unsettled) == (batch.id, "cancelled", False)
    assert len(live.world.paid_twice()) == 5
    assert batch.id in [cleaned.batch_id for cleaned in live.world.cleaned]
    assert not live.world.finalized.left_behind


async def test_a_doubt_that_ends_without_a_batch_ends_the_shard(live):
    report = await stopped_in_doubt(live, lost=True)
    assert (report.batch_id, report.unsettled, report.unanswered) == ("", False, {ErrorClass.not_sent: 10})
    assert not live.world.paid_twice()
    assert not live.world.finalized.left_behind


async def test_a_shard_whose_job_is_gone_still_harvests_and_cleans_up(live):
    live.world.requests = 10
    script = Script(turnaround_s=9e9)
    live.world.script = lambda r, s: script
    handle = await live.start(policy=POLICY)
    await running(live, "job/t/k/r0-s000")
    await handle.terminate("gone")
    script.turnaround_s = 0.0
    assert (await ended(live, "job/t/k/r0-s000")).outcomes == {"succeeded": 10}
    assert live.world.calls["clean_up_batch"] == 1


async def test_continue_as_new_loses_no_shard_and_starts_none_twice(live, monkeypatch):
    # So low that the runs are as many where a busy machine's tasks are few and take in much at once; so below.
    monkeypatch.setattr(steps, "CONTINUE_AT_EVENTS", 45)
    live.world.requests, live.world.per_shard = 40, 1
    live.world.script = lambda r, s: Script(turnaround_s=1 + s % 3, answers=0 if s == 5 and r == 0 else None)
    handle = await live.start(policy=JobPolicy(window=8, poll="1s"))
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert len(await live.runs("job/t/k")) > 3
    assert {i: n for i, n in live.world.sent.items() if n != 1} == {5: 2}
    assert not live.world.paid_twice()


async def test_messages_that_arrive_during_continue_as_new_are_not_lost(live, monkeypatch):
    monkeypatch.setattr(steps, "CONTINUE_AT_EVENTS", 30)
    live.world.requests, live.world.per_shard = 20, 1
    live.world.script = lambda r, s: Script(turnaround_s=1)
    handle = await live.start(policy=JobPolicy(window=10, poll="1s"))
    stranger = ShardReport(round=7, shard=1, route="batch", phase="completed", requests=1)

    async def nag() -> None:
        # A run cannot end while signals come in faster than its tasks are done: after a few it is left alone.
        for number in count(1):
            await handle.signal(SIGNAL_SHARD_DONE, stranger)
            await asyncio.sleep(0.05 if number % 5 else 0.5)

    nagging = asyncio.create_task(nag())
    summary = await handle.result()
    nagging.cancel()
    await asyncio.gather(nagging, return_exceptions=True)
    assert summary.state is JobState.completed
    assert len(await live.runs("job/t/k")) > 2
    assert set(live.world.sent.values()) == {1}


async def test_a_shard_lost_after_continue_as_new_is_noticed_and_started_again(live, monkeypatch):
    monkeypatch.setattr(steps, "CONTINUE_AT_EVENTS", 25)
    monkeypatch.setattr(steps, "ORPHAN_LOOK_S", 3.0)
    live.world.requests = 60
    last = Script(turnaround_s=9e9)
    live.world.script = lambda r, s: Script(turnaround_s=1) if s < 5 else last
    handle = await live.start(policy=POLICY)
    while len(await live.runs("job/t/k")) < 2:  # noqa: ASYNC110 - only the server knows
        await asyncio.sleep(0.1)
    await live.client.get_workflow_handle("job/t/k/r0-s005").terminate("lost")
    last.turnaround_s = 0.0
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert set(live.world.sent.values()) == {1}
    assert summary.finished_at < summary.accepted_at + timedelta(minutes=2)


async def test_a_sync_round_continues_as_new_between_its_shards(live, monkeypatch):
    monkeypatch.setattr(steps, "CONTINUE_AT_EVENTS", 35)
    live.world.requests = 20_000
    summary = await live.run(
        deadline=timedelta(minutes=2),
        policy=JobPolicy(sync_rpm=60_000, sync_concurrency=1000, sync_latency="1s", escalate=True),
    )
    assert summary.state is JobState.completed
    assert len(await live.runs("job/t/k")) > 2
    assert set(live.world.sent.values()) == {1}


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_two_thousand_shards_close_by_continue_as_new_within_all_limits(live):
    live.world.requests, live.world.per_shard = 2000, 1
    live.world.script = lambda r, s: Script(turnaround_s=1)
    handle = await live.start(policy=JobPolicy(window=100, clean_up="keep", poll="1s"))
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert set(live.world.sent.values()) == {1}
    runs = await live.runs("job/t/k")
    print(f"runs: {len(runs)}, events: {[len(h.events) for h in runs]}")
    assert len(runs) >= 4
    assert max(len(h.events) for h in runs) < 4096
    assert max(size for h in runs for size in payload_sizes(h)) <= PAYLOAD_MAX_BYTES
    assert sum(len(h.events) for h in runs) <= 15 * 2000
