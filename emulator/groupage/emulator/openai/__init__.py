"""OpenAI's files, uploads, batches and sync endpoints, as the official SDK expects them."""

from groupage.emulator.calls import router
from groupage.emulator.core import Emulator
from groupage.emulator.openai import batches, files, sync, uploads
from groupage.emulator.openai.accounts import authenticate
from groupage.emulator.sync_calls import Limiter
from starlette.routing import BaseRoute


def routes(core: Emulator) -> list[BaseRoute]:
    route = router(core, "/v1", authenticate)
    limiter = Limiter(core)
    return [
        route("POST", "/chat/completions", "sync", sync.handler("/v1/chat/completions", limiter)),
        route("POST", "/responses", "sync", sync.handler("/v1/responses", limiter)),
        route("POST", "/embeddings", "sync", sync.handler("/v1/embeddings", limiter)),
        route("POST", "/completions", "sync", sync.handler("/v1/completions", limiter)),
        route("POST", "/moderations", "sync", sync.handler("/v1/moderations", limiter)),
        route("POST", "/files", "files.create", files.create),
        route("GET", "/files", "files.list", files.list_),
        route("GET", "/files/{file_id}", "files.retrieve", files.retrieve),
        route("DELETE", "/files/{file_id}", "files.delete", files.delete),
        route("GET", "/files/{file_id}/content", "files.content", files.content),
        route("POST", "/batches", "batches.create", batches.create),
        route("GET", "/batches", "batches.list", batches.list_),
        route("GET", "/batches/{batch_id}", "batches.retrieve", batches.retrieve),
        route("POST", "/batches/{batch_id}/cancel", "batches.cancel", batches.cancel),
        route("POST", "/uploads", "uploads.create", uploads.create),
        route("POST", "/uploads/{upload_id}/parts", "uploads.part", uploads.add_part),
        route("POST", "/uploads/{upload_id}/complete", "uploads.complete", uploads.complete),
        route("POST", "/uploads/{upload_id}/cancel", "uploads.cancel", uploads.cancel),
    ]
