"""Servers that speak OpenAI's dialect with differences, each under `/flavours/{name}/v1`."""

from groupage.emulator.calls import router
from groupage.emulator.compatible.flavours import FLAVOURS, Flavour
from groupage.emulator.compatible.handlers import Handlers
from groupage.emulator.core import Emulator
from groupage.emulator.openai import files, sync
from groupage.emulator.openai.accounts import authenticate
from groupage.emulator.sync_calls import Limiter
from starlette.requests import Request
from starlette.routing import BaseRoute


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits all."""
    limiter = Limiter(core)
    return [route for flavour in FLAVOURS for route in _routes(core, flavour, limiter)]


def _routes(core: Emulator, flavour: Flavour, limiter: Limiter) -> list[BaseRoute]:
    def account(request: Request, core: Emulator) -> str:
        # The same key at two servers is two accounts.
        return f"{flavour.name}-{authenticate(request, core)}"

    route = router(core, f"/flavours/{flavour.name}/v1", account)
    own = Handlers(flavour)
    answering = [
        route("POST", endpoint.removeprefix("/v1"), "sync", sync.handler(endpoint, limiter))
        for endpoint in flavour.endpoints
    ]
    return [
        *answering,
        route("POST", "/files", "files.create", own.create_file),
        route("GET", "/files", "files.list", own.list_files),
        route("GET", "/files/{file_id}", "files.retrieve", own.retrieve_file),
        route("DELETE", "/files/{file_id}", "files.delete", files.delete),
        route("GET", "/files/{file_id}/content", "files.content", files.content),
        route("POST", "/batches", "batches.create", own.create_batch),
        route("GET", "/batches", "batches.list", own.list_batches),
        route("GET", "/batches/{batch_id}", "batches.retrieve", own.retrieve_batch),
        route("POST", "/batches/{batch_id}/cancel", "batches.cancel", own.cancel_batch),
    ]
