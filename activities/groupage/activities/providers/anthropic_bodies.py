"""One request's body on its way to Anthropic, and one reply of the messages API on its way back."""

from typing import TYPE_CHECKING, Any

import orjson
from groupage.activities.answers_anthropic import read_reply
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.call_errors import retry_after_s
from groupage.activities.providers.sync_replies import read_sync
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

MESSAGES = "/v1/messages"


def native_body(endpoint: str, body: bytes, wire_id: str) -> bytes:
    """The body in Anthropic's own words. Raises ProviderError(invalid) for what intake would have refused."""
    if endpoint == MESSAGES or body == b"{}":
        return body  # the empty one is the planner's, who asks how much a line adds to its body
    from groupage.schemas.portable import Inexpressible, translate

    request = orjson.loads(body)
    try:
        return orjson.dumps(translate("anthropic", str(request.get("model")), endpoint, request))
    except Inexpressible as error:
        raise ProviderError(
            f"request {wire_id} cannot be put in Anthropic's words: {error}",
            error_class=ErrorClass.invalid,
            code="inexpressible",
        ) from error


def read_response(call: SyncCall, response: "httpx2.Response") -> Answer:
    """A reply of the messages API as an Answer, whatever its status."""
    status, headers = response.status_code, response.headers

    def read(body: Any) -> Answer:
        return read_reply(call.wire_id, status, body, headers.get("request-id", ""))

    return read_sync(call, status, response.content, read, lambda: retry_after_s(headers))
