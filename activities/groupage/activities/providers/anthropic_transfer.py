"""A create body on its way up and the head of a results file on its way down, in flat memory."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from groupage.activities.answers_anthropic import read_result_line
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

TAIL = b",\n"
"""Ends each element in the rendered file; the last one's is not sent."""
_OPEN, _CLOSE = b'{"requests":[', b"]}"
READ_BYTES = 1 << 20
PROBED_BYTES = 64 << 20
"""How much of somebody's results is read in search of a line with an id: the longest line, twice."""


def body_size(path: Path) -> int:
    """Bytes that `stream_body` sends."""
    return len(_OPEN) + path.stat().st_size - len(TAIL) + len(_CLOSE)


async def stream_body(path: Path) -> AsyncIterator[bytes]:
    """The create call's body: brackets around the file's elements. Disk reads stay out of the event loop."""
    yield _OPEN
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size - len(TAIL)
        while left > 0:
            chunk = await asyncio.to_thread(file.read, min(READ_BYTES, left))
            if not chunk:
                raise OSError(f"{path} became shorter while it was sent")
            left -= len(chunk)
            yield chunk
    yield _CLOSE


async def first_wire_id(response: "httpx2.Response", what: str) -> str:
    """The custom_id of the first line that has one, "" where none has. Reads no more than it needs.

    Raises ProviderError(transient) where the body breaks off before.
    """
    import httpx2

    pending, seen = bytearray(), 0
    try:
        async for chunk in response.aiter_bytes():
            seen += len(chunk)
            # Joined at a line's end only: the first line may be long.
            head, ended, rest = chunk.rpartition(b"\n")
            if ended:
                for line in (bytes(pending) + head).split(b"\n"):
                    wire_id = read_result_line(line).wire_id
                    if wire_id is not None:
                        return wire_id
                pending.clear()
            pending += rest
            if seen > PROBED_BYTES:
                return ""
    except httpx2.RequestError as error:
        raise ProviderError(
            f"{what}: {type(error).__name__}: {error}", error_class=ErrorClass.transient, code="cut_short"
        ) from error
    return read_result_line(bytes(pending)).wire_id or ""
