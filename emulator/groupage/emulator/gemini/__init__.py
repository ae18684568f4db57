"""The Gemini API: files, batches, generateContent and embedContent, all under /v1beta."""

from groupage.emulator.calls import Authenticate, Endpoint, Handler, router
from groupage.emulator.core import Emulator
from groupage.emulator.gemini import batches, files, sync
from groupage.emulator.gemini.accounts import authenticate, by_upload
from groupage.emulator.gemini.errors import error_of
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits both.

    Deleting a batch is `files.delete`.
    """
    route = router(core, "/v1beta/", authenticate, error_of)
    answer = sync.handler(core)
    return [
        Route("/upload/v1beta/files", _Upload(core), methods=["POST"]),
        route("GET", "files", "files.list", files.list_),
        route("GET", "files/{file}:download", "files.content", files.content),
        route("GET", "files/{file}", "files.retrieve", files.retrieve),
        route("DELETE", "files/{file}", "files.delete", files.delete),
        route("POST", "models/{model}:batchGenerateContent", "batches.create", batches.create),
        route("POST", "models/{model}:asyncBatchEmbedContent", "batches.create", batches.create_embeddings),
        route("POST", "models/{model}:generateContent", "sync", answer),
        route("POST", "models/{model}:embedContent", "sync", answer),
        route("GET", "batches", "batches.list", batches.list_),
        route("GET", "batches/{batch}", "batches.retrieve", batches.retrieve),
        route("POST", "batches/{batch}:cancel", "batches.cancel", batches.cancel),
        route("DELETE", "batches/{batch}", "files.delete", batches.delete),
    ]


class _Upload:
    """One address for all steps of an upload; the last one is what other providers call files.create."""

    def __init__(self, core: Emulator) -> None:
        def endpoint(name: str, handler: Handler, who: Authenticate) -> Endpoint:
            return Endpoint(core, name, handler, who, error_of)

        self._start = endpoint("uploads.create", files.start, authenticate)
        self._piece = endpoint("uploads.part", files.piece, by_upload)
        self._last = endpoint("files.create", files.piece, by_upload)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        command = dict(scope["headers"]).get(b"x-goog-upload-command", b"").decode()
        step = self._start if command == "start" else self._last if "finalize" in command else self._piece
        await step(scope, receive, send)
