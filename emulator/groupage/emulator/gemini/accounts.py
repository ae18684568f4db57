"""Who calls: an account is one API key, in the header or in the query."""

import hashlib

from groupage.emulator.core import Emulator
from groupage.emulator.gemini.errors import refusal
from starlette.requests import Request


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code. 403 without a key, and Google's 400 for one that is not valid."""
    key = request.headers.get("x-goog-api-key") or request.query_params.get("key", "")
    if not key:
        raise refusal(403, "Method doesn't allow unregistered callers (callers without established identity).")
    if core.settings.api_key is not None and key != core.settings.api_key:
        raise refusal(400, "API key not valid. Please pass a valid API key.", reason="API_KEY_INVALID")
    return "gemini/" + hashlib.blake2b(key.encode(), digest_size=6).hexdigest()


def by_upload(request: Request, core: Emulator) -> str:
    """Pieces of an upload carry no key: its address, which nobody else knows, is what lets them in."""
    upload_id = request.query_params.get("upload_id", "")
    upload = core.state.meta(upload_id) if upload_id.startswith("upload_") else None
    if upload is None:
        raise refusal(404, "Upload not found.")
    return str(upload["account"])


def page_of(request: Request, count: int, default: int, most: int) -> tuple[int, int, dict[str, str]]:
    """(start, end, {"nextPageToken"} or {}) of a page of `count` things. A token is how many were seen."""
    size, start = request.query_params.get("pageSize", str(default)), request.query_params.get("pageToken", "0")
    if not size.isdigit() or not 1 <= int(size) <= most:
        raise refusal(400, f"* ListRequest.page_size: page_size must be in the range [1, {most}]")
    if not start.isdigit():
        raise refusal(400, "* ListRequest.page_token: invalid page token")
    end = int(start) + int(size)
    return int(start), end, {"nextPageToken": str(end)} if end < count else {}
