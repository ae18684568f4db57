"""Output files: whole or not at all."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from groupage.cli.options import STDOUT
from groupage.schemas.errors import GroupageError, UsageError


def check_output(output: str) -> None:
    """Fail before anything is sent if the output could not be written in the end."""
    if output == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"-o {output} is a directory", hint="name a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"-o {output}: nothing can be written in {path.parent.absolute()}", hint="make the directory")


def write_whole(output: str, write: Callable[[BinaryIO], int]) -> None:
    """Let `write` fill the file, through a temporary one beside it that then takes its name; or stdout."""
    if output == STDOUT:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes files that only their owner can read; results are as readable as other files.
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise GroupageError(f"{output} cannot be written: {error.strerror or error}") from error
