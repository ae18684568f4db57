"""What an error of Anthropic's API means, in our classes: types, stable codes and texts (TE-09: never the SDK's verdict).

======================================================  ==================================================
what                                                    class; may a create have been accepted?
======================================================  ==================================================
authentication_error, billing_error, 401, 402, spend    account; no
  limits (a 429!), credit texts
permission_error, 403                                   forbidden; account where no request is meant; no
429, rate_limit_error                                   rate_limit; quota where the batches' queue is full
413, request_too_large                                  too_large; no
404 with a JSON error                                   missing; no. Without JSON it is a gateway's: transient
400, invalid_request_error                              invalid; no
408, 409, 5xx (529, and a bare 503 or 504), api_error,  transient; yes
  overloaded_error, timeout_error
timeout, reset, an answer that is no JSON object        transient; yes
======================================================  ==================================================
"""

import re
from typing import TYPE_CHECKING, Any

from groupage.activities.own_words import own_words
from groupage.activities.providers.bad_lines import request_paths
from groupage.activities.providers.call_errors import connection_failed, of_whole, retry_after_s
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

if TYPE_CHECKING:
    import anthropic

_ACCOUNT_TYPES = frozenset({"authentication_error", "billing_error"})
_FORBIDDEN = "permission_error"
_ACCOUNT_CODES = re.compile(r"spend_limit_reached|billing|on_hold|^cmek_|not_member|parent_organization|workspace_")
"""`error.details.error_code`s after which only a person can help (anthropic 2.14, types/shared). Spend limits
come as a 429, which looks as if it passed by itself."""
_PASSING_CODES = frozenset({"cmek_key_unreachable", "cmek_context_unavailable"})
_CREDIT = re.compile(
    r"credit balance|out of credit|insufficient (credit|funds|balance)|plans & billing|spend limit"
    r"|specified api usage limits|you will regain access|organization has been disabled"
)
"""An account without credit, at its own limit, or closed is told so as an invalid_request_error, line by line (QU-06)."""
_QUEUE = re.compile(r"(processing|batch(es)?) queue|queue[^.]{0,40}batch|batch requests[^.]{0,60}(limit|queue)")
_TYPES = {
    "rate_limit_error": ErrorClass.rate_limit,
    "request_too_large": ErrorClass.too_large,
    "not_found_error": ErrorClass.missing,
    "invalid_request_error": ErrorClass.invalid,
    "api_error": ErrorClass.transient,
    "overloaded_error": ErrorClass.transient,
    "timeout_error": ErrorClass.transient,
    "conflict_error": ErrorClass.transient,
}


def classify(status: int | None, error: Any) -> tuple[ErrorClass, str, str]:
    """(class, code, message) of an error object, or of the text that stands where one is expected.

    `status` is None where the error came without HTTP: in a line of a batch's results.
    """
    kind, code, message = _fields(error)
    shown = (code or kind or (f"http_{status}" if status is not None else "no_code"))[:200]
    known = _TYPES.get(kind)
    if _is_account(status, kind, code, own_words(message)):
        found = ErrorClass.account
    elif status == 403 or kind == _FORBIDDEN:
        found = ErrorClass.forbidden
    elif status == 413 or known is ErrorClass.too_large or code == "request_body_too_large_after_decoding":
        found = ErrorClass.too_large
    elif status == 429 or (status is None and known is ErrorClass.rate_limit):
        found = ErrorClass.quota if _QUEUE.search(message.lower()) else ErrorClass.rate_limit
    elif status is None:
        found = known or ErrorClass.unknown
    elif status >= 500 or status in {408, 409, 425}:
        found = ErrorClass.transient
    elif status == 404:
        # No JSON error: a gateway speaks, and its 404 says nothing about what the API behind it knows.
        found = ErrorClass.missing if kind else ErrorClass.transient
    elif status >= 400:
        found = known if known in {ErrorClass.transient, ErrorClass.missing} else ErrorClass.invalid
    else:
        found = known or ErrorClass.unknown
    return found, shown, message[:FAILURE_MESSAGE_MAX]


def _is_account(status: int | None, kind: str, code: str, text: str) -> bool:
    if kind in _ACCOUNT_TYPES or status in {401, 402} or _CREDIT.search(text):
        return True
    return bool(_ACCOUNT_CODES.search(code)) and code not in _PASSING_CODES


def _fields(error: Any) -> tuple[str, str, str]:
    """(type, error_code, message) of `{"type":"error","error":{…}}`, of its inner object, or of a bare text."""
    if type(error) is dict:
        inner = error.get("error")
        if type(inner) is dict:
            error = inner
        details = error.get("details")
        code = details.get("error_code") if type(details) is dict else None
        kind, message = error.get("type"), error.get("message")
        return (
            kind if type(kind) is str else "",
            code if type(code) is str else "",
            message if type(message) is str else "",
        )
    return "", "", error if type(error) is str else ""


def translate(error: "anthropic.AnthropicError", what: str) -> ProviderError:
    """An exception of the SDK as ours. `what` says what was tried: "create of gabc…-r0-s1"."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        body = error.body if error.body is not None else error.response.text
        found, code, message = classify(error.status_code, body)
        return ProviderError(
            f"{what}: HTTP {error.status_code} {message or 'without a message'}",
            error_class=of_whole(found),
            code=code,
            status=error.status_code,
            retry_after_s=retry_after_s(error.response.headers),
            lines=request_paths(message) if found is ErrorClass.invalid else (),
        )
    if isinstance(error, anthropic.APIConnectionError):
        return _connection_error(error, what)
    # A credential that cannot be had or read: found before anything is sent.
    return ProviderError(f"{what}: {error}", error_class=ErrorClass.account, code="configuration")


def _connection_error(error: "anthropic.APIConnectionError", what: str) -> ProviderError:
    import anthropic

    cause = error.__cause__ or error.__context__
    detail = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    return connection_failed(cause, what, detail, timed_out=isinstance(error, anthropic.APITimeoutError))
