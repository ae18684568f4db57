"""What a failed call to Vertex or Cloud Storage means, in our classes; Google's own retries are off.

The error object of a reply is read by google_errors.py. What is not a reply:

=============================================  ==========================================================
what happened                                  class; may a create have been accepted?
=============================================  ==========================================================
not connected, TLS, proxy                      transient; no: nothing was sent
no credentials, or they cannot be renewed      account; no
timeout, reset, cut answer                     transient; yes
2xx that is not JSON, or not of the shape      transient; yes (a gateway's page)
4xx                                            by google_errors.py; no (408, 409 and 499: yes)
5xx                                            transient; yes
=============================================  ==========================================================
"""

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from groupage.activities.providers.call_errors import NOT_SENT, ambiguous, of_whole, retry_after_s, unsendable
from groupage.activities.providers.google_errors import GoogleError, read_error
from groupage.activities.providers.sdk_loading import load
from groupage.schemas import BatchError, ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store import answer_json

T = TypeVar("T")

SDK = ("google.cloud.aiplatform_v1.services.job_service", "google.protobuf.json_format")
"""What every call needs, whatever the data plane."""

_MAYBE_DONE = frozenset({408, 409, 425, 499})
_ACCOUNT = re.compile(r"does not have (\S+ ){0,6}(permission|access)|permission '?[\w.]+'? denied")
"""Of a whole job: what the service account that runs it lacks may come as a FAILED_PRECONDITION (400, 9)."""


def translated(what: str, work: Callable[[], T]) -> T:
    """Run it; what Google's libraries raise becomes ours. `what` says what was tried."""
    load(*SDK, extra="vertex")
    try:
        return work()
    except ProviderError:
        raise
    except Exception as error:
        ours = translate(error, what)
        if ours is None:
            raise
        raise ours from error


def translate(error: Exception, what: str) -> ProviderError | None:
    """An exception of Google's libraries, or of those that they call, as ours; None for any other."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAPICallError) and error.code is not None:
        return _answered(error, what)
    if is_unsendable(error):
        return unsendable(error, what)
    found = _credentials(error) if isinstance(error, GoogleAuthError) else _transport(error)
    if found is None:
        return None
    error_class, code = found
    hint = ""
    if error_class is ErrorClass.account:
        hint = "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`"
    message = f"{what}: {type(error).__name__}: {error}"[:FAILURE_MESSAGE_MAX]
    return ProviderError(message, error_class=error_class, code=code, hint=hint)


def _answered(error: Any, what: str) -> ProviderError:
    status = int(error.code)
    response = error.response if hasattr(error.response, "headers") else None
    body: Any = {"message": str(error.message), "code": status}
    if response is not None:
        try:
            body = answer_json.loads(response.content)
        except orjson.JSONDecodeError:
            body = {"message": str(error.message), "code": status}
    headers = response.headers.items() if response is not None else ()
    return of_reply(what, status, body, {name.lower(): value for name, value in headers})


def of_reply(what: str, status: int, body: Any, headers: dict[str, str]) -> ProviderError:
    """An HTTP reply that is an error. Names of headers are in lower case."""
    found = read_error(status, body)
    error_class = _of_whole(found)
    if error_class is ErrorClass.unknown:
        error_class = ErrorClass.transient
    return ProviderError(
        f"{what}: HTTP {status} {found.code} {found.message or 'without a message'}"[:FAILURE_MESSAGE_MAX],
        error_class=error_class,
        code=found.code,
        status=status,
        retry_after_s=found.retry_after_s or retry_after_s(headers),
    )


def _credentials(error: Any) -> tuple[ErrorClass, str]:
    """All of these are met before anything is sent, or after a 401."""
    from google.auth.exceptions import TransportError

    if isinstance(error, TransportError) or getattr(error, "retryable", False):
        return ErrorClass.transient, NOT_SENT
    return ErrorClass.account, "configuration"


def is_unsendable(error: Exception) -> bool:
    """Whether the request could not be written."""
    from requests import exceptions as web

    return isinstance(error, web.InvalidHeader | web.InvalidURL | UnicodeEncodeError)


def _transport(error: Exception) -> tuple[ErrorClass, str] | None:
    from google.protobuf.json_format import Error as ProtoError
    from requests import exceptions as web
    from urllib3.exceptions import HTTPError

    # Where data lie in BigQuery, Cloud Storage's client is not loaded, and raises nothing.
    storage = sys.modules.get("google.cloud.storage.exceptions")
    corrupt = (storage.DataCorruption,) if storage else ()
    kinds: list[tuple[Any, str]] = [
        ((web.ConnectTimeout, web.SSLError, web.ProxyError), NOT_SENT),
        (web.Timeout, "timeout"),
        ((web.ChunkedEncodingError, web.ContentDecodingError, *corrupt), "cut_short"),
        ((web.JSONDecodeError, ProtoError), "not_json"),
        (web.ConnectionError, NOT_SENT if _not_connected(error) else "connection_lost"),
        ((web.RequestException, HTTPError), "connection_lost"),
    ]
    for kind, code in kinds:
        if isinstance(error, kind):
            return ErrorClass.transient, code
    return None


def _not_connected(error: BaseException) -> bool:
    """What urllib3 says is wrapped twice: the innermost cause tells whether there was a connection."""
    from urllib3.exceptions import NewConnectionError

    inner: Any = error.args[0] if error.args else None
    return isinstance(getattr(inner, "reason", inner), NewConnectionError)


def create_failed(error: ProviderError) -> ProviderError:
    """The error of a create call: AmbiguousCreate unless it is sure that nothing was accepted."""
    if error.code in {NOT_SENT, "configuration"}:
        return error
    status = error.status
    if status is not None and 400 <= status < 500 and status not in _MAYBE_DONE:
        return error
    return ambiguous(error)


def _of_whole(found: GoogleError) -> ErrorClass:
    """The class of an error that is about a job or its data, not about one request."""
    refused = found.error_class is ErrorClass.invalid and _ACCOUNT.search(found.message.lower())
    return ErrorClass.account if refused else of_whole(found.error_class)


def failed_job(error: Any) -> BatchError:
    """Why a job failed as a whole: its google.rpc.Status, which may be missing."""
    found = read_error(None, error or "the provider gives no reason")
    error_class = _of_whole(found)
    if error_class is ErrorClass.missing:
        # Its model, its input or its bucket: nothing that the same job finds the next time.
        error_class = ErrorClass.invalid
    return BatchError(error_class=error_class, code=found.code, message=found.message or "the provider gives no reason")
