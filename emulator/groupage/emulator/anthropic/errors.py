"""Anthropic's error objects: a type by HTTP status, a text, and for some a stable code in `details`."""

from typing import Any

from groupage.emulator.calls import ApiError

_TYPES = {
    400: ("invalid_request_error", "The request was not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is a problem with the organization's billing."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not Found"),
    408: ("timeout_error", "The request timed out."),
    409: ("conflict_error", "The request conflicts with another one."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
CREDIT = (
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
    "purchase credits."
)
"""What an account without credit is told, as an invalid_request_error (docs/cases.md QU-06)."""


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    """The error of an HTTP status. A `code` goes where Anthropic keeps its stable ones."""
    kind, usual = _TYPES.get(status, _TYPES[500] if status >= 500 else _TYPES[400])
    error: dict[str, Any] = {"type": kind, "message": message or usual}
    if code is not None:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": "req_emulated"}


def refusal(status: int, message: str) -> ApiError:
    return ApiError(status, error_of(status, None, message))
