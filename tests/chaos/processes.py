"""The processes of one lane: Temporal, emulator, zygote, and through it workers and clients.

Each is a child of ours or of our zygote, is known by its pid, and is killed by its pid alone.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupage.schemas.signals import SEARCH_ATTRIBUTES
from temporalio.client import Client

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
ROOT = Path(__file__).resolve().parents[2]


class HarnessError(RuntimeError):
    """The harness itself does not get on: no verdict on the product."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def send(process: Process | None, number: signal.Signals) -> None:
    """Not Process.send_signal: it reaps a child that has just ended, which asyncio then waits for in vain."""
    if process is not None and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def _stop(process: Process | None, how: signal.Signals = signal.SIGKILL) -> None:
    if process is None:
        return
    send(process, how)
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        send(process, signal.SIGKILL)
        await process.wait()


@dataclass(slots=True)
class TemporalServer:
    """The dev server on a SQLite file; the same port and file after each start."""

    binary: str
    directory: Path
    port: int = field(default_factory=free_port)
    process: Process | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def start(self) -> None:
        command = [
            self.binary,
            "server",
            "start-dev",
            f"--ip={HOST}",
            f"--port={self.port}",
            "--headless",
            f"--db-filename={self.directory / 'temporal.db'}",
            "--log-level=error",
            # Only processes are killed here, not the machine: what is in the page cache survives.
            "--sqlite-pragma=synchronous=0",
            *(f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()),
        ]
        with (self.directory / "temporal.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not await self._answers():
            if self.process.returncode is not None or time.monotonic() > give_up_at:
                raise HarnessError(f"the Temporal server does not come up: see {self.directory / 'temporal.log'}")
            await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        """Its port is open for a moment before it is healthy."""
        try:
            await Client.connect(self.address)
        except RuntimeError:
            return False
        return True

    async def stop(self) -> None:
        await _stop(self.process)


@dataclass(slots=True)
class Emulator:
    """The emulated provider, for all runs of a lane."""

    directory: Path
    arguments: list[str]
    options: Mapping[str, object] = field(default_factory=dict)
    """The provider's own, with underscores."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the harness's own: by which it reaches the object stores."""
    process: Process | None = None
    root: str = ""

    async def start(self) -> None:
        with (self.directory / "emulator.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "groupage.emulator",
                "--host",
                HOST,
                "--port",
                "0",
                "--state",
                str(self.directory / "emulator"),
                *self.arguments,
                *(part for name, value in self.options.items() for part in (f"--{name.replace('_', '-')}", str(value))),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), START_TIMEOUT_S)
        if not line:
            raise HarnessError(f"the emulator does not come up: see {self.directory / 'emulator.log'}")
        self.root = json.loads(line)["base_url"].removesuffix("/v1")

    async def stop(self) -> None:
        # Its own worker process ends with it only if it is asked to.
        await _stop(self.process, signal.SIGTERM)


@dataclass(slots=True)
class Child:
    """One `groupage` process. `code` is set when it has ended: negative is the signal that killed it."""

    name: str
    pid: int
    started_at: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    code: int | None = None

    @property
    def alive(self) -> bool:
        return self.code is None

    def signal(self, number: signal.Signals) -> None:
        # Only while the zygote has not reaped it is the pid surely its own.
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None where it still runs after that time."""
        try:
            await asyncio.wait_for(self.ended.wait(), timeout_s)
        except TimeoutError:
            return None
        return self.code


class Zygote:
    """Our end of `tests.chaos.zygote`."""

    def __init__(self, directory: Path, modules: Sequence[str]) -> None:
        """`modules` are imported once for all children."""
        self._directory = directory
        self._modules = modules
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._children: dict[int, Child] = {}
        self._ended_early: dict[int, int] = {}

    async def start(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with (self._directory / "zygote.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.chaos.zygote",
                *self._modules,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_TIMEOUT_S)
        if not line:
            raise HarnessError(f"the zygote does not come up: see {self._directory / 'zygote.log'}")
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "started" in message:
                self._waiting.pop(message["started"]).set_result(message["pid"])
            elif "ended" in message:
                self._note_end(message["ended"], message["code"])

    def _note_end(self, pid: int, code: int) -> None:
        child = self._children.pop(pid, None)
        if child is None:
            self._ended_early[pid] = code
            return
        child.code = code
        child.ended.set()

    async def spawn(self, name: str, argv: list[str], *, env: dict[str, str], out: Path, err: Path) -> Child:
        """Run `groupage argv...`; `name` is unique in the lane."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._waiting[name] = asyncio.get_running_loop().create_future()
        command = {"name": name, "argv": argv, "env": env, "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        pid = await asyncio.wait_for(self._waiting[name], START_TIMEOUT_S)
        child = Child(name, pid, time.monotonic())
        self._children[pid] = child
        if pid in self._ended_early:
            self._note_end(pid, self._ended_early.pop(pid))
        return child

    async def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
            await _stop(self._process)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
