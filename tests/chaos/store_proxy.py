"""A proxy before an object store, on which the fault plan's rules for files strike: for providers whose files lie there.

The emulator never sees those calls. Workers are given the proxy's address, harness and emulator the store's own. One
request a connection, so that only its head has to be understood; bytes go through as they are.
"""

import asyncio
import contextlib
import re
import socket
import struct
from collections import Counter
from typing import Any

from groupage.emulator.faults import CallRule, FaultPlan

CHUNK_BYTES = 1 << 16
TRICKLE_PIECES = 8
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
ACTIONS = frozenset({"drop_before", "drop_after", "slow", "trickle", "cut", "cut_clean"})
"""A body whose length was told cannot be cut cleanly: `cut_clean` is `cut` here."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def call_of(method: str, target: str) -> str:
    """What the same thing is called at other providers; "" for the rest (listings, heads, deletions)."""
    path, _, query = target.partition("?")
    if (method == "PUT" and path.endswith("/input.jsonl") and not query) or (method == "POST" and "/upload/" in path):
        return "files.create"
    content = "alt=media" in query or not path.startswith(("/storage/", "/download/"))
    return "files.content" if method == "GET" and content and "/output" in path.replace("%2F", "/") else ""


class StoreProxy:
    """`calls` counts what came by since `begin`."""

    def __init__(self, endpoint: str) -> None:
        self._host, port = endpoint.removeprefix("http://").split(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._struck: Counter[int] = Counter()
        self._rules: list[CallRule] = []
        self.calls: Counter[str] = Counter()
        self.endpoint = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._host, 0)
        self.endpoint = f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def begin(self, plan: dict[str, Any]) -> None:
        rules = FaultPlan.model_validate(plan).calls
        self._rules = [rule for rule in rules if rule.call.startswith("files.") and rule.action in ACTIONS]
        self._struck.clear()
        self.calls.clear()

    def _rule(self, name: str) -> CallRule | None:
        for at, rule in enumerate(self._rules):
            if rule.call == name and (rule.times is None or self._struck[at] < rule.times):
                self._struck[at] += 1
                return rule
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        sending: asyncio.Task[None] | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
            name = call_of(method, target)
            self.calls[name] += 1
            rule = self._rule(name)
            if rule is not None and rule.action == "drop_before":
                _reset(writer)
                return
            replies, upstream = await asyncio.open_connection(self._host, self._port)
            upstream.write(_closing(head))
            sending = asyncio.create_task(_copy(reader, upstream))
            await self._reply(replies, writer, rule)
        except (asyncio.IncompleteReadError, ConnectionError):
            # One of the two has gone: so does the other's connection.
            pass
        finally:
            if sending is not None:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await sending
            for one in (upstream, writer):
                if one is not None:
                    one.transport.abort()

    async def _reply(self, replies: asyncio.StreamReader, writer: asyncio.StreamWriter, rule: CallRule | None) -> None:
        head = await replies.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            writer.write(head)
            head = await replies.readuntil(b"\r\n\r\n")
        action, seconds = (rule.action, rule.seconds.total_seconds()) if rule else ("", 0.0)
        if action == "drop_after":
            _reset(writer)
            return
        if action == "slow":
            await asyncio.sleep(seconds)
        writer.write(head)
        length = _LENGTH.search(head)
        left = int(length[1]) if length else None
        if rule is not None and action.startswith("cut") and left:
            writer.write(await replies.readexactly(int(left * rule.at)))
            await writer.drain()
            _reset(writer)
            return
        pieces = TRICKLE_PIECES if action == "trickle" and left else 0
        size = max(1, -(-left // pieces)) if pieces and left else CHUNK_BYTES
        while data := await replies.read(size):
            writer.write(data)
            await writer.drain()
            if pieces:
                await asyncio.sleep(seconds / pieces)
        # All of it is on its way before the connection goes.
        writer.close()
        await writer.wait_closed()


def _reset(writer: asyncio.StreamWriter) -> None:
    """The connection's end will be a reset, not an orderly one."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _closing(head: bytes) -> bytes:
    """One request a connection; the header is in no signature."""
    return _CONNECTION.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
