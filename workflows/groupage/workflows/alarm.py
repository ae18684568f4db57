"""One durable timer that is set again only when its time changes: each setting is an event or two."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow


class Alarm:
    """Rings once at the time it was set to. `poke` is called then; `rang` stays true until it is set again."""

    def __init__(self, poke: Callable[[], None]) -> None:
        self._poke = poke
        self._at: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self.rang = False

    def set(self, at: datetime, summary: str) -> None:
        """Ring at `at`, or at once if that has passed."""
        if at == self._at and not self.rang:
            return
        self.cancel()
        self._at = at
        self._task = asyncio.create_task(self._sleep(max(at - workflow.now(), timedelta(0)), summary))

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self._at, self.rang = None, None, False

    async def _sleep(self, duration: timedelta, summary: str) -> None:
        if duration > timedelta(0):
            await workflow.sleep(duration, summary=summary[:200])
        self.rang = True
        self._poke()
