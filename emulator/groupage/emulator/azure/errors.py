"""Azure's error objects: a code and a message, or whatever else was at hand."""

from typing import Any

from groupage.emulator.calls import ApiError

_USUAL = {
    400: ("BadRequest", "The request is invalid."),
    401: ("401", "Access denied due to invalid subscription key or wrong API endpoint."),
    403: ("403", "The principal lacks the required data action."),
    404: ("404", "Resource not found"),
    408: ("Timeout", "The operation was timeout."),
    429: ("429", "Requests have exceeded call rate limit of your current OpenAI S0 pricing tier."),
    500: ("InternalServerError", "The server had an error while processing your request."),
    503: ("ServiceUnavailable", "The service is temporarily unable to process your request."),
}


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    usual_code, usual = _USUAL.get(status, _USUAL[500] if status >= 500 else _USUAL[400])
    return {"error": {"code": code or usual_code, "message": message or usual}}


def refusal(status: int, message: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(status, error_of(status, code, message))
