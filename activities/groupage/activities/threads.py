"""Blocking work in threads that stops when its activity is cancelled."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The activity was cancelled while its thread worked."""


def check(stop: threading.Event) -> None:
    """Raise Stopped if the activity was cancelled. Asked every few thousand lines or every piece of a file."""
    if stop.is_set():
        raise Stopped


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread. On cancellation `stop` is set and the thread's end is awaited.

    So no file is removed under a thread that still writes to it.
    """
    stop = threading.Event()
    task = asyncio.create_task(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        task.cancelled() or task.exception()  # looked at, so that asyncio does not complain about it
        raise
