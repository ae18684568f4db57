"""Azure OpenAI's files, batches and sync endpoints on both of its surfaces, and a managed identity's endpoint.

v1 is under `/openai/v1`; the older surface under `/openai` with `?api-version=`. Both show one resource.
"""

from groupage.emulator.azure import batches, files, identity, sync
from groupage.emulator.azure.accounts import authenticate, nobody
from groupage.emulator.azure.errors import error_of
from groupage.emulator.calls import Endpoint, router
from groupage.emulator.core import Emulator
from groupage.emulator.sync_calls import Limiter
from starlette.routing import BaseRoute, Route

_DEPLOYED = ("chat/completions", "completions", "embeddings")


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits both."""
    route = router(core, "", authenticate, error_of)
    limiter = Limiter(core)
    made: list[BaseRoute] = []
    for root in ("/openai/v1", "/openai"):
        made += [
            route("POST", f"{root}/files", "files.create", files.create),
            route("GET", f"{root}/files", "files.list", files.list_),
            route("GET", f"{root}/files/{{file_id}}", "files.retrieve", files.retrieve),
            route("DELETE", f"{root}/files/{{file_id}}", "files.delete", files.delete),
            route("GET", f"{root}/files/{{file_id}}/content", "files.content", files.content),
            route("POST", f"{root}/batches", "batches.create", batches.create),
            route("GET", f"{root}/batches", "batches.list", batches.list_),
            route("GET", f"{root}/batches/{{batch_id}}", "batches.retrieve", batches.retrieve),
            route("POST", f"{root}/batches/{{batch_id}}/cancel", "batches.cancel", batches.cancel),
            route("POST", f"{root}/responses", "sync", sync.handler("/v1/responses", limiter)),
        ]
    for path in _DEPLOYED:
        answering = sync.handler(f"/v1/{path}", limiter)
        made.append(route("POST", f"/openai/v1/{path}", "sync", answering))
        made.append(route("POST", f"/openai/deployments/{{deployment}}/{path}", "sync", answering))
    identity_endpoint = Endpoint(core, "identity.token", identity.token, nobody, identity.error_of)
    return [*made, Route(identity.PATH, identity_endpoint, methods=["GET"])]
