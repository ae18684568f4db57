"""Cloud Storage as the data plane of Vertex: everything of one submission lies under `{prefix}{tag}/`.

    gs://bucket/groupage/gk3v9q2-4f7xk2m9ab3cd-r0-s7/input.jsonl
    gs://bucket/groupage/gk3v9q2-4f7xk2m9ab3cd-r0-s7/output/prediction-gemini-2.5-flash-2026-…/predictions.jsonl

Flat memory both ways: up in one resumable stream of 8 MiB pieces, on condition that there is no such object;
down in ranges of one generation, checked against its size and CRC32C (docs/cases.md RP-04).
"""

import base64
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from groupage.activities.providers.base import Submission
from groupage.activities.providers.bedrock_jobs import job_name
from groupage.activities.providers.vertex_bodies import labelled
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_data import DataObject, Json
from groupage.activities.providers.vertex_errors import translated
from groupage.activities.providers.vertex_options import VertexOptions, wrong
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import check, in_thread
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag

T = TypeVar("T")

PIECE_BYTES = 8 << 20
INPUT = "input.jsonl"
OUTPUT = "output"


class GcsData:
    """One bucket and prefix. The clients are shared with the adapter, which closes them."""

    def __init__(self, options: VertexOptions, settings: ProviderSettings, clients: Clients) -> None:
        self._root = options.data if options.data.startswith("gs://") else ""
        self._settings = settings
        self._clients = clients

    def line(self, wire_id: str, request: bytes, *, claude: bool) -> bytes:
        if claude:
            return b'{"custom_id":"%b","request":%b}\n' % (wire_id.encode(), request)
        return b'{"request":%b}\n' % labelled(wire_id, request)

    async def upload(self, submission: Submission) -> list[str]:
        if not self._root:
            raise wrong("no bucket is known: set GROUPAGE_VERTEX_DATA or the option data to gs://bucket/prefix")
        ref, path = f"{self._root}{submission.tag}/{INPUT}", submission.path
        size = path.stat().st_size
        if submission.look_since is not None:
            there = await self._call(f"look at {ref}", lambda storage: _look(storage, ref, self._timeouts()))
            if there is not None and there.size == size:
                return [ref]
        try:
            await self._transfer(f"upload of {ref}", lambda storage, stop: self._put(storage, ref, path, stop))
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise
            raise _no_bucket(ref, error) from error
        return [ref]

    def _put(self, storage: Any, ref: str, path: Path, stop: threading.Event) -> None:
        """Make the object. Where there is one of that name: it is ours and whole, or it is replaced as it was seen."""
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._put_if(storage, ref, path, 0, stop)
        except PreconditionFailed:
            there = _look(storage, ref, self._timeouts())
            if there is not None and there.size == path.stat().st_size:
                return
            self._put_if(storage, ref, path, there.generation if there is not None else 0, stop)

    def _put_if(self, storage: Any, ref: str, path: Path, generation: int, stop: threading.Event) -> None:
        bucket, key = split_ref(ref)
        blob = storage.bucket(bucket).blob(key, chunk_size=PIECE_BYTES)
        with path.open("rb") as file:
            blob.upload_from_file(
                _Watched(file, stop),
                size=path.stat().st_size,
                content_type="application/jsonl",
                if_generation_match=generation,
                timeout=self._timeouts(self._settings.transfer_timeout_s),
                retry=None,
                checksum="crc32c",
            )

    def input_config(self, files: Sequence[str]) -> Json:
        return {"instancesFormat": "jsonl", "gcsSource": {"uris": list(files)}}

    def output_config(self, submission: Submission) -> Json:
        # A folder of its own for each job of the tag: what a dead one left is not taken for the next one's.
        uri = f"{self._root}{submission.tag}/{job_name(OUTPUT, submission.not_ids)}/"
        return {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": uri}}

    async def result_files(self, job: Json) -> list[str]:
        """By listing the folder that the job names, or all that it may have made where it names none."""
        folder = (job.get("outputInfo") or {}).get("gcsOutputDirectory")
        asked = ((job.get("outputConfig") or {}).get("gcsDestination") or {}).get("outputUriPrefix")
        root = str(folder or asked or "")
        if not root.startswith("gs://"):
            return []
        found = await self._list(f"{root.rstrip('/')}/")
        return [each.ref for each in found]

    async def download(self, ref: str, path: Path) -> int:
        def get(storage: Any, stop: threading.Event) -> int:
            return download(storage, ref, path, stop, self._timeouts(self._settings.transfer_timeout_s))

        return await self._transfer(f"download of {ref}", get)

    async def delete(self, ref: str) -> None:
        bucket, key = split_ref(ref)

        def delete(storage: Any) -> None:
            storage.bucket(bucket).blob(key).delete(timeout=self._timeouts(), retry=None)

        try:
            await self._call(f"delete of {ref}", delete)
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise

    async def list_ours(self, owner: str) -> AsyncIterator[DataObject]:
        if self._root:
            for found in await self._list(f"{self._root}g{owner}-"):
                if found.tag:
                    yield found

    async def _list(self, ref: str) -> list[DataObject]:
        """Objects under a prefix, without those that stand for folders."""
        bucket, prefix = split_ref(ref)

        def look(storage: Any) -> Iterator[DataObject]:
            for blob in storage.list_blobs(bucket, prefix=prefix, timeout=self._timeouts(), retry=None):
                if not blob.name.endswith("/"):
                    name = f"gs://{bucket}/{blob.name}"
                    yield DataObject(name, self._tag_of(name), blob.time_created)

        try:
            return await self._call(f"list of {ref}", lambda storage: list(look(storage)))
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise
            raise _no_bucket(ref, error) from error

    def _tag_of(self, ref: str) -> str:
        tag = ref.removeprefix(self._root).partition("/")[0]
        return tag if decode_tag(tag) is not None else ""

    def _timeouts(self, silence_s: float | None = None) -> tuple[float, float]:
        """(to connect, longest silence)."""
        return self._settings.connect_timeout_s, silence_s or self._settings.request_timeout_s

    async def _call(self, what: str, work: Callable[[Any], T]) -> T:
        return await self._transfer(what, lambda storage, _stop: work(storage))

    async def _transfer(self, what: str, work: Callable[[Any, threading.Event], T]) -> T:
        """Work that ends soon after its activity is cancelled; its thread's end is awaited."""
        return await in_thread(lambda stop: translated(what, lambda: work(self._clients.storage(), stop)))


class _Watched:
    """A file that raises Stopped when read after its activity was cancelled."""

    def __init__(self, file: BinaryIO, stop: threading.Event) -> None:
        self._file = file
        self._stop = stop

    def read(self, size: int = -1) -> bytes:
        check(self._stop)
        return self._file.read(size)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)


def split_ref(ref: str) -> tuple[str, str]:
    """(bucket, key) of `gs://bucket/key`. Raises ValueError."""
    scheme, _, rest = ref.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "gs" or not bucket:
        raise ValueError(f"{ref!r} is not a gs:// URI")
    return bucket, key


def _no_bucket(ref: str, error: ProviderError) -> ProviderError:
    """Where an upload or a listing finds nothing, it is the bucket that is not there: a setting, not a file."""
    bucket, _ = split_ref(ref)
    return wrong(
        f"there is no bucket {bucket} (GROUPAGE_VERTEX_DATA, or the option data): make it with "
        f"`gcloud storage buckets create gs://{bucket}`, or name another one ({error})"
    )


def _look(storage: Any, ref: str, timeouts: tuple[float, float]) -> Any:
    """The object with its size and generation, or None."""
    bucket, key = split_ref(ref)
    return storage.bucket(bucket).get_blob(key, timeout=timeouts, retry=None)


def download(storage: Any, ref: str, path: Path, stop: threading.Event, timeouts: tuple[float, float]) -> int:
    """Range by range to a file; returns its size. Raises ProviderError(transient) for one cut short or changed."""
    import google_crc32c

    blob = _look(storage, ref, timeouts)
    if blob is None:
        raise ProviderError(f"{ref}: no such object", error_class=ErrorClass.missing, code="NOT_FOUND", status=404)
    checksum: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    size = 0
    with path.open("wb") as file:
        while size < blob.size:
            check(stop)
            piece = blob.download_as_bytes(
                start=size, end=min(size + PIECE_BYTES, blob.size) - 1, raw_download=True,
                if_generation_match=blob.generation, timeout=timeouts, retry=None,
            )  # fmt: skip
            if not piece:
                break
            checksum.update(piece)
            size += file.write(piece)
    if size != blob.size or (blob.crc32c and base64.b64encode(checksum.digest()).decode() != blob.crc32c):
        message = f"download of {ref}: {size} of {blob.size} bytes came, or other ones"
        raise ProviderError(message, error_class=ErrorClass.transient, code="cut_short")
    return size
