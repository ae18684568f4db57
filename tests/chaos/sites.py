"""Where a job runs: with a server and a worker of their own, or with `groupage run` alone, which brings both."""

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from groupage.client.local_server import LocalServer, ServerFiles, find_local_server, process_started
from temporalio.client import Client

from tests.chaos.processes import START_TIMEOUT_S, Child, HarnessError, TemporalServer, Zygote, send
from tests.chaos.scenario import Victim

CACHED = (0, 0, 500)
"""Workflows that a worker keeps in memory. 0 replays the history at every task, which finds what is not
deterministic, and does not wait ten seconds for a dead worker's own queue; some workers are as usual."""


async def connect(address: str) -> Client:
    """Its port may be open before the server is healthy."""
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return await Client.connect(address)
        except RuntimeError as error:
            if time.monotonic() > give_up_at:
                raise HarnessError(f"Temporal at {address} does not answer: {error}") from error
        await asyncio.sleep(0.05)


@dataclass(slots=True)
class Surroundings:
    """What all sites of a lane share."""

    directory: Path
    zygote: Zygote
    variables: dict[str, str] = field(default_factory=dict)
    """By which the provider is reached."""
    names: int = 0

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "PYTHONUNBUFFERED": "1",
            "XDG_CONFIG_HOME": str(self.directory / "config"),
            **self.variables,
            # Waits that are minutes in production, because providers are slow to show what they have accepted.
            "GROUPAGE_ACTIVITIES__CREATE_VISIBILITY_S": "2",
            "GROUPAGE_ACTIVITIES__NOT_VISIBLE_S": "10",
            "GROUPAGE_ACTIVITIES__FILES_LATE_S": "5",
            "GROUPAGE_ACTIVITIES__MAX_POLL_S": "1",
            "GROUPAGE_ACTIVITIES__HEARTBEAT_S": "0.3",
        }

    async def spawn(self, what: str, argv: list[str], out: Path, environment: dict[str, str]) -> Child:
        """Start `groupage argv...`; what it says is added to `out`.out and `out`.err."""
        self.names += 1
        return await self.zygote.spawn(
            f"{what}-{self.names}", argv, env=environment, out=out.with_suffix(".out"), err=out.with_suffix(".err")
        )


class Deployed:
    """A Temporal server and a worker that all runs of the lane share; clients only watch."""

    run_options = ("--no-worker",)

    def __init__(self, around: Surroundings, binary: str) -> None:
        self._around = around
        self._server = TemporalServer(binary, around.directory)
        self._worker: Child | None = None
        self._client: Client | None = None
        self.store = around.directory / "store"

    async def start(self, draw: random.Random) -> None:
        self.store.mkdir()
        await self._server.start()
        await self._start_worker(draw)
        self._client = await connect(self._server.address)

    async def stop(self) -> None:
        await self._server.stop()

    def environment(self) -> dict[str, str]:
        return self._around.environment() | {
            "TEMPORAL_ADDRESS": self._server.address,
            "GROUPAGE_STORE": self.store.as_uri(),
            "GROUPAGE_STATE_DIR": str(self._around.directory / "state"),
        }

    async def temporal(self) -> Client:
        assert self._client is not None
        return self._client

    def has_server(self) -> bool:
        return True

    async def tidy(self) -> Child | None:
        """The worker is there and goes on."""
        return None

    async def supervise(self) -> int:
        """As systemd would: a worker that ended by itself, because the server was down, is started again."""
        if self._worker is None or self._worker.alive:
            return 0
        if self._worker.code != 1:
            raise HarnessError(f"the worker ended by itself with code {self._worker.code}")
        await self._start_worker(random.Random(self._around.names))
        return 1

    def victims(self, wanted: tuple[Victim, ...]) -> tuple[Victim, ...]:
        return wanted

    def worker_of(self, client: Child | None) -> Child | None:
        return self._worker

    def signal_server(self, number: signal.Signals) -> None:
        send(self._server.process, number)

    async def revive_server(self) -> None:
        await self._server.stop()
        await self._server.start()

    async def revive_worker(self, draw: random.Random) -> None:
        await self._start_worker(draw)

    async def _start_worker(self, draw: random.Random) -> None:
        environment = self.environment() | {"GROUPAGE_MAX_CACHED_WORKFLOWS": str(draw.choice(CACHED))}
        self._worker = await self._around.spawn("worker", ["worker"], self._around.directory / "worker", environment)


class Embedded:
    """`groupage run` alone: it starts the server, which is ours to kill, and has the worker in its own process.

    We count as a user of the server, so that it is there between the runs; nobody restarts it but the product.
    """

    run_options = ()

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._state = around.directory / "embedded"
        self.store = self._state / "store"
        self._users: int | None = None
        self._client: Client | None = None
        self._connected: LocalServer | None = None

    async def start(self, draw: random.Random) -> None:
        files = ServerFiles.of(self._state)
        files.directory.mkdir(parents=True)
        self._users = os.open(files.users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._users, fcntl.LOCK_SH)

    async def stop(self) -> None:
        if self._users is not None:
            os.close(self._users)
        record = find_local_server(self._state)
        self.signal_server(signal.SIGKILL)
        give_up_at = time.monotonic() + 5
        # Not our child: its end can only be looked for.
        while record is not None and process_started(record.pid) == record.started and time.monotonic() < give_up_at:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def environment(self) -> dict[str, str]:
        cached = CACHED[self._around.names % len(CACHED)]
        return self._around.environment() | {
            "GROUPAGE_STATE_DIR": str(self._state),
            "GROUPAGE_MAX_CACHED_WORKFLOWS": str(cached),
        }

    async def temporal(self) -> Client:
        """A client of the server that runs now; waits until there is one."""
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while (record := find_local_server(self._state)) is None:
            if time.monotonic() > give_up_at:
                raise HarnessError("no embedded Temporal came up")
            await asyncio.sleep(0.05)
        if self._client is None or self._connected is None or self._connected.address != record.address:
            self._client, self._connected = await connect(record.address), record
        return self._client

    def has_server(self) -> bool:
        return find_local_server(self._state) is not None

    async def tidy(self) -> Child | None:
        """If the client was killed after the summary was written, the same command only hands out the results:
        the rest (deleting files, closing workflows) is done by the next command with a worker. This is one.
        """
        return await self._around.spawn("tidy", ["worker"], self._around.directory / "tidy", self.environment())

    async def supervise(self) -> int:
        """There is nothing that could have ended by itself."""
        return 0

    def victims(self, wanted: tuple[Victim, ...]) -> tuple[Victim, ...]:
        """The worker is a part of the client."""
        return tuple(dict.fromkeys(Victim.client if victim is Victim.worker else victim for victim in wanted))

    def worker_of(self, client: Child | None) -> Child | None:
        return client

    def signal_server(self, number: signal.Signals) -> None:
        record = find_local_server(self._state)
        if record is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, number)

    async def revive_server(self) -> None:
        """The client that lives, or the next one, does it."""

    async def revive_worker(self, draw: random.Random) -> None:
        """It comes with the next client."""


Site = Deployed | Embedded
