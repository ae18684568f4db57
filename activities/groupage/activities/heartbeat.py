"""Heartbeats beside the work, so that a long transfer neither looks dead nor misses its cancellation."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from temporalio import activity


@asynccontextmanager
async def heartbeating(every_s: float, details: Callable[[], Any] | None = None) -> AsyncGenerator[None, None]:
    """Heartbeat now and every `every_s` seconds until the block ends, with what `details()` says then.

    The event loop must stay free: work that blocks belongs in threads.
    """

    def beat() -> None:
        if details is None:
            activity.heartbeat()
        else:
            activity.heartbeat(details())

    async def beats() -> None:
        while True:
            await asyncio.sleep(every_s)
            beat()

    beat()
    task = asyncio.create_task(beats())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
