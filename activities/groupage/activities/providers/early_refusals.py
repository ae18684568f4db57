"""A body that is refused for its size while it is still on its way.

A gateway may answer 413 to the headers alone and close the connection. One that does not wait for the rest resets it,
and asyncio, which reads nothing while it writes, drops the answer with the connection: what is seen is a connection
that broke, as in any passing trouble, and the same bytes would be sent again for ever (docs/cases.md QU-07). So the
size of a large body that broke off is announced once more, without the body, and the answer is waited for. A gateway
that counts what comes, and refuses it somewhere in the middle, is not found out by this.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from groupage.schemas.errors import ProviderError

LARGE_BYTES = 1_000_000
"""The least that is announced: nginx takes 1 MiB unless it is told otherwise, and nobody is known to take less."""
PATIENCE_S = 2.0
"""For the answer to the headers, and once more for reading it."""


async def of_its_size(
    error: ProviderError, size: int, call: Callable[[AsyncIterator[bytes]], Awaitable[Any]]
) -> ProviderError:
    """What a call failed for: `error`, or the 413 that a large body's size alone is answered with.

    `call` makes the same call with another body, which must be announced as of the same `size` in bytes. Nothing can
    come of it: not a byte of the body is sent.
    """
    if error.code != "connection_lost" or size < LARGE_BYTES:
        return error
    try:
        await call(_held_back())
    except ProviderError as told:
        return told if told.status == 413 else error
    return error


async def _held_back() -> AsyncIterator[bytes]:
    import httpcore2

    await asyncio.sleep(PATIENCE_S)
    # After this, httpcore reads what the server has answered, as where a server breaks off.
    raise httpcore2.WriteError("only the size was announced")
    yield b""
