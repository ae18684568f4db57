"""What an error of a Google API means, in our classes: of the Gemini API, of Vertex and of rows in their results.

An error is `{"code": 400, "status": "INVALID_ARGUMENT", "message": ..., "details": [...]}`. Rows of result files
carry the number of google.rpc.Code (3) and often no word; HTTP replies carry the HTTP status and the word. The
word decides, then the number, then the HTTP status.

==========================================================  ==========================================
word (google.rpc.Code, HTTP)                                class
==========================================================  ==========================================
INVALID_ARGUMENT (3, 400), OUT_OF_RANGE (11),               invalid; account where the key is not
  FAILED_PRECONDITION (9), UNIMPLEMENTED (12),                valid or billing is off, too_large where
  ALREADY_EXISTS (6, 409)                                     a size is over its limit
UNAUTHENTICATED (16, 401)                                   account
PERMISSION_DENIED (7, 403)                                  forbidden; account where no request is meant
NOT_FOUND (5, 404); 403 "the File … or it may not exist"    missing; of one request: invalid
RESOURCE_EXHAUSTED (8, 429)                                 rate_limit; quota where a day's or the
                                                              batches' quota is used up; account where
                                                              the quota is 0 or the credit is spent
CANCELLED (1, 499)                                          of a row: cancelled; of a call: transient
DEADLINE_EXCEEDED (4, 504), ABORTED (10), INTERNAL (13),    transient
  UNAVAILABLE (14, 503), UNKNOWN (2), DATA_LOSS (15), 408
413                                                         too_large
==========================================================  ==========================================
"""

import re
from typing import Any, NamedTuple

from groupage.activities.own_words import own_words
from groupage.activities.providers.call_errors import RETRY_AFTER_MAX_S, class_of_status
from groupage.schemas import ErrorClass
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_PASSING = frozenset({408, 409, 425, 499})

WORDS = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
}
"""google.rpc.Code."""

_CLASSES = {
    "CANCELLED": ErrorClass.transient,
    "UNKNOWN": ErrorClass.transient,
    "INVALID_ARGUMENT": ErrorClass.invalid,
    "DEADLINE_EXCEEDED": ErrorClass.transient,
    "NOT_FOUND": ErrorClass.missing,
    "ALREADY_EXISTS": ErrorClass.invalid,
    "PERMISSION_DENIED": ErrorClass.forbidden,
    "RESOURCE_EXHAUSTED": ErrorClass.rate_limit,
    "FAILED_PRECONDITION": ErrorClass.invalid,
    "ABORTED": ErrorClass.transient,
    "OUT_OF_RANGE": ErrorClass.invalid,
    "UNIMPLEMENTED": ErrorClass.invalid,
    "INTERNAL": ErrorClass.transient,
    "UNAVAILABLE": ErrorClass.transient,
    "DATA_LOSS": ErrorClass.transient,
    "UNAUTHENTICATED": ErrorClass.account,
}

_ACCOUNT_REASONS = frozenset(
    {
        "API_KEY_INVALID",
        "API_KEY_SERVICE_BLOCKED",
        "API_KEY_EXPIRED",
        "ACCESS_TOKEN_EXPIRED",
        "BILLING_DISABLED",
        "CONSUMER_INVALID",
        "CONSUMER_SUSPENDED",
        "SERVICE_DISABLED",
        "USER_PROJECT_DENIED",
    }
)
"""google.api.ErrorReason: what only a person can put right."""

_ACCOUNT = re.compile(
    r"api key (not valid|expired|not found)|location is not supported|billing (account|has not|is (not|disabled))"
    r"|(enable|require\w*) billing"
)
_SPENT = re.compile(r"credits? (are|is) (depleted|exhausted)|spend(ing)? (cap|limit)|\blimit: 0\b")
"""Of what was used up, or is not allowed: in a refusal of an argument these are words of the argument."""
_NO_FILE = re.compile(r"\bthe file \S+ or it may not exist")
"""So the Gemini Files API says that there is no such file. IAM says something like it of every permission that is
lacking: "Permission 'storage.objects.list' denied on resource … (or it may not exist)". That is the account's trouble.
"""
_TOO_LARGE = re.compile(
    r"(payload|file|request|batch)[^.]{0,40}(size|bytes|length)[^.]{0,40}(exceed|limit|larger|above)|too large"
    r"|too many (requests|rows|instances) in"
)
_QUOTA = re.compile(r"per ?day|enqueued|batch[^.]{0,60}(quota|limit|exceed)|concurrent|in progress|pending batch")


class GoogleError(NamedTuple):
    """`retry_after_s` is what the error's RetryInfo asks for."""

    error_class: ErrorClass
    word: str
    code: str
    message: str
    retry_after_s: float | None


def read_error(status: int | None, error: Any) -> GoogleError:
    """Any error object, `{"error": {...}}` around it or not, a list of one, or a text. Never raises.

    `status` is the HTTP status, None where the error came without one: in a row, or in a failed batch.
    """
    error = _inner(error)
    word, message, details = "", "", []
    number = None
    if type(error) is dict:
        said, number = error.get("status"), error.get("code")
        word = said if type(said) is str else WORDS.get(number, "") if type(number) is int else ""
        message = error["message"] if type(error.get("message")) is str else ""
        details = [each for each in error.get("details") or () if type(each) is dict]
    elif type(error) is str:
        message = error
    if status is None and type(number) is int and number >= 100:
        status = number
    shown = word or (f"http_{status}" if status is not None else "no_code" if number is None else f"code_{number}")
    found = _class_of(status, word, message, details)
    return GoogleError(found, word, shown[:200], message[:FAILURE_MESSAGE_MAX], _retry_info_s(details))


def of_one_request(found: ErrorClass) -> ErrorClass:
    """The class of the same error when it is one request's: no smaller batch makes that one fit."""
    return ErrorClass.invalid if found in {ErrorClass.too_large, ErrorClass.missing} else found


def _inner(error: Any) -> Any:
    if type(error) is list and len(error) == 1:
        error = error[0]
    if type(error) is dict and type(error.get("error")) in {dict, str}:
        error = error["error"]
    return error


def _class_of(status: int | None, word: str, message: str, details: list[dict[str, Any]]) -> ErrorClass:
    text, own = message.lower(), own_words(message)
    if any(detail.get("reason") in _ACCOUNT_REASONS for detail in details) or _ACCOUNT.search(own):
        return ErrorClass.account
    found = _CLASSES.get(word) or class_of_status(status, _PASSING)
    of_argument = found is ErrorClass.invalid and word != "FAILED_PRECONDITION"
    if not of_argument and _SPENT.search(own):
        return ErrorClass.account
    if found is ErrorClass.forbidden and _NO_FILE.search(text):
        return ErrorClass.missing
    if found is ErrorClass.rate_limit:
        return _exhausted(text, details)
    if status == 413 or (found is ErrorClass.invalid and _TOO_LARGE.search(text)):
        return ErrorClass.too_large
    return found


def _exhausted(text: str, details: list[dict[str, Any]]) -> ErrorClass:
    """Of what there is too little: requests a minute pass by themselves, a queue of batches only with the batches."""
    violations = [each for detail in details for each in detail.get("violations") or () if type(each) is dict]
    if any(str(each.get("quotaValue")) == "0" for each in violations):
        return ErrorClass.account
    names = [str(each.get(name, "")).lower() for each in violations for name in ("quotaId", "quotaMetric")]
    return ErrorClass.quota if any(_QUOTA.search(each) for each in (text, *names)) else ErrorClass.rate_limit


def _retry_info_s(details: list[dict[str, Any]]) -> float | None:
    """google.rpc.RetryInfo says it as "34.07s"."""
    for detail in details:
        delay = detail.get("retryDelay")
        if type(delay) is str and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return min(float(delay[:-1]), RETRY_AFTER_MAX_S)
    return None
