"""Turns itself into the embedded Temporal server. Run by path, with the standard library only.

    python -I -S server_launcher.py LOCAL_SERVER_PY DIRECTORY PORT UI_PORT COMMAND...

It takes server.lock, leaves its parent's session, writes the record with its own pid and execs the
server, which inherits the lock. So whoever started it may be killed at any moment: there is no
time at which a server runs without lock and record. Two servers on one SQLite file would steal
the shard from each other (seen with server 1.32: both start).

Exit 75: a living server holds the lock.
"""

import fcntl
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

EXIT_BUSY = 75
LOCK_WAIT_S = 5.0
"""Those who only look hold the lock shared for a moment."""


def take_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                return None
            time.sleep(0.02)
        else:
            return descriptor


def become_server(local_server: Any, files: Any, lock: int, ports: tuple[int, int], command: list[str]) -> NoReturn:
    os.setsid()
    pid = os.getpid()
    record = local_server.LocalServer(
        pid=pid,
        started=local_server.process_started(pid),
        port=ports[0],
        ui_port=ports[1],
        binary=command[0],
    )
    unfinished = files.record.with_suffix(f".{pid}")
    unfinished.write_text(record.to_json())
    unfinished.replace(files.record)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, files.banner, append), (2, files.log, append)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, target)
        os.close(opened)
    os.set_inheritable(lock, True)
    os.chdir(files.directory)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def main(arguments: list[str]) -> int:
    module_path, directory, port, ui_port, *command = arguments
    sys.path.insert(0, str(Path(module_path).parent))
    local_server = importlib.import_module(Path(module_path).stem)
    files = local_server.ServerFiles(Path(directory))
    lock = take_lock(files.lock)
    if lock is None:
        return EXIT_BUSY
    files.banner.write_bytes(b"")
    if os.fork():
        # The caller's wait ends here; the server belongs to nobody and leaves no zombie.
        return 0
    become_server(local_server, files, lock, (int(port), int(ui_port)), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
