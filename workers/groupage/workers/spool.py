"""Scratch space of one process, removed with it: by itself, or after a kill by whoever comes next."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from groupage.client.local_server import try_lock
from groupage.client.state_folder import make_state_folder

LOCK_NAME = ".lock"


def remove_abandoned(parent: Path) -> int:
    """Delete the spool directories whose process is gone: nobody holds their lock. Returns how many."""
    removed = 0
    for directory in parent.iterdir():
        lock = directory / LOCK_NAME
        # Without a lock file it has just been made by a process that is about to take the lock.
        if not lock.is_file():
            continue
        with try_lock(lock) as abandoned:
            if abandoned:
                shutil.rmtree(directory, ignore_errors=True)
                removed += 1
    return removed


@contextlib.contextmanager
def spool_directory(state_dir: Path) -> Generator[Path, None, None]:
    """A directory of this process alone, for files on their way between store and provider."""
    parent = state_dir / "spool"
    make_state_folder(parent)
    directory = Path(tempfile.mkdtemp(dir=parent))
    # Locked before it bears the name by which others recognise it as lockable.
    unnamed = directory / (LOCK_NAME + ".new")
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(directory / LOCK_NAME)
        remove_abandoned(parent)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(descriptor)
