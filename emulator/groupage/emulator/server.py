"""The emulator over loopback HTTP: one ASGI application, uvicorn, one event loop."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import orjson
import uvicorn
from groupage.emulator import admin, anthropic, azure, bedrock, compatible, gemini, openai, vertex
from groupage.emulator.calls import TRANSPORT
from groupage.emulator.core import Emulator
from groupage.emulator.faults import FaultPlan
from groupage.emulator.settings import Settings
from groupage.emulator.vertex import bigquery
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Protocol(HttpToolsProtocol):
    """Hands the connection to the application, so that the fault plan can cut it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[TRANSPORT] = self.transport


def build_app(core: Emulator) -> Starlette:
    """All provider APIs and the admin API on one core."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        core.start()
        yield
        await core.close()

    providers = [*openai.routes(core), *anthropic.routes(core), *bedrock.routes(core), *gemini.routes(core)]
    providers += [*vertex.routes(core), *bigquery.routes(core)]
    providers += azure.routes(core)
    providers += compatible.routes(core)
    return Starlette(routes=[*providers, *admin.routes(core)], lifespan=lifespan)


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_listening()


async def run(settings: Settings, plan: FaultPlan | None, on_listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_listening` gets the base URL, `/v1` included."""
    listener = socket.create_server((settings.host, settings.port), backlog=1024)
    port = listener.getsockname()[1]
    core = Emulator(settings, plan)
    config = uvicorn.Config(
        build_app(core),
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        # Where a provider's clock is looked at, its API tells the emulator's own.
        date_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
    )
    server = _Server(config, lambda: on_listening(f"http://{settings.host}:{port}/v1"))
    await server.serve(sockets=[listener])


def serve(settings: Settings, plan: FaultPlan | None = None, on_listening: Callable[[str], None] | None = None) -> None:
    """Run until SIGTERM or Ctrl-C. Raises StateInUse, BadPlan, OSError (port taken) before it listens."""
    import uvloop

    announce = on_listening or print_listening
    # uvicorn re-raises the signal that ended it; ending on request is no error.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings, plan, announce))


def print_listening(base_url: str) -> None:
    """One JSON line on stdout: {"base_url": "http://127.0.0.1:P/v1", "pid": N}."""
    sys.stdout.write(orjson.dumps({"base_url": base_url, "pid": os.getpid()}).decode() + "\n")
    sys.stdout.flush()
