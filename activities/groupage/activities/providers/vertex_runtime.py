"""One request by generateContent, or by rawPredict where the model is Claude: the same endpoint as the jobs', one attempt.

The session blocks until the model has answered, for minutes at worst: such calls have threads of their own.
"""

import asyncio
from typing import Any

import orjson
from groupage.activities.answers_vertex import read_reply
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.google_errors import of_one_request
from groupage.activities.providers.vertex_bodies import CLAUDE, dumps, model_path, native
from groupage.activities.providers.vertex_clients import Clients
from groupage.activities.providers.vertex_errors import retry_after_s, translated
from groupage.activities.providers.vertex_options import VertexOptions
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import detached
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_REQUEST_ID = "x-request-id"


async def complete(clients: Clients, options: VertexOptions, settings: ProviderSettings, call: SyncCall) -> Answer:
    """An answer whatever happens."""
    try:
        model, target, body = native(call.endpoint, call.body)
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
        return _failed(call, ErrorClass.transient, "timeout", f"no answer within {call.timeout_s:g} s")
    except ProviderError as error:
        answer = _failed(call, of_one_request(error.error_class), error.code, str(error))
        answer.retry_after_s = error.retry_after_s
        return answer
    return _read(call, status, content, headers, claude=claude)


def _read(call: SyncCall, status: int, content: bytes, headers: dict[str, str], *, claude: bool) -> Answer:
    try:
        body: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        if 200 <= status <= 299:
            # A gateway's page, or an answer cut in its middle: nothing that the model said (PO-22).
            return _failed(call, ErrorClass.transient, "not_json", f"status {status}, but the answer is not JSON")
        body = content[:FAILURE_MESSAGE_MAX].decode("utf-8", "replace")
    answer = read_reply(call.wire_id, status, body, claude=claude, request_id=headers.get(_REQUEST_ID, ""))
    if answer.error_class is not None:
        answer.retry_after_s = answer.retry_after_s or retry_after_s(headers)
    return answer


def _failed(call: SyncCall, error_class: ErrorClass, code: str, message: str) -> Answer:
    return Answer(call.wire_id, Outcome.failed, error_class, code, message[:FAILURE_MESSAGE_MAX])
