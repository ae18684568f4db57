"""Files on their way to and from an OpenAI-shaped server, in flat memory.

Up: the SDK streams an open file object in 64 KiB pieces with a Content-Length; given a path it would read
the whole file into memory first (openai 3.57, `_files.py`). Down: the body's raw bytes are taken as they
come, unzipped here if need be, never decoded to text (docs/cases.md RP-20), and a body that ends early is an
error (RP-04).
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupage.activities.providers.early_refusals import PATIENCE_S, of_its_size
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

WRITE_BYTES = 1 << 20
"""Bytes gathered before a thread writes them: fewer hops, and a slow disk does not stop the event loop."""


Call = Callable[[str, Awaitable[Any]], Awaitable[dict[str, Any]]]
"""What is tried, and a request of the SDK's, to the JSON object of the answer. Raises ProviderError."""


async def send_file(
    client: "AsyncOpenAI", call: Call, path: Path, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Upload a batch's input; returns the file object. `options`: of the SDK's call, a timeout among them."""
    what = f"upload of {name}"
    try:
        # Opened by us and handed over open: a path would be read into memory whole.
        with path.open("rb") as content:
            file: Any = (name, content, "application/jsonl")
            return await call(what, client.files.with_raw_response.create(file=file, purpose="batch", **options))
    except ProviderError as error:
        import httpx2

        size = await asyncio.to_thread(lambda: path.stat().st_size)
        # The SDK takes no body of ours as multipart; none of it is sent anyway.
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        timeout = httpx2.Timeout(PATIENCE_S, connect=options["timeout"].connect)
        announced: Any = {"headers": headers, "timeout": timeout, "security": {"bearer_auth": True}}

        def announce(body: AsyncIterator[bytes]) -> Awaitable[Any]:
            return call(what, client.post("/files", cast_to=httpx2.Response, content=body, options=announced))

        failed = await of_its_size(error, size, announce)
        if failed is error:
            raise
        raise failed from error


class _Body:
    """Bytes as they came to bytes as they are meant: identity, or gzip of one member or several (RFC 1952, 2.2)."""

    def __init__(self, encoding: str) -> None:
        self._gzip = _member() if encoding in {"gzip", "x-gzip"} else None
        self.known = self._gzip is not None or encoding in {"", "identity"}

    def decode(self, chunk: bytes) -> bytes:
        if self._gzip is None:
            return chunk
        decoded = b""
        while chunk:
            if self._gzip.eof:
                chunk = chunk.lstrip(b"\0")  # what some writers pad with
                if not chunk:
                    break
                self._gzip = _member()
            decoded += self._gzip.decompress(chunk)
            chunk = self._gzip.unused_data
        return decoded

    def rest(self) -> bytes:
        return self._gzip.flush() if self._gzip else b""

    @property
    def whole(self) -> bool:
        return self._gzip is None or self._gzip.eof


def _member() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=31)


async def save_body(response: "httpx2.Response", path: Path, what: str) -> int:
    """Stream a response's body to `path`; returns the bytes written. Raises ProviderError(transient) if cut."""
    body = _Body(response.headers.get("content-encoding", "").strip().lower())
    if not body.known:
        raise _cut(what, f"content-encoding {response.headers['content-encoding']!r} was not asked for")
    size, received = 0, 0
    pending = bytearray()
    with path.open("wb") as file:
        async for chunk in response.aiter_raw():
            received += len(chunk)
            try:
                pending += body.decode(chunk)
            except zlib.error as error:
                raise _cut(what, f"the gzip stream is damaged: {error}") from error
            if len(pending) >= WRITE_BYTES:
                size += await asyncio.to_thread(file.write, pending)
                pending = bytearray()
        pending += body.rest()
        size += await asyncio.to_thread(file.write, pending)
    promised = response.headers.get("content-length")
    if promised is not None and promised.isdigit() and int(promised) != received:
        raise _cut(what, f"{received} of {promised} bytes came")
    if not body.whole:
        raise _cut(what, "the gzip stream ends early")
    return size


def _cut(what: str, detail: str) -> ProviderError:
    return ProviderError(f"{what}: {detail}", error_class=ErrorClass.transient, code="cut_short")


def file_name(tag: str) -> str:
    """The name by which an input file is found again."""
    return f"{tag}.jsonl"


def tag_of_file(file: dict[str, Any]) -> str:
    """The tag in a file's name, or "" for a file that is not an input of ours."""
    name = file.get("filename")
    return name.removesuffix(".jsonl") if isinstance(name, str) and name.endswith(".jsonl") else ""
