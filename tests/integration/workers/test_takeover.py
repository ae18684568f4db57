"""What a killed worker had begun is done by another at once, and a living one is left alone."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from groupage.workers.embedded import embedded_server
from groupage.workers.takeover import (
    announced_worker,
    fail_attempts_of,
    take_over_from_killed,
    workers_directory,
)
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

sys.path.insert(0, str(Path(__file__).parent))

from takeover_world import Waiting, finish  # found through the line above
from workers_world import eventually


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with embedded_server(tmp_path) as use:
        assert use.record is not None
        yield await Client.connect(use.record.address)


async def running_attempt(handle: "WorkflowHandle[Waiting, str]") -> str:
    """Identity of the worker that runs the activity, once it runs."""
    give_up_at = time.monotonic() + 90
    while time.monotonic() < give_up_at:
        described = await handle.describe()
        for pending in described.raw_description.pending_activities:
            if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                return pending.last_worker_identity
        await asyncio.sleep(0.1)
    raise AssertionError("the activity never started")


async def test_an_attempt_of_a_killed_worker_is_retried_at_once(client: Client, tmp_path: Path) -> None:
    address = client.service_client.config.target_host
    program = str(Path(__file__).parent / "takeover_world.py")
    process = await asyncio.create_subprocess_exec(sys.executable, program, address, str(tmp_path))
    try:
        handle = await client.start_workflow(Waiting.run, id="job/t/k", task_queue="waiting")
        identity = await running_attempt(handle)
        assert [path.name for path in workers_directory(tmp_path).iterdir()] == [identity]
        async with announced_worker(tmp_path) as mine:
            looking = asyncio.create_task(take_over_from_killed(client, tmp_path))
            await asyncio.sleep(3)
            # It lives: its attempt goes on.
            assert await running_attempt(handle) == identity
            process.kill()
            await process.wait()
            worker = Worker(
                client,
                task_queue="waiting",
                identity=mine.identity,
                workflows=[Waiting],
                activities=[finish],
                workflow_runner=UnsandboxedWorkflowRunner(),
            )
            async with worker:
                began = time.monotonic()
                assert await handle.result() == "attempt 2"
                # The attempt itself would be given up after five minutes. Ten seconds of it are the workflow task's own
                # timeout, by which the dead worker's cache is given up.
                assert time.monotonic() - began < 120
            await eventually(lambda: [path.name for path in workers_directory(tmp_path).iterdir()] == [mine.identity])
            looking.cancel()
            await asyncio.wait([looking])
        assert list(workers_directory(tmp_path).iterdir()) == []
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_worker_that_lost_contact_is_taken_over_from_when_it_has_ended(client: Client, tmp_path: Path) -> None:
    async with announced_worker(tmp_path) as moved:
        moved.lost_contact = True
    assert [path.name for path in workers_directory(tmp_path).iterdir()] == [moved.identity]
    looking = asyncio.create_task(take_over_from_killed(client, tmp_path))
    await eventually(lambda: not list(workers_directory(tmp_path).iterdir()))
    looking.cancel()
    await asyncio.wait([looking])


async def test_nobody_elses_attempts_are_touched(client: Client) -> None:
    assert await fail_attempts_of(client, "groupage-1-nobody") == 0
