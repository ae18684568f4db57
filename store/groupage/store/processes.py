"""Intake of a large file by several processes, each a range at a time."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from typing import IO

from groupage.store.ranges import RangeOrder, RangeSpooled, join, line_ranges
from groupage.store.spooler import Spooler

WORTH_BYTES = 128 << 20
"""Below this size a single process is as fast: others take a third of a second of CPU each to start."""
RANGE_BYTES = 24 << 20
"""Some three segments."""

Process = subprocess.Popen[bytes]


class ProcessLost(Exception):
    """A process ended before its range was taken in: a single process will say why, if there is a reason."""


def spool_ranges(
    whole: Spooler, all_of: RangeOrder, *, processes: int, range_bytes: int, beat: Callable[[int], None]
) -> None:
    """Take in a file by `processes` others. Raises ProcessLost, TooManyGroups, OSError."""
    orders = [
        all_of.model_copy(update={"start": start, "end": end, "directory": f"{all_of.directory}/range-{number}"})
        for number, (start, end) in enumerate(line_ranges(Path(all_of.path), range_bytes))
    ]
    if not sys.executable:
        raise ProcessLost("no interpreter to start")
    lines = 0
    with ThreadPoolExecutor(processes, thread_name_prefix="range") as pool, _processes(processes) as idle:
        for done, part in zip(orders, pool.map(lambda one: _ask(idle, one), orders), strict=True):
            join(whole, Path(done.directory), part, lines)
            rmtree(done.directory)
            lines += part.lines
            beat(lines)


@contextmanager
def _processes(count: int) -> Generator["SimpleQueue[Process]", None, None]:
    # Ids are told to be equal by Python's own hash: the same in all of them, and another one each time.
    env = os.environ | {"PYTHONHASHSEED": str(secrets.randbelow(2**32))}
    idle: SimpleQueue[Process] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "groupage.store.range_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=env,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            idle.put(process)
        yield idle


def _ask(idle: "SimpleQueue[Process]", order: RangeOrder) -> RangeSpooled:
    process = idle.get()
    try:
        stdin = _open(process.stdin)
        stdin.write(order.model_dump_json().encode() + b"\n")
        stdin.flush()
        told = _open(process.stdout).readline()
    except BrokenPipeError:
        told = b""
    finally:
        idle.put(process)
    if not told.endswith(b"\n"):
        raise ProcessLost(f"bytes {order.start} to {order.end}")
    return RangeSpooled.model_validate_json(told)


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
