"""Running a command's coroutine under signals."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from groupage.schemas.errors import GroupageError

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(GroupageError):
    """The command was stopped by a signal; jobs are durable and go on."""

    def __init__(self, number: signal.Signals, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def run_until_signal(
    work: Callable[[], Coroutine[Any, Any, T]], *, say: Callable[[str], None], on_stop: Callable[[], str]
) -> T:
    """`asyncio.run`, but the first signal cancels the work in good order and the second ends the process at once.

    Ending at once is safe at any time: it is what a kill does. `on_stop` gives the message that tells
    how to go on.
    """
    stopped: list[signal.Signals] = []

    async def under_signals() -> T:
        loop = asyncio.get_running_loop()
        main = asyncio.ensure_future(work())

        def on_signal(number: signal.Signals) -> None:
            if stopped:
                os._exit(128 + number)
            stopped.append(number)
            say("stopping (again to stop at once) …")
            main.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal, number)
        try:
            return await main
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(under_signals())
    except asyncio.CancelledError:
        if not stopped:
            raise
        raise Interrupted(stopped[0], on_stop()) from None
