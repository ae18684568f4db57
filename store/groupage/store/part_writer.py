"""Writing result parts beside the merging: compression and upload in one other thread."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zstandard
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import RowTable, pack_rows

ZSTD_LEVEL = 3
_WAITING = 3
"""Blocks and uploads that may wait for the thread: memory does not grow if the store is slow."""


class PartWriter:
    """Compresses, writes and uploads parts in one other thread."""

    def __init__(self, store: Store, at: tuple[str, str], folder: Path) -> None:
        self._store = store
        self._at = at
        self._folder = folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="merge")
        self._pending: deque[Future[None]] = deque()
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def start(self, part: int) -> Path:
        return self._folder / f"{part:05d}"

    def add(self, path: Path, pieces: list[bytes]) -> None:
        self.beside(self._write, path, pieces)

    def finish(self, path: Path, part: int, table: RowTable) -> None:
        """The part's index goes last: it says that the part is whole."""
        self.beside(self._upload, path, part, table)

    def wait(self) -> None:
        while self._pending:
            self._pending.popleft().result()

    def beside(self, step: Callable[..., None], *arguments: Any) -> None:
        """Do this in the thread, too, after what was given to it before. What it raises, a later call raises."""
        while len(self._pending) >= _WAITING:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(step, *arguments))

    def _write(self, path: Path, pieces: list[bytes]) -> None:
        with path.open("ab") as out:
            out.write(self._compressor.compress(b"".join(pieces)))

    def _upload(self, path: Path, part: int, table: RowTable) -> None:
        self._store.put_file(keys.result_part(*self._at, part), path)
        self._store.put(keys.result_part_index(*self._at, part), pack_rows(table))
        path.unlink()
