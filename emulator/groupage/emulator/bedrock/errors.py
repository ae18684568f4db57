"""AWS's error objects: a type by HTTP status and a message."""

from typing import Any

from groupage.emulator.calls import ApiError

TYPE_HEADER = "x-amzn-errortype"

_TYPES = {
    400: ("ValidationException", "The request was not valid."),
    403: ("AccessDeniedException", "You don't have access to the model with the specified model ID."),
    404: ("ResourceNotFoundException", "Could not find the resource."),
    408: ("ModelTimeoutException", "The model took too long to answer."),
    424: ("ModelErrorException", "The model failed."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "The system encountered an unexpected error. Try your request again."),
    503: ("ServiceUnavailableException", "Bedrock is unable to process your request."),
}
PAYMENT = "INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided."
"""What an account that cannot pay is told, as an AccessDeniedException."""


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    kind, usual = _TYPES.get(status, _TYPES[500] if status >= 500 else _TYPES[400])
    return {"__type": code or kind, "message": message or usual}


def refusal(status: int, message: str | None = None, code: str | None = None) -> ApiError:
    body = error_of(status, code, message)
    return ApiError(status, body, {TYPE_HEADER: body["__type"]})
