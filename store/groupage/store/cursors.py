"""Reading one shard's results from front to back, in step with the other shards."""

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import zstandard
from groupage.schemas import JobManifest
from groupage.schemas.errors import StoreError
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import Names, RowTable
from groupage.store.shard_results import ShardResults, read_shard_rows

Int64s = npt.NDArray[np.int64]


class ShardCursor:
    """A position in one shard's rows and fragments. Opened at its first use, closed at its end.

    The compressed data is copied to the local disk; of the fragments only what `take` returns is in
    memory, of the rows all (72 bytes a request of the shard).
    """

    def __init__(
        self, store: Store, manifest: JobManifest, round_: int, shard: int, *, results: ShardResults, directory: Path
    ) -> None:
        self.round = round_
        self.shard = shard
        self.results = results
        self._store = store
        self._at = (manifest.tenant, manifest.key, round_, shard)
        self._path = directory / f"{round_}-{shard}.jsonl.zst"
        self._table = RowTable(np.empty(0), [], [])
        self._position = 0
        self._stream: zstandard.ZstdDecompressionReader | None = None
        self._unread = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def done(self) -> bool:
        return self._position >= self.results.requests

    def reaches(self, end: int) -> bool:
        """Whether rows before the index `end` are left."""
        return not self.done and self.results.first_index < end

    def rows_before(self, end: int, codes: Names, models: Names) -> RowTable:
        """The next rows, up to the index `end`; their texts are numbered as in `codes` and `models`.

        Their fragments must be taken or skipped before the next call.
        """
        self._open(codes, models)
        rows = self._table.rows
        start = self._position
        self._position = start + int(np.searchsorted(rows["index"][start:], end))
        return RowTable(rows[start : self._position], codes.texts, models.texts)

    def take(self, size: int) -> bytes:
        """The next `size` bytes of fragments."""
        stream = self._stream_of_data()
        while self._unread:
            self._unread -= len(self._read(stream, min(self._unread, 1 << 20)))
        return self._read(stream, size)

    def skip(self, size: int) -> None:
        self._unread += size

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()  # type: ignore[no-untyped-call]
            self._stream = None
        self._path.unlink(missing_ok=True)
        self._table = RowTable(np.empty(0), [], [])

    def _open(self, codes: Names, models: Names) -> None:
        if len(self._table.rows):
            return
        table = read_shard_rows(self._store, *self._at)
        if table is None:
            raise StoreError(f"the results of shard {self.round}-{self.shard} have gone from {self._store.url}")
        rows = table.rows.copy()
        rows["code"] = codes.codes_of(table.codes)[rows["code"]]
        rows["model"] = models.codes_of(table.models)[rows["model"]]
        self._table = RowTable(rows, codes.texts, models.texts)

    def _stream_of_data(self) -> zstandard.ZstdDecompressionReader:
        if self._stream is None:
            self._store.get_to_file(keys.shard_results_data(*self._at, self.results.name), self._path)
            # closefd: the reader closes the file with itself.
            self._stream = zstandard.ZstdDecompressor().stream_reader(
                self._path.open("rb"), read_across_frames=True, closefd=True
            )
        return self._stream

    def _read(self, stream: zstandard.ZstdDecompressionReader, size: int) -> bytes:
        try:
            data = stream.read(size)
            while len(data) < size:
                more = stream.read(size - len(data))
                if not more:
                    raise StoreError(
                        f"the results of shard {self.round}-{self.shard} in {self._store.url} end too early",
                        hint="delete the shard's results.json and collect it again",
                    )
                data += more
        except zstandard.ZstdError as error:
            raise StoreError(f"the results of shard {self.round}-{self.shard} are damaged: {error}") from error
        return data
