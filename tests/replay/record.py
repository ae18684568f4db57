"""Record the histories that test_replay.py replays: `python -m tests.replay.record`.

Run it for a change that open workflows need not survive, and commit the new histories with it; for any
other change that breaks the replay, use `workflow.patched` instead.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from groupage.schemas import BatchError, BatchPhase, CancelInput, DecideInput, Decision, ErrorClass, JobPolicy, JobState
from groupage.schemas.signals import UPDATE_CANCEL, UPDATE_DECIDE

from tests.workflow.conftest import Jobs, serving, time_skipping
from tests.workflow.scripted_batch import Script
from tests.workflow.world import World

HISTORIES = Path(__file__).parent / "histories"
DAY = 86_400.0
QUOTA = BatchError(error_class=ErrorClass.quota, code="token_limit_exceeded", message="enqueued token limit")


async def happy(jobs: Jobs, world: World) -> None:
    world.requests = 20
    await jobs.run()


async def expired_then_resubmitted(jobs: Jobs, world: World) -> None:
    world.requests = 10
    world.script = lambda r, s: Script(phase=BatchPhase.expired, answers=1) if r == 0 else Script()
    await jobs.run()


async def missing_after_expired(jobs: Jobs, world: World) -> None:
    world.requests = 10
    world.script = lambda r, s: Script(
        answers=4 if r == 0 else 0, rest=ErrorClass.missing if r == 2 else ErrorClass.expired
    )
    await jobs.run(policy=JobPolicy(max_rounds=5))


async def escalated(jobs: Jobs, world: World) -> None:
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=60) if s == 0 else Script(turnaround_s=9 * DAY, progress=0.5)
    await jobs.run(deadline=timedelta(hours=6), policy=JobPolicy(poll="10m", turnaround="1h"))


async def quota_pause(jobs: Jobs, world: World) -> None:
    world.requests = 10
    world.script = lambda r, s: Script(refuse=[QUOTA])
    await jobs.run()


async def failed_as_a_whole(jobs: Jobs, world: World) -> None:
    world.requests = 10
    error = BatchError(error_class=ErrorClass.unknown, code="bad", message="your organisation is not allowed")
    world.script = lambda r, s: Script(phase=BatchPhase.failed, error=error, turnaround_s=60)
    await jobs.run()


async def decided(jobs: Jobs, world: World) -> None:
    world.requests = 30
    bad = Script(answers=2, rest=ErrorClass.invalid, turnaround_s=60)
    world.script = lambda r, s: bad if (r, s) == (0, 0) else Script()
    handle = await jobs.start(policy=JobPolicy(canary_requests=10))
    await jobs.until(handle, lambda status: status.state is JobState.needs_decision, step_s=60)
    await handle.execute_update(UPDATE_DECIDE, DecideInput(decision=Decision.retry))
    await handle.result()


async def cancelled(jobs: Jobs, world: World) -> None:
    world.requests = 20
    world.script = lambda r, s: Script(turnaround_s=9 * DAY, progress=0.5)
    handle = await jobs.start()
    await jobs.until(handle, lambda status: status.shards_running == 2, step_s=30)
    await handle.execute_update(UPDATE_CANCEL, CancelInput(reason="not needed"))
    await handle.result()


SCENARIOS: dict[str, Callable[[Jobs, World], Awaitable[None]]] = {
    "happy": happy,
    "expired_then_resubmitted": expired_then_resubmitted,
    "missing_after_expired": missing_after_expired,
    "escalated": escalated,
    "quota_pause": quota_pause,
    "failed_as_a_whole": failed_as_a_whole,
    "decided": decided,
    "cancelled": cancelled,
}


def without_traces(history: str) -> str:
    """Without who recorded it and on which paths: neither is the workflow's, and replay reads neither."""
    history = re.sub(r'"identity": "[^"]*"', '"identity": "recorder"', history)
    return re.sub(r'"stackTrace": "(?:[^"\\]|\\.)*"', '"stackTrace": ""', history)


async def record(name: str) -> list[Path]:
    """Run one scenario and store the histories of its job and of its first shard."""
    written: list[Path] = []
    async with time_skipping() as env:
        world = World(env.get_current_time)
        async with serving(env, world) as jobs:
            await SCENARIOS[name](jobs, world)
            shard = "job/t/k/r0-s000"
            await jobs.ended(shard)
            for kind, workflow_id in (("job", "job/t/k"), ("shard", shard)):
                history = await jobs.client.get_workflow_handle(workflow_id).fetch_history()
                path = HISTORIES / f"{name}.{kind}.json"
                path.write_text(without_traces(history.to_json()), "utf-8")
                written.append(path)
    return written


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    for name in SCENARIOS:
        for path in await record(name):
            print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    asyncio.run(main())
