"""Google's error objects: `{"error": {"code", "message", "status"}}`; rows of results carry google.rpc.Code."""

from typing import Any

from groupage.emulator.calls import ApiError
from groupage.emulator.faults import RequestRule

_WORDS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission."),
    404: ("NOT_FOUND", "Requested entity was not found."),
    408: ("DEADLINE_EXCEEDED", "The request timed out."),
    409: ("ABORTED", "The operation was aborted."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    499: ("CANCELLED", "The operation was cancelled."),
    500: ("INTERNAL", "An internal error has occurred. Please retry."),
    501: ("UNIMPLEMENTED", "Operation is not implemented, or supported, or enabled."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
}
RPC_CODES = {
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
PAYMENT = "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    """What an HTTP reply holds. `code` replaces the word."""
    word, usual = _WORDS.get(status, _WORDS[500] if status >= 500 else _WORDS[400])
    return {"error": {"code": status, "message": message or usual, "status": code or word}}


def refusal(
    status: int, message: str | None = None, code: str | None = None, *, reason: str = "", retry_s: float | None = None
) -> ApiError:
    """`reason` and `retry_s` go where Google puts them: ErrorInfo and RetryInfo among the details."""
    body = error_of(status, code, message)
    details: list[dict[str, Any]] = []
    if reason:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
        details.append(info)
    if retry_s is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_s:.3f}s"})
    if details:
        body["error"]["details"] = details
    return ApiError(status, body)


def rule_error(rule: RequestRule) -> tuple[int, str, str]:
    """(HTTP status, word, message) of the kinds http and credit."""
    status, message = rule.status, rule.message
    if rule.kind == "credit":
        status = rule.status if "status" in rule.model_fields_set else 429
        message = rule.message or PAYMENT
    error = error_of(status, rule.code, message)["error"]
    return status, error["status"], error["message"]


def row_error(word: str, message: str) -> dict[str, Any]:
    """A google.rpc.Status, as rows and failed batches hold it."""
    return {"code": RPC_CODES.get(word, 2), "message": message}
