"""Intake, first half: raw input to validated, canonical segments on the local disk."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from groupage.schemas import DEFAULT_ENDPOINT, Request, endpoints_of
from groupage.schemas.errors import UsageError
from groupage.schemas.limits import LINE_MAX_BYTES, SEGMENT_BYTES, SEGMENT_REQUESTS
from groupage.store.lines import read_chunks
from groupage.store.parsing import rules_of
from groupage.store.processes import RANGE_BYTES, WORTH_BYTES, ProcessLost, spool_ranges
from groupage.store.ranges import RangeOrder, TooManyGroups, file_identity
from groupage.store.spooled import SpooledInput
from groupage.store.spooler import Spooler

Source = Path | BinaryIO | Iterable[bytes] | Iterable[Request]
"""A JSONL file, an open one, its bytes in pieces of any size, or requests made in Python."""


def spool_requests(
    source: Source,
    directory: Path,
    *,
    provider: str,
    dialect: str | None = None,
    model: str | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
    max_line_bytes: int = LINE_MAX_BYTES,
    segment_requests: int = SEGMENT_REQUESTS,
    segment_bytes: int = SEGMENT_BYTES,
    heartbeat: Callable[[int], None] | None = None,
    processes: int = 1,
) -> SpooledInput:
    """Read, validate and spool all of `source` into `directory`, which is made and must be empty.

    Bad lines are collected, not raised. `model` and `endpoint` stand in where a line has none. `dialect`
    is the adapter whose endpoints and words count, if it is not of the provider's own name. `heartbeat` is called
    with the number of lines read, now and then. A large file is taken in by as many other `processes`, if these
    are several: of the result only the ends of segments differ. Raises UsageError for a default endpoint that
    there is not.
    """
    rules = rules_of(dialect or provider)
    if endpoint not in endpoints_of(rules.provider):
        raise UsageError(f"endpoint {endpoint!r} is none of {', '.join(endpoints_of(rules.provider))}")
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise UsageError(f"the spool directory {directory.name} is not empty")
    beat = heartbeat or _no_heartbeat
    if processes > 1 and isinstance(source, Path) and source.is_file() and source.stat().st_size >= WORTH_BYTES:
        order = RangeOrder(
            path=str(source),
            file=file_identity(source.stat()),
            directory=str(directory),
            provider=rules.provider,
            model=model,
            endpoint=endpoint,
            max_line_bytes=max_line_bytes,
            segment_requests=segment_requests,
            segment_bytes=segment_bytes,
        )
        try:
            return _by_processes(order, provider, processes, beat)
        except (OSError, ValueError, ProcessLost, TooManyGroups):
            # One process takes everything, also a file whose name is no text; what is wrong with an input, it tells.
            _empty(directory)
    spooled = SpooledInput(directory, provider)
    with Spooler(spooled, rules, segment_requests, segment_bytes) as spooler:
        if isinstance(source, Path):
            with source.open("rb") as file:
                spooler.read_lines(read_chunks(file), model, endpoint, max_line_bytes, beat)
        elif hasattr(source, "read"):
            spooler.read_lines(read_chunks(cast("BinaryIO", source)), model, endpoint, max_line_bytes, beat)
        else:
            items = iter(source)
            for first in items:
                rest = chain((first,), items)
                if isinstance(first, Request):
                    spooler.read_requests(cast("Iterator[Request]", rest), model, beat)
                else:
                    spooler.read_lines(cast("Iterator[bytes]", rest), model, endpoint, max_line_bytes, beat)
        spooler.finish(beat)
    return spooled


def _by_processes(order: RangeOrder, provider: str, processes: int, beat: Callable[[int], None]) -> SpooledInput:
    spooled = SpooledInput(Path(order.directory), provider)
    with Spooler(spooled, rules_of(order.provider), order.segment_requests, order.segment_bytes) as spooler:
        spool_ranges(spooler, order, processes=processes, range_bytes=RANGE_BYTES, beat=beat)
        spooler.finish(beat)
    return spooled


def _empty(directory: Path) -> None:
    """Leaves the folder itself, whose rights its owner chose."""
    for each in directory.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def _no_heartbeat(_lines: int) -> None:
    return
