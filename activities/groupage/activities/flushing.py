"""Sync answers into the store as they come, gathered for a moment so that a thousand calls are no thousand objects."""

import asyncio
from collections.abc import Callable

from groupage.store.results import ResultLine
from groupage.store.sync_parts import SyncPartWriter

GATHER_S = 0.5
"""How long answers gather before they are written: what a killed worker may lose besides its open calls."""


class Flusher:
    """One write at a time. A line counts as unflushed until the store has acknowledged it.

    Use as an async context manager: leaving it without an error flushes the rest. `failure` is the
    error of a write, if there was one; nothing is written after it. `wake` is called after each write.
    """

    def __init__(self, writer: SyncPartWriter, wake: Callable[[], None]) -> None:
        self._writer = writer
        self._wake = wake
        self._lines: list[ResultLine] = []
        self._writing = 0
        self._dirty = asyncio.Event()
        self._closing = asyncio.Event()
        self.failure: Exception | None = None
        self._task = asyncio.create_task(self._run())

    @property
    def unflushed(self) -> int:
        return len(self._lines) + self._writing

    def add(self, line: ResultLine) -> None:
        self._lines.append(line)
        self._dirty.set()

    async def close(self) -> None:
        """Write what is left. Raises what a write raised."""
        self._closing.set()
        self._dirty.set()
        await asyncio.shield(self._task)  # a second cancellation must not cut a write short
        if self.failure is not None:
            raise self.failure

    async def _run(self) -> None:
        while self.failure is None:
            await self._dirty.wait()
            if not self._closing.is_set():
                await self._gather()
            self._dirty.clear()
            await self._write()
            if self._closing.is_set() and not self._lines:
                return

    async def _gather(self) -> None:
        try:
            async with asyncio.timeout(GATHER_S):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _write(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        self._writing = len(lines)
        try:
            await asyncio.to_thread(self._store, lines)
        except Exception as error:  # noqa: BLE001  # kept: the runner raises it
            self.failure = error
        else:
            self._writing = 0
        self._wake()

    def _store(self, lines: list[ResultLine]) -> None:
        for line in lines:
            self._writer.add(line)
        self._writer.flush()
