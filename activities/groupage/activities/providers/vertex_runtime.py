"""One request by generateContent, or by rawPredict where the model is Claude: the same endpoint as the jobs', one attempt.

The session blocks until the model has answered, for minutes at worst: such calls have threads of their own.
"""

import asyncio
from typing import Any

from groupage.activities.answers_vertex import read_reply
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.call_errors import retry_after_s
from groupage.activities.providers.exact_json import dumps
from groupage.activities.providers.google_errors import of_one_request
from groupage.activities.providers.native_bodies import native_body
from groupage.activities.providers.sync_replies import failed_call, read_sync, timed_out
from groupage.activities.providers.vertex_bodies import CLAUDE, model_path
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_errors import translated
from groupage.activities.providers.vertex_options import VertexOptions
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import detached
from groupage.schemas.errors import ProviderError

_REQUEST_ID = "x-request-id"


async def complete(clients: Clients, options: VertexOptions, settings: ProviderSettings, call: SyncCall) -> Answer:
    """An answer whatever happens."""
    try:
        model, target, body = native_body("vertex", call.endpoint, call.body)
        claude = target == CLAUDE
        path = model_path(model, claude=claude)

        def send() -> tuple[int, bytes, dict[str, str]]:
            where = path if path.startswith("projects/") else f"{clients.parent}/{path}"
            response = clients.http().post(
                f"{options.api_endpoint}/v1/{where}:{target[1:]}",
                data=dumps(body),
                headers={"content-type": "application/json"},
                timeout=(settings.connect_timeout_s, call.timeout_s),
            )
            headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
            return response.status_code, response.content, headers

        async with asyncio.timeout(call.timeout_s):
            what = f"{target[1:]} for {call.wire_id}"
            status, content, headers = await detached(lambda: translated(what, send), "vertex-sync")
    except TimeoutError:
        return timed_out(call)
    except ProviderError as error:
        return failed_call(call, error, of_one_request(error.error_class))

    def read(body: Any) -> Answer:
        return read_reply(call.wire_id, status, body, claude=claude, request_id=headers.get(_REQUEST_ID, ""))

    return read_sync(call, status, content, read, lambda: retry_after_s(headers))
