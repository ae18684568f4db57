"""The embedded Temporal server as others see it: is there one, is it really ours, where does it listen.

`{state}/temporal/` holds::

    server.lock   held (flock) by the living server process itself, inherited through exec: the only
                  proof of life that survives any kill, since the kernel drops it with the process
    server.json   LocalServer: written by the process that becomes the server, before it becomes it
    users.lock    held shared by every process that uses the server (workers/embedded.py)
    start.lock    held while somebody starts or stops it
    temporal.db   SQLite
    server.out    what the server said when it started; server.log: its warnings

Starting and stopping are in `groupage.workers.embedded`; a client only looks. The standard library only: the launcher reads
this file by its path.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Record of one server process. `started` tells it from a later process with the same pid."""

    pid: int
    started: str
    port: int
    ui_port: int
    binary: str

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths of one embedded server."""

    directory: Path

    @classmethod
    def of(cls, state_dir: Path) -> "ServerFiles":
        return cls(state_dir / "temporal")

    @property
    def lock(self) -> Path:
        return self.directory / "server.lock"

    @property
    def record(self) -> Path:
        return self.directory / "server.json"

    @property
    def users(self) -> Path:
        return self.directory / "users.lock"

    @property
    def start(self) -> Path:
        return self.directory / "start.lock"

    @property
    def database(self) -> Path:
        return self.directory / "temporal.db"

    @property
    def banner(self) -> Path:
        return self.directory / "server.out"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"


def process_started(pid: int) -> str | None:
    """When the process started, in the system's own units; None if there is no such process."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The command's name may hold spaces and brackets; fields are counted from behind it.
        return stat.rpartition(")")[2].split()[19]
    asked = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words and a number
    return listed.stdout.strip() or None


def take_lock(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the flock, or None if it is not free. Closing it lets go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def try_lock(path: Path, *, shared: bool = False) -> Generator[bool, None, None]:
    """Hold a flock for the block if it is free; yields whether it was."""
    descriptor = take_lock(path, shared=shared)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_running(files: ServerFiles) -> bool:
    """Whether a server process holds this state directory's database."""
    if not files.lock.exists():
        return False
    # A shared lock: two who look at the same moment must not take each other for a server.
    with try_lock(files.lock, shared=True) as was_free:
        return not was_free


def read_record(files: ServerFiles) -> LocalServer | None:
    """The record as written, whether its process lives or not; None where there is none that can be read."""
    try:
        return LocalServer(**json.loads(files.record.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def find_local_server(state_dir: Path) -> LocalServer | None:
    """The living embedded server of this state directory, or None."""
    files = ServerFiles.of(state_dir)
    if not is_running(files):
        return None
    record = read_record(files)
    if record is None or process_started(record.pid) != record.started:
        return None
    return record
