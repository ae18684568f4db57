"""Folders of the state directory: the one place that makes them."""

import errno
import os
from pathlib import Path

from groupage.schemas.errors import UsageError


def make_state_folder(path: Path) -> None:
    """Make a folder of the state directory, or the directory itself. UsageError where it cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(
            f"cannot write to {path}: {error.strerror or error}",
            hint="name a directory that can be written: the setting state_dir (GROUPAGE_STATE_DIR)",
        ) from error
