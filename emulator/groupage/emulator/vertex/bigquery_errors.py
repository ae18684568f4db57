"""BigQuery's error objects: HTTP status, a reason word and a message."""

from typing import Any

from groupage.emulator.calls import ApiError

_USUAL = {
    400: ("invalid", "INVALID_ARGUMENT", "Invalid value."),
    401: ("authError", "UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("accessDenied", "PERMISSION_DENIED", "Access Denied."),
    404: ("notFound", "NOT_FOUND", "Not found."),
    409: ("duplicate", "ALREADY_EXISTS", "Already Exists."),
    429: ("rateLimitExceeded", "RESOURCE_EXHAUSTED", "Exceeded rate limits: too many API requests per user."),
    500: ("internalError", "INTERNAL", "An internal error occurred and the request could not be completed."),
    503: ("backendError", "UNAVAILABLE", "Error encountered during execution. Retrying may solve the problem."),
}


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    """`code` is the reason."""
    reason, word, usual = _USUAL.get(status, _USUAL[500] if status >= 500 else _USUAL[400])
    reason, message = code or reason, message or usual
    inner = {"message": message, "domain": "global", "reason": reason}
    return {"error": {"code": status, "message": message, "errors": [inner], "status": word}}


def refusal(status: int, message: str, reason: str | None = None) -> ApiError:
    return ApiError(status, error_of(status, reason, message))


def not_found(what: str) -> ApiError:
    """`what` is "Table project:dataset.table" or the like."""
    return refusal(404, f"Not found: {what}")


def already_exists(what: str) -> ApiError:
    return refusal(409, f"Already Exists: {what}")
