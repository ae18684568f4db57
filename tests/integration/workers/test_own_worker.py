"""A worker of one's own, on a server that knows nothing of Groupage: the examples, as they stand."""

import asyncio
import os
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from groupage.client import Groupage
from groupage.client.config import ClientSettings, load_settings
from groupage.emulator.process import EmulatorProcess
from groupage.workers import GroupagePlugin, Settings, embedded_server
from groupage.workers.namespace import missing_search_attributes
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

ROOT = Path(__file__).parents[3]
WAIT_S = 140.0


@pytest.fixture
async def fresh() -> AsyncIterator[Client]:
    """A client of a server that was started without a word about Groupage."""
    binary = str(Path(sysconfig.get_path("scripts")) / "temporal")
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=binary) as env:
        yield env.client


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    with EmulatorProcess(tmp_path / "emulator", turnaround="500ms") as running:
        yield running


def environment_of(tmp_path: Path, emulator: EmulatorProcess, address: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "GROUPAGE_", "OPENAI_"))}
    return clean | {
        "TEMPORAL_ADDRESS": address,
        "GROUPAGE_STATE_DIR": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml"),
        "OPENAI_BASE_URL": emulator.base_url,
        "OPENAI_API_KEY": "test",
        "PYTHONUNBUFFERED": "1",
    }


async def started(*arguments: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_examples_run_a_job_on_a_fresh_server_and_stop_on_ctrl_c(
    fresh: Client, emulator: EmulatorProcess, tmp_path: Path
) -> None:
    environment = environment_of(tmp_path, emulator, fresh.service_client.config.target_host)
    assert await missing_search_attributes(fresh)
    worker = await started("examples/own_worker.py", environment=environment)
    submission = await started("examples/submit_from_python.py", "examples/questions.jsonl", environment=environment)
    try:
        told, failed = await asyncio.wait_for(submission.communicate(), WAIT_S)
        worker.send_signal(signal.SIGINT)
        said, complained = await asyncio.wait_for(worker.communicate(), WAIT_S)
    finally:
        for process in (worker, submission):
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert submission.returncode == 0, failed
    assert told.count(b": succeeded: ") == 3
    assert b"completed: " in told
    assert await missing_search_attributes(fresh) == []
    assert worker.returncode == 0, complained
    assert b"Traceback" not in complained
    assert b"groupage-" in said


@pytest.mark.parametrize("store_given", [False, True])
async def test_worker_and_client_derive_the_same_queue(fresh: Client, tmp_path: Path, *, store_given: bool) -> None:
    store = (tmp_path / "elsewhere").as_uri() if store_given else None
    plugin = GroupagePlugin(load_settings(Settings, state_dir=tmp_path, store=store))
    by_client = await Groupage.connect(
        settings=load_settings(ClientSettings, state_dir=tmp_path, store=store), temporal=fresh
    )
    assert await plugin.task_queue(fresh) == by_client.connection.task_queue
    assert (by_client.connection.task_queue == "groupage") is store_given


async def test_on_ones_own_embedded_server_it_is_the_queue_of_its_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as use:
        assert use.record is not None
        monkeypatch.setenv("TEMPORAL_ADDRESS", use.record.address)
        settings = load_settings(ClientSettings, state_dir=tmp_path)
        told = await Groupage.connect(settings=settings)
        given = await Groupage.connect(settings=settings, temporal=told.connection.temporal)
        plugin = GroupagePlugin(load_settings(Settings, state_dir=tmp_path))
        queues = {told.connection.task_queue, given.connection.task_queue}
        assert queues | {await plugin.task_queue(told.connection.temporal)} == {"groupage"}
