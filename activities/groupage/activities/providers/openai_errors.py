"""What a failed call to an OpenAI-shaped server means, in our classes (docs/cases.md TE-09: never the SDK's verdict).

============================================  ===========================================================
what happened                                 class; may a create have been accepted?
============================================  ===========================================================
connection refused, no route, DNS, TLS        transient; no: nothing was sent
timeout, reset, cut answer                    transient; yes
408, 409, 425, 5xx (529 and bare 503 too)     transient; yes
2xx that is no JSON object (a gateway's page) transient; yes
429                                           rate_limit; account for insufficient_quota; quota for token limits
401, 402, credit and billing texts            account; no
403                                           account; no. To one request: forbidden
413, "too many tokens in batch", sizes        too_large; no
404 with a JSON error                         missing; no. Without JSON it is a gateway's: transient
400, 422, other 4xx                           invalid; no
============================================  ===========================================================
"""

import re
from typing import TYPE_CHECKING, Any

import orjson
from groupage.activities.answers import classify
from groupage.activities.providers.call_errors import NOT_SENT, ambiguous, connection_failed, of_whole, retry_after_s
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.store import answer_json

if TYPE_CHECKING:
    import httpx2
    import openai

_TOO_LARGE = re.compile(
    r"too many tokens in (the |this )?batch|(file|request|payload|input|body|entity)[^.]{0,40} (is )?too (large|big|long)"
    r"|too many (requests|tasks|lines|records|(embedding )?inputs) in (the |this )?(batch|file|input)"
    r"|more than \d[\d,]* (embedding )?inputs"
    r"|(exceeds|exceeded|over|above) the (maximum|max|limit)[^.]{0,40}(size|bytes|mb\b|requests|lines|inputs)"
    r"|(size|bytes)[^.]{0,40}(exceeds|exceeded|is over|is above)",
)
_TOO_LARGE_CODES = frozenset(
    {
        "too_many_tasks",
        "too_many_requests",
        "too_many_inputs",
        "file_too_large",
        "request_too_large",
        "batch_too_large",
    }
)
_QUOTA = re.compile(
    r"enqueued (token|request)|enqueued_token|too many (running|active|queued|enqueued|concurrent) batch"
    r"|maximum number of (files|batches)|(file|batch) (count|storage) (quota|limit)"
)
_QUOTA_CODES = frozenset({"token_limit_exceeded", "quotaexceeded", "quota_exceeded", "batch_quota_exceeded"})
_PAGE_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)


def classify_call(status: int | None, error: Any) -> tuple[ErrorClass, str, str]:
    """(class, code, message) of an error that is about a whole file or batch, not about one line."""
    found, code, message = classify(status, error)
    if isinstance(error, str) and status is not None:
        # No JSON: a gateway speaks, and its 404 says nothing about what the API behind it knows.
        message = _page_title(error) or message
        if status == 404:
            return ErrorClass.transient, code, message
    lowered = message.lower()
    if of_whole(found) is ErrorClass.account:
        return ErrorClass.account, code, message
    if code.lower() in _QUOTA_CODES or _QUOTA.search(lowered):
        return ErrorClass.quota, code, message
    sized = status in {None, 400, 413, 422}
    if status == 413 or (sized and (code.lower() in _TOO_LARGE_CODES or _TOO_LARGE.search(lowered))):
        return ErrorClass.too_large, code, message
    if status == 404:
        return ErrorClass.missing, code, message
    return found, code, message


def _page_title(error: Any) -> str | None:
    """The title of an HTML page that stands where a JSON error is expected, else None."""
    if not isinstance(error, str) or not error.lstrip().startswith("<"):
        return None
    title = _PAGE_TITLE.search(error)
    return f"an HTML page came instead of JSON: {title[1].strip()[:200] if title else error.strip()[:80]}"


def read_object(response: "httpx2.Response", what: str) -> dict[str, Any]:
    """The JSON object in a successful response. Anything else is no answer of the API: transient (PO-22).

    Read as everybody reads JSON: a listing shows names and metadata that are not ours.
    """
    try:
        parsed = answer_json.loads(response.content)
    except orjson.JSONDecodeError:
        title = _page_title(response.content[:4000].decode("utf-8", "replace"))
        raise ProviderError(
            f"{what}: status {response.status_code}, but {title or 'the answer is not JSON'}",
            error_class=ErrorClass.transient,
            code="not_json",
            status=response.status_code,
        ) from None
    if not isinstance(parsed, dict):
        raise ProviderError(
            f"{what}: status {response.status_code}, but the answer is no JSON object",
            error_class=ErrorClass.transient,
            code="not_an_object",
            status=response.status_code,
        )
    return parsed


def translate(error: "openai.OpenAIError", what: str) -> ProviderError:
    """An exception of the SDK as ours. `what` says what was tried: "create a batch"."""
    import openai

    if isinstance(error, openai.APIStatusError):
        found, code, message = classify_call(error.status_code, _error_body(error))
        return ProviderError(
            f"{what}: HTTP {error.status_code} {message or 'without a message'}",
            error_class=found,
            code=code,
            status=error.status_code,
            retry_after_s=retry_after_s(error.response.headers),
        )
    if isinstance(error, openai.APIConnectionError):
        return _connection_error(error, what)
    # A missing or malformed credential is found by the SDK before anything is sent.
    return ProviderError(f"{what}: {error}", error_class=ErrorClass.account, code="configuration")


def _error_body(error: "openai.APIStatusError") -> Any:
    # The SDK unwraps {"error": {...}}; where the body is no JSON it gives nothing or a text, by version.
    return error.body if error.body is not None else error.response.text


def _connection_error(error: "openai.APIConnectionError", what: str) -> ProviderError:
    import openai

    cause = error.__cause__ or error.__context__
    detail = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    return connection_failed(cause, what, detail, timed_out=isinstance(error, openai.APITimeoutError))


NO_TOKEN = "no_token"  # noqa: S105 - a word, not a secret
"""Code of an error where no token could be got to send with the request, or the one sent was refused for its age."""

_CLEAR_REFUSALS = frozenset({400, 401, 402, 403, 404, 405, 411, 413, 415, 422, 429})


def create_failed(error: ProviderError) -> ProviderError:
    """The error of a create call: AmbiguousCreate unless it is sure that nothing was accepted."""
    if error.code in {NOT_SENT, NO_TOKEN, "configuration"}:
        return error
    if error.status in _CLEAR_REFUSALS and error.error_class is not ErrorClass.transient:
        return error
    return ambiguous(error)
