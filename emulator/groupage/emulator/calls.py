"""One HTTP call: count it, know the caller, let the fault plan strike, answer.

Shared by all provider APIs; each brings its handlers and the shape of its errors.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.clock import Clock
from groupage.emulator.core import Emulator
from groupage.emulator.faults import CallRule
from groupage.emulator.outcomes import http_error
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

CHUNK_BYTES = 512 * 1024
TRICKLE_PIECES = 8
PAUSE_LOOK_S = 0.05
"""How often who waits looks whether the clock was moved on."""
TRANSPORT = "groupage.transport"
"""Where `server.Protocol` leaves the connection, so that a fault can cut it."""

_GATEWAY_PAGE = b"<html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>"


@dataclass(slots=True)
class FileSpan:
    """Bytes of a file, from `start` to before `end`."""

    path: Path
    start: int
    end: int


@dataclass(slots=True)
class Reply:
    status: int = 200
    body: bytes | FileSpan = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    @property
    def size(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else self.body.end - self.body.start


class ApiError(Exception):
    """An HTTP error in the provider's shape."""

    def __init__(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} {body}")
        self.reply = json_reply(body, status, headers)


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, orjson.dumps(value), dict(headers or {}))


@dataclass(slots=True)
class Call:
    """What a handler gets. `lag_s`: what it creates must stay invisible for so long (virtual seconds)."""

    core: Emulator
    request: Request
    account: str
    lag_s: float = 0.0
    billed_for_nothing: bool = False
    """The plan loses this call's reply: what it bills has no reader."""

    async def json(self) -> dict[str, Any]:
        """The body as an object. Raises ApiError 400."""
        try:
            value = orjson.loads(await self.request.body())
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise ApiError(400, http_error(400, "invalid_json", "We could not parse the JSON body of your request."))
        return value


Handler = Callable[[Call], Awaitable[Reply]]
Authenticate = Callable[[Request, Emulator], str]
ErrorBody = Callable[[int, str | None, str | None], dict[str, Any]]
"""(status, code, message) to an error object in the provider's shape."""


class Endpoint:
    """An ASGI application for one named call."""

    def __init__(
        self,
        core: Emulator,
        name: str,
        handler: Handler,
        authenticate: Authenticate,
        error_body: ErrorBody = http_error,
    ) -> None:
        self.core, self.name, self.handler, self.authenticate = core, name, handler, authenticate
        self.error_body = error_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        core = self.core
        core.calls[self.name] += 1
        rule = core.strikes.call(self.name) if core.strikes.plan.calls else None
        if rule is not None and rule.action == "drop_before":
            return await _drop(scope, receive)
        try:
            reply = await self._reply(Request(scope, receive, send), rule)
        except ClientDisconnect:
            return None
        if rule is not None:
            if rule.action == "drop_after":
                return await _drop(scope, receive)
            if rule.action == "slow":
                await _pause(core.clock, rule.seconds.total_seconds())
            if rule.action == "error_after":
                reply = self._rule_reply(rule)
            if rule.action == "content_type":
                reply.content_type = rule.content_type
            if rule.action in ("cut", "cut_clean"):
                return await _send_cut(scope, receive, send, reply, rule)
            if rule.action == "trickle":
                return await _send_slowly(send, reply, core.clock.real_seconds(rule.seconds.total_seconds()))
        return await send_reply(send, reply)

    async def _reply(self, request: Request, rule: CallRule | None) -> Reply:
        if rule is not None and rule.action in ("error", "html"):
            # The body is read first: a gateway that answers early would reset the connection.
            async for _ in request.stream():
                pass
            return self._rule_reply(rule) if rule.action == "error" else Reply(200, _GATEWAY_PAGE, {}, "text/html")
        if rule is not None and rule.action == "late":
            # Read now: what has arrived is worked on although the connection is gone by then.
            await request.body()
            await _pause(self.core.clock, rule.seconds.total_seconds())
        lag_s = rule.seconds.total_seconds() if rule is not None and rule.action == "lag" else 0.0
        try:
            account = self.authenticate(request, self.core)
            lost = rule is not None and rule.action in ("drop_after", "error_after")
            return await self.handler(Call(self.core, request, account, lag_s, lost))
        except ApiError as error:
            return error.reply

    def _rule_reply(self, rule: CallRule) -> Reply:
        headers = {} if rule.retry_after is None else {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(self.error_body(rule.status, rule.code, rule.message), rule.status, headers)


async def _pause(clock: Clock, seconds: float) -> None:
    """Return when so many virtual seconds are over: sooner where the clock is moved on meanwhile."""
    until = clock.now() + seconds
    while (left := until - clock.now()) > 0:  # noqa: ASYNC110  # a wait for the clock, which has no event
        await asyncio.sleep(min(clock.real_seconds(left), PAUSE_LOOK_S))


def router(
    core: Emulator, prefix: str, authenticate: Authenticate, error_body: ErrorBody = http_error
) -> Callable[[str, str, str, Handler], Route]:
    """Makes routes of (method, path behind the prefix, name of the call, handler)."""

    def route(method: str, path: str, name: str, handler: Handler) -> Route:
        return Route(prefix + path, Endpoint(core, name, handler, authenticate, error_body), methods=[method])

    return route


async def send_reply(send: Send, reply: Reply) -> None:
    await _start(send, reply, reply.size)
    if isinstance(reply.body, bytes):
        await send({"type": "http.response.body", "body": reply.body})
        return
    async for chunk in _chunks(reply.body):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, reply: Reply, size: int | None) -> None:
    headers = [(b"content-type", reply.content_type.encode())]
    if size is not None:
        headers.append((b"content-length", b"%d" % size))
    headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})


async def _chunks(span: FileSpan) -> AsyncIterator[bytes]:
    """Read in the event loop's thread: the pages are in memory, and a hop to a thread costs more."""
    with span.path.open("rb") as file:
        file.seek(span.start)
        left = span.end - span.start
        while left:
            chunk = file.read(min(CHUNK_BYTES, left))
            if not chunk:
                break
            left -= len(chunk)
            yield chunk


async def _send_slowly(send: Send, reply: Reply, seconds: float) -> None:
    data = _whole(reply.body)
    size = -(-len(data) // TRICKLE_PIECES) or 1
    await _start(send, reply, len(data))
    for at in range(0, len(data), size):
        if at:
            await asyncio.sleep(seconds / (TRICKLE_PIECES - 1))
        await send({"type": "http.response.body", "body": data[at : at + size], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _whole(body: bytes | FileSpan) -> bytes:
    return body.path.read_bytes()[body.start : body.end] if isinstance(body, FileSpan) else body


async def _send_cut(scope: Scope, receive: Receive, send: Send, reply: Reply, rule: CallRule) -> None:
    data = _whole(reply.body)
    kept = data[: int(len(data) * rule.at)]
    if rule.action == "cut":
        # In mid-line, even where the share happens to end at a line's end.
        await _start(send, reply, len(data))
        await send({"type": "http.response.body", "body": kept.rstrip(b"\n"), "more_body": True})
        return await _hang_up(scope, receive)
    if rule.line_end:
        kept = kept[: kept.rfind(b"\n") + 1]
    await _start(send, reply, None)
    return await send({"type": "http.response.body", "body": kept})


async def _drop(scope: Scope, receive: Receive) -> None:
    scope[TRANSPORT].abort()
    await _until_gone(receive)


async def _hang_up(scope: Scope, receive: Receive) -> None:
    """Close after what was written has gone out."""
    scope[TRANSPORT].close()
    await _until_gone(receive)


async def _until_gone(receive: Receive) -> None:
    # Returning earlier would make the server answer 500 on a connection that is not closed yet.
    while (await receive())["type"] != "http.disconnect":
        pass
