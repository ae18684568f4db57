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


async def detached(work: Callable[[], T], name: str) -> T:
    """Run blocking work in a daemon thread of its own. Cancelled, it returns at once and the thread goes on alone.

    For calls that last for minutes: in the shared pool a few dozen of them would keep everything else waiting,
    and at shutdown the process would wait for them; a daemon thread is left behind.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    made: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            made.append(work())
        except Exception as error:  # noqa: BLE001  # raised again where it is waited for
            failed.append(error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if over.done() else over.set_result(None))

    threading.Thread(target=run, name=name, daemon=True).start()
    await over
    if failed:
        raise failed[0]
    return made[0]
