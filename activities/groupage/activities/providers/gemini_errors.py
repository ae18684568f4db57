"""What a failed call to the Gemini API means, in our classes: whatever the SDK or its HTTP client raises.

Status and word decide (google_errors.py), never the SDK's own verdict. An answer that is no JSON, or not of the
shape that the SDK expects, may come from a gateway: transient, and a create may have been accepted.
"""

from typing import TYPE_CHECKING, Any

import orjson
from groupage.activities.providers.call_errors import connection_failed, of_whole, retry_after_s
from groupage.activities.providers.google_errors import GoogleError, read_error
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store import answer_json

if TYPE_CHECKING:
    import httpx2


class PieceRefused(Exception):
    """A piece of an upload got no answer of the upload protocol: the SDK would send it again on its own account,
    and sleep before it with the whole event loop. The response has been read.
    """

    def __init__(self, response: "httpx2.Response") -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


def translate(error: Exception, what: str) -> ProviderError | None:
    """None for an exception that nobody expects there. `what` says what was tried: "create of gabc…-r0-s1"."""
    import httpx2
    from google.genai import errors

    if isinstance(error, PieceRefused):
        return answered(error.response, what)
    if isinstance(error, errors.APIError):
        response: Any = error.response
        return answered(response, what) if isinstance(response, httpx2.Response) else None
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | UnicodeEncodeError):
        return connection_error(error, what)
    if isinstance(error, ValueError | KeyError | TypeError | AttributeError):
        # The SDK has read an answer that is not of its API: json.JSONDecodeError and pydantic's errors are ValueErrors.
        detail = f"the answer is not what the API gives: {type(error).__name__}: {error}"
        return ProviderError(
            f"{what}: {detail}"[:FAILURE_MESSAGE_MAX], error_class=ErrorClass.transient, code="not_json"
        )
    return None


def answered(response: "httpx2.Response", what: str) -> ProviderError:
    """A response that was read, and that is an error."""
    status = response.status_code
    found = error_of(response)
    message = f"{what}: HTTP {status} {found.message or 'without a message'}"
    known = bool(found.word)
    error_class = of_whole(found.error_class)
    if not known and status == 404:
        # No error object: a gateway's 404 says nothing about what the API behind it knows.
        error_class = ErrorClass.transient
    if 200 <= status <= 299:
        message, error_class = f"{what}: status {status}, but the answer is not the API's", ErrorClass.transient
    return ProviderError(
        message[:FAILURE_MESSAGE_MAX],
        error_class=error_class,
        code=found.code if known else f"http_{status}",
        status=status,
        retry_after_s=retry_after_s(response.headers) or found.retry_after_s,
    )


def error_of(response: "httpx2.Response") -> GoogleError:
    try:
        body: Any = answer_json.loads(response.content)
    except orjson.JSONDecodeError:
        body = response.content[:1000].decode("utf-8", "replace")
    return read_error(response.status_code, body)


def connection_error(error: Exception, what: str) -> ProviderError:
    import httpx2

    detail = f"{type(error).__name__}: {error}"
    return connection_failed(error, what, detail, timed_out=isinstance(error, httpx2.TimeoutException))
