"""What a job leaves in Temporal (events, payloads), and what it survives. Continue-as-new: test_real_server.py."""

import asyncio
from datetime import timedelta

from groupage.schemas import CancelInput, JobPolicy, JobState, ShardReport
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from groupage.schemas.signals import SIGNAL_SHARD_DONE, UPDATE_CANCEL
from temporalio.api.enums.v1 import EventType

from tests.workflow.conftest import Jobs, payload_sizes, serving, task_failures, time_skipping
from tests.workflow.scripted_batch import Script
from tests.workflow.world import World

DAY = 86_400.0
SHARD_EVENTS_MAX = 40
JOB_EVENTS_PER_SHARD_MAX = 15


async def histories_of_job(jobs: Jobs, world: World):
    runs = await jobs.runs("job/t/k")
    shards = []
    for r, s in sorted({b.shard for b in world.batches.values()}):
        await jobs.ended(f"job/t/k/r{r}-s{s:03d}")
        shards.append(await jobs.client.get_workflow_handle(f"job/t/k/r{r}-s{s:03d}").fetch_history())
    return runs, shards


async def test_TE_04_twenty_shards_that_wait_a_day_cost_few_events(jobs, world, record_property):
    world.requests = 200
    world.script = lambda r, s: Script(turnaround_s=DAY - 600 * s)
    handle = await jobs.start(deadline=timedelta(hours=48), policy=JobPolicy(poll="15m"))
    assert (await handle.result()).state is JobState.completed
    assert world.calls["await_batch"] > 20 * 80
    runs, shards = await histories_of_job(jobs, world)
    assert len(shards) == 20
    most = max(len(h.events) for h in shards)
    job = sum(len(h.events) for h in runs)
    record_property("events_per_shard", most)
    record_property("job_events", job)
    print(f"events of a shard: {most}, of the job: {job} ({job / 20:.1f} a shard)")
    assert most <= SHARD_EVENTS_MAX
    assert job <= JOB_EVENTS_PER_SHARD_MAX * 20
    sizes = [size for h in [*runs, *shards] for size in payload_sizes(h)]
    print(f"largest payload: {max(sizes)} bytes")
    assert max(sizes) <= PAYLOAD_MAX_BYTES


async def test_TE_02_a_wide_window_starts_its_shards_in_small_tasks(jobs, world):
    world.requests, world.per_shard = 120, 1
    handle = await jobs.start(policy=JobPolicy(window=120, poll="15m"))
    assert (await handle.result()).state is JobState.completed
    history = await handle.fetch_history()
    assert not task_failures(history)
    in_a_task, highest = 0, 0
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            in_a_task = 0
        if event.event_type == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            in_a_task += 1
            highest = max(highest, in_a_task)
    assert highest <= 50
    assert max(payload_sizes(history)) <= PAYLOAD_MAX_BYTES


async def test_a_shard_that_died_unseen_is_stopped_by_a_successor_at_escalation(jobs, world):
    """The time-skipping server does not tell a parent of a terminated child: nobody notices until the stop."""
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=9 * DAY, progress=0.5)
    handle = await jobs.start(deadline=timedelta(hours=10))
    await jobs.until(handle, lambda s: s.shards_running == 2, step_s=30)
    await jobs.client.get_workflow_handle("job/t/k/r0-s001").terminate("lost")
    summary = await handle.result()
    assert summary.state is JobState.completed
    assert len(world.batches) == 2
    assert world.calls["cancel_batch"] == 2
    assert not world.paid_twice()
    assert world.sent == {**dict.fromkeys(range(20), 1), **dict.fromkeys([5, 6, 7, 8, 9, 15, 16, 17, 18, 19], 2)}


async def test_a_report_that_comes_twice_counts_once(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=60 if s == 0 else 7200)
    handle = await jobs.start()
    await jobs.until(handle, lambda s: s.shards_done == 1, step_s=30)
    report = ShardReport.model_validate(await jobs.ended("job/t/k/r0-s000"))
    for _ in range(3):
        await handle.signal(SIGNAL_SHARD_DONE, report)
    status = await jobs.until(handle, lambda s: True)
    assert (status.answered, status.shards_done) == (10, 1)
    assert status.cost_usd == report.cost_usd
    assert (await handle.result()).state is JobState.completed


async def test_a_job_terminated_and_started_again_takes_over_its_running_shards(jobs, world):
    world.requests = 20
    first = await jobs.start()
    await jobs.until(first, lambda s: s.shards_running == 2, step_s=30)
    await first.terminate("operator")
    world.answered.clear()
    summary = await (await jobs.start()).result()
    assert summary.state is JobState.completed
    assert set(world.sent.values()) == {1}


async def test_a_successor_does_not_wait_for_a_batch_that_was_collected_and_deleted(jobs, world):
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=60 if s == 0 else 7200)
    first = await jobs.start()
    await jobs.until(first, lambda s: s.shards_done == 1, step_s=30)
    await first.terminate("operator")
    world.gone[0, 0] = ShardReport.model_validate(await jobs.ended("job/t/k/r0-s000"))
    second = await jobs.start()
    status = await jobs.until(second, lambda s: s.shards_done == 1, step_s=1)
    assert (status.answered, status.cost_usd) == (10, world.gone[0, 0].cost_usd)
    assert world.collected == [(0, 0)]
    summary = await second.result()
    assert (summary.state, summary.left_behind) == (JobState.completed, [])
    assert set(world.sent.values()) == {1}


async def terminated_in_round_1(jobs: Jobs, world: World) -> None:
    """Twenty requests, ten of them answered in round 0; round 1 holds the others and would run for days."""
    world.requests = 20
    world.script = lambda r, s: (
        Script(turnaround_s=60, answers=5) if r == 0 else Script(turnaround_s=9 * DAY, progress=0.5)
    )
    first = await jobs.start()
    await jobs.until(first, lambda s: s.round == 1 and s.shards_running == 1, step_s=30)
    await first.terminate("operator")


async def test_promise_3_a_cancelled_successor_of_a_terminated_job_harvests_what_that_had_sent(jobs, world):
    await terminated_in_round_1(jobs, world)
    world.prepare_gate = asyncio.Event()
    second = await jobs.start()
    await second.execute_update(UPDATE_CANCEL, CancelInput(reason="no"))
    world.prepare_gate.set()
    summary = await second.result()
    assert (summary.state, summary.rounds) == (JobState.cancelled, 2)
    assert len(world.answered) == 10 + 5
    assert {batch.shard: batch.cancelled_at is not None for batch in world.batches.values()}[1, 0]
    assert not summary.left_behind
    assert set(world.collected) == {(0, 0), (0, 1), (1, 0)}


async def test_promise_3_a_successor_that_has_no_time_for_batches_harvests_what_was_sent_before_it_goes_by_sync(
    jobs, world
):
    await terminated_in_round_1(jobs, world)
    summary = await jobs.run(deadline=timedelta(seconds=60), policy=JobPolicy(turnaround="1h"))
    assert (summary.state, summary.rounds) == (JobState.completed, 3)
    assert not world.paid_twice()
    assert sum(len(world.members[r.shard.round, r.shard.shard]) for r in world.sync_runs) == 5
    assert all(batch.cancelled_at for batch in world.batches.values() if batch.shard == (1, 0))


async def test_everything_works_without_a_workflow_cache():
    """Every task replays its history: what a restarted worker does, and the strictest test of determinism."""
    async with time_skipping() as env:
        world = World(env.get_current_time, requests=40)
        world.script = lambda r, s: Script(turnaround_s=60) if s < 2 else Script(turnaround_s=9 * DAY, progress=0.5)
        async with serving(env, world, cached=0) as jobs:
            summary = await jobs.run(deadline=timedelta(hours=6))
    assert summary.state is JobState.completed
    assert not world.paid_twice()
