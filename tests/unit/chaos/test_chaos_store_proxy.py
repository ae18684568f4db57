"""The proxy that stands before an object store in the chaos runs: what the plan says of files befalls its calls."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.chaos.store_proxy import StoreProxy, call_of

UPLOAD, RESULTS = "/groupage/lane-1/gx-r0-s0/input.jsonl", "/groupage/lane-1/gx-r0-s0/output/j/input.jsonl.out"
BODY = b"x" * 5000


class Upstream:
    """Answers each request with BODY; `done` are the requests whose body has come whole."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert "connection: close" in head
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        await reader.readexactly(size)
        self.done.append((head.split()[0], size))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(BODY), BODY))
        await writer.drain()
        writer.close()


Ask = Callable[[str, str], Awaitable[bytes]]


@pytest.fixture
async def upstream() -> AsyncIterator[tuple[Upstream, StoreProxy, Ask]]:
    behind = Upstream()
    server = await asyncio.start_server(behind.serve, "127.0.0.1", 0)
    proxy = StoreProxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await proxy.start()
    proxy.begin({})

    async def ask(method: str, target: str) -> bytes:
        """The reply's body. Raises ConnectionError where the connection is reset before its end."""
        reader, writer = await asyncio.open_connection(*proxy.endpoint.removeprefix("http://").split(":"))
        try:
            sent = BODY if method == "PUT" else b""
            writer.write(
                f"{method} {target} HTTP/1.1\r\nHost: s3\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent
            )
            return (await reader.read()).partition(b"\r\n\r\n")[2] if await writer.drain() is None else b""
        finally:
            writer.transport.abort()

    yield behind, proxy, ask
    await proxy.stop()
    server.close()


def rule(**said: object) -> dict[str, object]:
    return {"calls": [{"times": 1, **said}]}


async def test_what_no_rule_names_goes_through_untouched(upstream):
    behind, proxy, ask = upstream
    proxy.begin(rule(call="batches.create", action="drop_after"))
    assert await ask("PUT", UPLOAD) == BODY
    assert await ask("GET", RESULTS) == BODY
    assert behind.done == [("put", len(BODY)), ("get", 0)]
    assert proxy.calls == {"files.create": 1, "files.content": 1}


async def test_a_lost_reply_is_one_to_a_call_that_was_done(upstream):
    behind, proxy, ask = upstream
    proxy.begin(rule(call="files.create", action="drop_after"))
    with pytest.raises(ConnectionError):
        await ask("PUT", UPLOAD)
    assert behind.done == [("put", len(BODY))]
    assert await ask("PUT", UPLOAD) == BODY, "once is once"


async def test_a_dropped_call_was_not_done(upstream):
    behind, proxy, ask = upstream
    proxy.begin(rule(call="files.create", action="drop_before"))
    with pytest.raises(ConnectionError):
        await ask("PUT", UPLOAD)
    assert behind.done == []


@pytest.mark.parametrize("action", ["cut", "cut_clean"])
async def test_a_cut_download_ends_before_its_length(upstream, action):
    _, proxy, ask = upstream
    proxy.begin(rule(call="files.content", action=action, at=0.5))
    with pytest.raises(ConnectionError):
        await ask("GET", RESULTS)
    assert await ask("GET", RESULTS) == BODY


@pytest.mark.parametrize(("call", "action"), [("files.create", "slow"), ("files.content", "trickle")])
async def test_slow_calls_take_their_time_and_are_whole(upstream, call, action):
    _, proxy, ask = upstream
    proxy.begin(rule(call=call, action=action, seconds="300ms"))
    began = time.monotonic()
    assert await ask(*(("PUT", UPLOAD) if call == "files.create" else ("GET", RESULTS))) == BODY
    assert time.monotonic() - began >= 0.25


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("PUT", UPLOAD, "files.create"),
        ("GET", RESULTS, "files.content"),
        ("HEAD", RESULTS, ""),
        ("GET", "/groupage?list-type=2&prefix=lane-1%2Fgx-r0-s0%2Foutput%2F", ""),
        ("DELETE", UPLOAD, ""),
        ("POST", "/upload/storage/v1/b/groupage/o?uploadType=multipart", "files.create"),
        ("GET", "/download/storage/v1/b/groupage/o/lane-1%2Fgx%2Foutput%2Fp.jsonl?alt=media", "files.content"),
        ("GET", "/storage/v1/b/groupage/o/lane-1%2Fgx%2Foutput%2Fp.jsonl?projection=noAcl", ""),
        ("GET", "/storage/v1/b/groupage/o?prefix=lane-1%2Fgx%2Foutput%2F", ""),
    ],
)
def test_calls_have_the_names_of_other_providers(method, target, name):
    assert call_of(method, target) == name
