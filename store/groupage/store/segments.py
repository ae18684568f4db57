"""Requests as accepted: segments of canonical lines, and the reader of them.

A canonical line is `{"id":<json string>,"endpoint":"...","labels":{...},"body":{...}}` and a newline;
`labels` is left out where there are none. A rejected input line has a line too (so that every index
has an id to be joined with); its row says so.
"""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import orjson
import zstandard
from groupage.schemas import JobManifest, Rejected
from groupage.schemas.errors import StoreError, UnknownJob
from groupage.store import keys
from groupage.store.objects import ObjectMissing, Store
from groupage.store.rows import REJECTED, REQUEST_ROW, Indices, Rows

ID_AT = 6
"""Where the id's JSON starts: after `{"id":`."""
ENDPOINT_MARK = b',"endpoint":'
"""Ends the id. It cannot occur inside: a quote inside a JSON string has a backslash before it."""


@dataclass(slots=True)
class StoredRequest:
    """One accepted request. `id_json` and `body` are JSON as bytes; `group` is a position in manifest.groups."""

    index: int
    line: int
    id_json: bytes
    body: bytes
    group: int
    tokens: int

    @property
    def id(self) -> str:
        text: str = orjson.loads(self.id_json)
        return text


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment in memory (some 8 MiB). `starts[k]` is where request `first + k` starts in `data`."""

    first: int
    rows: Rows
    starts: npt.NDArray[np.int64]
    data: bytes

    def __len__(self) -> int:
        return len(self.rows)

    def requests(self, offsets: npt.NDArray[np.int64]) -> Iterator[StoredRequest]:
        """The requests at offsets from `first`. A rejected line's `group` is REJECTED."""
        data, first, rows = self.data, self.first, self.rows[offsets]
        starts = self.starts[offsets]
        for offset, start, end, line, body_at, group, tokens in zip(
            offsets.tolist(),
            starts.tolist(),
            (starts + rows["size"]).tolist(),
            rows["line"].tolist(),
            rows["body_at"].tolist(),
            rows["group"].tolist(),
            rows["tokens"].tolist(),
            strict=True,
        ):
            id_json = data[start + ID_AT : data.index(ENDPOINT_MARK, start, end)]
            yield StoredRequest(first + offset, line, id_json, data[start + body_at : end - 2], group, tokens)

    def bodies(self, offsets: npt.NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
        """(index, body) at offsets from `first`: what rendering needs, at a third of the cost of `requests`."""
        data, rows, starts = self.data, self.rows[offsets], self.starts[offsets]
        begins, ends = starts + rows["body_at"], starts + rows["size"] - 2
        for index, begin, end in zip((offsets + self.first).tolist(), begins.tolist(), ends.tolist(), strict=True):
            yield index, data[begin:end]

    def request(self, index: int) -> StoredRequest:
        """The request at an index of the job."""
        return next(self.requests(np.array([index - self.first])))


def read_manifest(store: Store, tenant: str, key: str) -> JobManifest:
    """Raises UnknownJob where no such job was accepted."""
    manifest = read_manifest_or_none(store, tenant, key)
    if manifest is None:
        raise UnknownJob(f"there is no job {key!r} of tenant {tenant!r} in {store.url}")
    return manifest


def read_manifest_or_none(store: Store, tenant: str, key: str) -> JobManifest | None:
    return store.get_message_or_none(keys.manifest(tenant, key), JobManifest)


class SegmentReader:
    """Reads a job's requests, one segment in memory at a time (`cache` of them for random access)."""

    def __init__(self, store: Store, manifest: JobManifest, *, cache: int = 1) -> None:
        self.store = store
        self.manifest = manifest
        self.starts = [0, *accumulate(segment.requests for segment in manifest.segments)]
        """First index of each segment, and the number of requests at the end."""
        self._cache: dict[int, Segment] = {}
        self._keep = max(1, cache)

    def segment_of(self, index: int) -> int:
        """The segment's number. Raises IndexError for an index outside the job."""
        if not 0 <= index < self.starts[-1]:
            raise IndexError(f"the job has no request {index}")
        return bisect.bisect_right(self.starts, index) - 1

    def rows(self, segment: int) -> Rows:
        """A segment's index rows (REQUEST_ROW), without its bodies."""
        key = keys.segment_index(self.manifest.tenant, self.manifest.key, segment)
        data = self._get(key)
        expected = self.manifest.segments[segment].requests
        if len(data) != expected * REQUEST_ROW.itemsize:
            raise StoreError(f"{key} is damaged: {len(data)} bytes, not those of {expected} requests")
        return np.frombuffer(data, dtype=REQUEST_ROW)

    def segment(self, number: int) -> Segment:
        found = self._cache.pop(number, None)
        if found is None:
            while len(self._cache) >= self._keep:
                del self._cache[next(iter(self._cache))]
            found = self._load(number)
        self._cache[number] = found
        return found

    def request(self, index: int) -> StoredRequest:
        return self.segment(self.segment_of(index)).request(index)

    def requests(self, indices: Indices | None = None) -> Iterator[StoredRequest]:
        """Requests at sorted indices, or all that are not rejected. Each segment is read once."""
        if indices is None:
            for number in range(len(self.manifest.segments)):
                segment = self.segment(number)
                yield from segment.requests(np.flatnonzero(segment.rows["group"] != REJECTED))
            return
        for segment, offsets in self._by_segment(indices):
            yield from segment.requests(offsets)

    def bodies(self, indices: Indices) -> Iterator[tuple[int, bytes]]:
        """(index, body) of the requests at sorted indices. Each segment is read once."""
        for segment, offsets in self._by_segment(indices):
            yield from segment.bodies(offsets)

    def _by_segment(self, indices: Indices) -> Iterator[tuple[Segment, npt.NDArray[np.int64]]]:
        at = 0
        while at < len(indices):
            number = self.segment_of(int(indices[at]))
            end = int(np.searchsorted(indices, self.starts[number + 1]))
            segment = self.segment(number)
            yield segment, indices[at:end].astype(np.int64) - segment.first
            at = end

    def rejected(self) -> Iterator[Rejected]:
        """The input lines that cannot be sent, by index."""
        if self.manifest.rejected:
            key = keys.rejected(self.manifest.tenant, self.manifest.key)
            yield from parse_rejected(self.store.stream(key), key)

    def _get(self, key: str) -> bytes:
        try:
            return self.store.get(key)
        except ObjectMissing as error:
            raise StoreError(
                f"{key} is missing in {self.store.url}: the job was accepted but not all of it was stored",
                hint="submit the same input under the same key again: what is missing is put there",
            ) from error

    def _load(self, number: int) -> Segment:
        rows = self.rows(number)
        key = keys.segment_data(self.manifest.tenant, self.manifest.key, number)
        size = self.manifest.segments[number].bytes
        try:
            data = zstandard.ZstdDecompressor().decompress(self._get(key), max_output_size=max(size, 1))
        except zstandard.ZstdError as error:
            raise StoreError(f"{key} is damaged: {error}") from error
        ends = np.cumsum(rows["size"], dtype=np.int64)
        if len(data) != size or (len(ends) and int(ends[-1]) != size):
            raise StoreError(f"{key} is damaged: {len(data)} bytes, not {size}")
        return Segment(self.starts[number], rows, ends - rows["size"], data)


def parse_rejected(chunks: Iterator[bytes], name: str) -> Iterator[Rejected]:
    """Rows of a compressed rejected.jsonl, streaming."""
    for line in zstd_lines(chunks, name):
        yield Rejected.model_validate_json(line)


def zstd_lines(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Lines (newline included) of a zstd stream of any number of frames. Splits on 0x0A only."""
    rest = b""
    for data in zstd_chunks(chunks, name):
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest += data
            continue
        block = rest + data[:cut]
        rest = data[cut:]
        start = 0
        while start < len(block):
            end = block.index(b"\n", start) + 1
            yield block[start:end]
            start = end
    if rest:
        raise StoreError(f"{name} is damaged: its last line has no end")


def zstd_chunks(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Decompressed pieces of a zstd stream of any number of frames. Raises StoreError where it is cut."""
    decompressor = zstandard.ZstdDecompressor()
    frame = None
    try:
        for chunk in chunks:
            left = chunk
            while left:
                frame = frame or decompressor.decompressobj()
                data = frame.decompress(left)
                if data:
                    yield data
                left = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    except zstandard.ZstdError as error:
        raise StoreError(f"{name} is damaged: {error}") from error
    if frame is not None:
        raise StoreError(f"{name} is damaged: it ends in the middle")
