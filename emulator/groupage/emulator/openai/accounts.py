"""Who calls: an account is one API key. Accounts do not see each other's files and batches."""

import hashlib
from typing import Any

from groupage.emulator.calls import ApiError
from groupage.emulator.core import Emulator
from groupage.emulator.work import error_body
from starlette.requests import Request


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code. 401 without a key, or with another than the only one that is allowed."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise ApiError(401, error_body("You didn't provide an API key.", "invalid_request_error", None))
    if core.settings.api_key is not None and key != core.settings.api_key:
        message = "Incorrect API key provided."
        raise ApiError(401, error_body(message, "invalid_request_error", "invalid_api_key"))
    return hashlib.blake2b(key.encode(), digest_size=6).hexdigest()


def bad_request(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> ApiError:
    return ApiError(status, error_body(message, "invalid_request_error", code, param))


def page_of(items: list[dict[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
    """One page of a list, after the item with the id `after`. 400 for an unknown `after`."""
    start = 0
    if after is not None:
        places = [at for at, item in enumerate(items) if item["id"] == after]
        if not places:
            raise bad_request(f"Invalid value for 'after': no object with id '{after}'.", "after")
        start = places[0] + 1
    shown = items[start : start + limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": start + limit < len(items),
    }


def limit_of(request: Request, default: int, most: int) -> int:
    text = request.query_params.get("limit", str(default))
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise bad_request(f"Invalid value for 'limit': expected an integer from 1 to {most}.", "limit")
    return int(text)


def expiry_of(value: Any, param: str, least: int = 3600) -> int | None:
    """Seconds of an `expires_after` object. 400 outside one hour (or what else is the least) to 30 days."""
    if value is None:
        return None
    seconds = value.get("seconds") if isinstance(value, dict) else None
    if not isinstance(seconds, int) or not least <= seconds <= 2_592_000 or value.get("anchor") != "created_at":
        message = f"Invalid '{param}': anchor must be 'created_at', seconds from {least} to 2592000."
        raise bad_request(message, param)
    return seconds
