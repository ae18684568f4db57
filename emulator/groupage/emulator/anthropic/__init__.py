"""Anthropic's message batches and messages, as the official SDK expects them."""

from groupage.emulator.anthropic import batches, sync
from groupage.emulator.anthropic.accounts import authenticate
from groupage.emulator.anthropic.errors import error_of
from groupage.emulator.calls import router
from groupage.emulator.core import Emulator
from starlette.routing import BaseRoute


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits both.

    Results are `files.content`, deleting a batch is `files.delete`.
    """
    route = router(core, "/v1/messages", authenticate, error_of)
    return [
        route("POST", "/batches", "batches.create", batches.create),
        route("GET", "/batches", "batches.list", batches.list_),
        route("GET", "/batches/{batch_id}", "batches.retrieve", batches.retrieve),
        route("DELETE", "/batches/{batch_id}", "files.delete", batches.delete),
        route("POST", "/batches/{batch_id}/cancel", "batches.cancel", batches.cancel),
        route("GET", "/batches/{batch_id}/results", "files.content", batches.results),
        route("POST", "", "sync", sync.handler(core)),
    ]
