"""The embedded server as a real process: shared, guarded, restarted, stopped."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from groupage.client.config import load_settings
from groupage.client.connection import Connection, connect_temporal
from groupage.client.local_server import LocalServer, ServerFiles, find_local_server, is_running, process_started
from groupage.schemas.errors import GroupageError
from groupage.workers import Settings, Stack, embedded, run_with_stack, stack
from groupage.workers.embedded import (
    EmbeddedServerError,
    ServerUse,
    embedded_server,
    started_ahead,
    stop_if_unused,
    stop_server,
)
from groupage.workers.namespace import EMBEDDED_RETENTION, keep_ended_workflows, missing_search_attributes
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

sys.path.insert(0, str(Path(__file__).parent))

from workers_world import eventually  # found through the line above

JOIN_AND_WAIT = """
import sys, time
from pathlib import Path
from groupage.workers.embedded import ServerUse
use = ServerUse(Path(sys.argv[1]))
print("joining", flush=True)
print("pid", use.join().pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_if_unused(tmp_path)
    assert not is_running(ServerFiles.of(tmp_path))


def processes_on(state_dir: Path) -> list[int]:
    """Pids of all servers on this state directory's database, by their command lines."""
    found = []
    wanted = f"--db-filename={ServerFiles.of(state_dir).database}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


class User:
    """Another process that uses the server."""

    def __init__(self, state_dir: Path) -> None:
        command = [sys.executable, "-c", JOIN_AND_WAIT, str(state_dir)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.wait_for("joining")

    def wait_for(self, start: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line.removeprefix(start).strip()
        raise AssertionError(f"the user ended before it said {start!r}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def user(state_dir: Path) -> Iterator[User]:
    started = User(state_dir)
    yield started
    started.kill()


async def test_users_share_one_server_and_the_last_one_stops_it(state_dir: Path) -> None:
    first, second = ServerUse(state_dir), ServerUse(state_dir)
    records = await asyncio.gather(asyncio.to_thread(first.join), asyncio.to_thread(second.join))
    assert records[0] == records[1]
    assert processes_on(state_dir) == [records[0].pid]
    assert first.leave() is False
    assert is_running(ServerFiles.of(state_dir))
    assert second.leave() is True
    assert processes_on(state_dir) == []


async def test_a_killed_user_harms_nobody_and_no_longer_counts(state_dir: Path, user: User) -> None:
    pid = int(user.wait_for("pid"))
    async with embedded_server(state_dir) as mine:
        assert mine.record is not None
        assert mine.record.pid == pid
        user.kill()
        assert (await Client.connect(mine.record.address)).namespace == "default"
    assert processes_on(state_dir) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.35])
async def test_a_starter_killed_at_any_moment_leaves_one_server_at_most(
    state_dir: Path, user: User, delay_s: float
) -> None:
    await asyncio.sleep(delay_s)
    user.kill()
    async with embedded_server(state_dir) as mine:
        record = mine.record
        assert record is not None
        # What launched it for the other one may still be about to end.
        await eventually(lambda: processes_on(state_dir) == [record.pid])
        await Client.connect(record.address)


async def test_a_server_started_ahead_is_the_one_that_is_used_and_is_stopped_at_the_end(state_dir: Path) -> None:
    async with started_ahead(state_dir):
        await eventually(lambda: find_local_server(state_dir) is not None)
        ahead = find_local_server(state_dir)
        assert ahead is not None
        async with embedded_server(state_dir) as mine:
            assert mine.record == ahead
        # What launched it may still be about to end.
        await eventually(lambda: processes_on(state_dir) == [ahead.pid])
    assert processes_on(state_dir) == []


async def test_a_server_started_ahead_that_nobody_comes_to_need_is_stopped(state_dir: Path) -> None:
    with pytest.raises(GroupageError, match="bad input"):
        async with started_ahead(state_dir):
            raise GroupageError("bad input")
    assert processes_on(state_dir) == []


async def test_a_server_that_cannot_be_started_ahead_is_missed_by_those_who_need_it(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded.shutil, "which", lambda *_, **__: None)
    async with started_ahead(state_dir):
        await asyncio.sleep(0)
    with pytest.raises(EmbeddedServerError, match="there is no `temporal`"):
        async with embedded_server(state_dir):
            raise AssertionError("it was not there")


async def test_a_killed_server_comes_back_on_the_same_database_and_ports(state_dir: Path) -> None:
    async with embedded_server(state_dir) as use:
        before = use.record
        assert before is not None
        client = await Client.connect(before.address)
        await client.start_workflow("Nobody", id="kept", task_queue="nobody")
        watching = asyncio.create_task(use.watch())
        os.kill(before.pid, signal.SIGKILL)
        await eventually(lambda: use.record != before and find_local_server(state_dir) is not None)
        watching.cancel()
        after = use.record
        assert after is not None
        assert after.pid != before.pid
        assert after.address == before.address
        described = await client.get_workflow_handle("kept").describe()
        assert described.id == "kept"


async def test_if_its_port_is_taken_it_comes_back_on_another_and_says_so(state_dir: Path) -> None:
    async with embedded_server(state_dir) as use:
        before = use.record
        assert before is not None
        os.kill(before.pid, signal.SIGKILL)
        await eventually(lambda: not is_running(ServerFiles.of(state_dir)))
        with socket.create_server(("127.0.0.1", before.port)):
            await asyncio.wait_for(use.watch(), 120)
            after = use.record
            assert after is not None
            assert after.port != before.port
            await Client.connect(after.address)


async def test_a_record_whose_process_is_gone_is_not_believed_and_its_pid_not_touched(state_dir: Path) -> None:
    files = ServerFiles.of(state_dir)
    files.directory.mkdir(parents=True)
    innocent = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        files.record.write_text(LocalServer(innocent.pid, "0", 1, 2, "temporal").to_json())
        files.lock.touch()
        assert find_local_server(state_dir) is None
        assert stop_server(files) is False
        async with embedded_server(state_dir):
            # A record that does not name the process that holds the lock: nothing is killed on its word.
            good = files.record.read_bytes()
            files.record.write_text(LocalServer(innocent.pid, "0", 1, 2, "temporal").to_json())
            with pytest.raises(EmbeddedServerError, match="does not name it"):
                stop_server(files)
            files.record.write_bytes(good)
        assert innocent.returncode is None
    finally:
        innocent.kill()
        await innocent.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_that_dies_while_a_command_attaches_is_started_again(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    killed: list[int] = []

    async def connect_and_kill(*arguments: Any, **options: Any) -> Connection:
        connection = await connect_temporal(*arguments, **options)
        record = find_local_server(state_dir)
        if not killed and record is not None:
            killed.append(record.pid)
            os.kill(record.pid, how)
            if how is signal.SIGKILL:
                await eventually(lambda: not is_running(ServerFiles.of(state_dir)))
        return connection

    async def work(used: Stack) -> int:
        return (await used.connection.temporal.count_workflows("")).count

    monkeypatch.setattr(stack, "connect_temporal", connect_and_kill)
    settings = load_settings(Settings, state_dir=state_dir)
    assert await run_with_stack(settings, work, workers=None, embedded=True) == 0
    assert killed


async def test_work_that_ends_because_temporal_is_gone_says_so(state_dir: Path) -> None:
    async def work(used: Stack) -> None:
        raise RPCError("transport error", RPCStatusCode.UNKNOWN, b"")

    settings = load_settings(Settings, state_dir=state_dir)
    with pytest.raises(GroupageError, match=r"Temporal at 127.0.0.1:\d+ cannot be reached: transport error"):
        await run_with_stack(settings, work, workers=None, embedded=True)


async def test_the_namespace_keeps_ended_jobs_and_knows_our_search_attributes(state_dir: Path) -> None:
    async with embedded_server(state_dir) as use:
        assert use.record is not None
        client = await Client.connect(use.record.address)
        await keep_ended_workflows(client, EMBEDDED_RETENTION)
        described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
        assert described.config.workflow_execution_retention_ttl.seconds == EMBEDDED_RETENTION.total_seconds()
        assert await missing_search_attributes(client) == []


def test_a_process_is_told_from_a_later_one_with_its_pid() -> None:
    started = process_started(os.getpid())
    assert started
    assert process_started(os.getpid()) == started
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert process_started(child.pid) is None
