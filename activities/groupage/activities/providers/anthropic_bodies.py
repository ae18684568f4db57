"""One request's body on its way to Anthropic, and one reply of the messages API on its way back."""

from typing import TYPE_CHECKING, Any

import orjson
from groupage.activities.answers_anthropic import read_reply
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.openai_errors import retry_after_s
from groupage.schemas import ErrorClass, Outcome
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
    request_id = response.headers.get("request-id", "")
    try:
        body: Any = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        if response.is_success:
            # A gateway's page, or an answer cut in its middle: nothing that the model said (PO-22).
            message = f"status {response.status_code}, but the answer is not JSON"
            return no_reply(call, ErrorClass.transient, "not_json", message)
        body = response.content[:1000].decode("utf-8", "replace")
    answer = read_reply(call.wire_id, response.status_code, body, request_id)
    if answer.error_class is not None:
        answer.retry_after_s = retry_after_s(response.headers)
    return answer


def no_reply(call: SyncCall, error_class: ErrorClass, code: str, message: str) -> Answer:
    return Answer(call.wire_id, Outcome.failed, error_class, code, message[:1000])
