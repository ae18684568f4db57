"""Turns itself into the embedded Temporal server. Run by path, with the standard library only.

    python -I -S server_launcher.py LOCAL_SERVER_PY START_LOCK_FD DIRECTORY PORT UI_PORT COMMAND...

It takes server.lock, leaves its parent's session, writes the record with its own pid and execs the
server, which inherits server.lock. start.lock comes from the starter and is let go by the exec. So
whoever started it may be killed at any moment: nobody else starts or stops anything before this
start has come to its end, and no server runs without lock and record. Two servers on one SQLite
file would steal the shard from each other (seen with server 1.32: both start).

Exit 75: a living server holds the lock.
"""

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

EXIT_BUSY = 75
LOCK_WAIT_S = 5.0
"""Those who only look hold the lock shared for a moment."""


def take_server_lock(local_server: Any, path: Path) -> int | None:
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        descriptor: int | None = local_server.take_lock(path)
        if descriptor is not None or time.monotonic() > give_up_at:
            return descriptor
        time.sleep(0.02)


def become_server(local_server: Any, files: Any, lock: int, ports: tuple[int, int], command: list[str]) -> NoReturn:
    """`lock` is server.lock's descriptor; all others close at the exec."""
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
    module_path, start_lock, directory, port, ui_port, *command = arguments
    os.set_inheritable(int(start_lock), False)
    sys.path.insert(0, str(Path(module_path).parent))
    local_server = importlib.import_module(Path(module_path).stem)
    files = local_server.ServerFiles(Path(directory))
    lock = take_server_lock(local_server, files.lock)
    if lock is None:
        return EXIT_BUSY
    files.banner.write_bytes(b"")
    if os.fork():
        # The caller's wait ends here; the server belongs to nobody and leaves no zombie.
        return 0
    become_server(local_server, files, lock, (int(port), int(ui_port)), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
