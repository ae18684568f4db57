"""Output: a file that is there whole or not at all; a pipe, a device or an open descriptor is written as it is."""

import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from groupage.cli.options import STDIN, STDOUT
from groupage.schemas.errors import GroupageError, UsageError

_STDIN_DESCRIPTOR, _STDOUT_DESCRIPTOR = 0, 1
_LINKS_AT_MOST = 40
"""As many as Linux follows."""


def check_output(output: str, source: str = "") -> None:
    """Fail before anything is sent if the output could not be written in the end, or is the input itself.

    `source` is the input: a path, or - for stdin. Raises UsageError.
    """
    if output != STDOUT and not output:
        raise UsageError("-o: the name is empty", hint="name a file; - is stdout")
    found = _stat_of(_STDOUT_DESCRIPTOR if output == STDOUT else output)
    if source and found is not None and stat.S_ISREG(found.st_mode):
        read = _stat_of(_STDIN_DESCRIPTOR if source == STDIN else source)
        if read is not None and os.path.samestat(found, read):
            raise UsageError(
                f"-o {output} is the input itself: results would take the place of the requests",
                hint="name another file",
            )
    if output != STDOUT and own_descriptor(output) is None:
        _check_path(output, found)


def _check_path(output: str, found: os.stat_result | None) -> None:
    if found is not None:
        if stat.S_ISDIR(found.st_mode):
            raise UsageError(f"-o {output} is a directory", hint="name a file")
        if stat.S_ISBLK(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            raise UsageError(f"-o {output} is a disk or a socket", hint="name a file")
        if not os.access(output, os.W_OK):
            raise UsageError(f"-o {output} may not be written", hint="name another file, or change its permissions")
        if not stat.S_ISREG(found.st_mode):
            return
    # The file is written beside the one that a link leads to, and takes its name there.
    folder = Path(os.path.realpath(output)).parent
    if not folder.is_dir():
        raise UsageError(
            f"-o {output}: there is no directory {folder}, so nothing can be written in it", hint="make the directory"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"-o {output}: nothing can be written in {folder}: no permission",
            hint="name a file elsewhere, or change the directory's permissions",
        )


def write_whole(output: str, write: Callable[[BinaryIO], int], *, hint: str = "") -> None:
    """Let `write` fill the output.

    A regular file, or one that is not there yet, is written through a temporary one beside it, which then
    takes its name; links are followed. What else there is (stdout, /dev/fd/N, a pipe, a device) is opened
    and written. Raises GroupageError with `hint`.
    """
    if output == STDOUT:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        descriptor = own_descriptor(output)
        if descriptor is not None:
            # Opened anew by its name, a file behind it would be written from its beginning.
            _write_through(os.dup(descriptor), write)
        elif _is_special(output):
            _write_through(os.open(output, os.O_WRONLY | os.O_CLOEXEC), write)
        else:
            _write_file(Path(os.path.realpath(output)), write)
    except OSError as error:
        raise GroupageError(f"{output} cannot be written: {error.strerror or error}", hint=hint) from error


def _write_through(descriptor: int, write: Callable[[BinaryIO], int]) -> None:
    with os.fdopen(descriptor, "wb") as file:
        write(file)


def _write_file(path: Path, write: Callable[[BinaryIO], int]) -> None:
    before = _stat_of(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner can read; results are as readable as what they replace, or as
        # other files.
        Path(name).chmod(_usual_mode() if before is None else stat.S_IMODE(before.st_mode) & 0o777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def own_descriptor(output: str) -> int | None:
    """N where the path is this process's own /dev/fd/N, also by another name (/dev/stdout, /proc/self/fd/N)."""
    path = Path(output)
    for _ in range(_LINKS_AT_MOST):
        if path.name.isdecimal():
            real = os.path.realpath(path.parent)
            if real == "/dev/fd" or re.fullmatch(rf"/proc/{os.getpid()}(/task/\d+)?/fd", real):
                return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _is_special(output: str) -> bool:
    found = _stat_of(output)
    return found is not None and not stat.S_ISREG(found.st_mode)


def _stat_of(file: str | int | Path) -> os.stat_result | None:
    """None where there is nothing (or nothing that may be looked at)."""
    try:
        return os.stat(file)  # noqa: PTH116 - a descriptor, too
    except OSError:
        return None
