"""Who calls: one API key is one account, as at OpenAI's side, and none of its batches are seen there."""

import hashlib

from groupage.emulator.anthropic.errors import refusal
from groupage.emulator.core import Emulator
from starlette.requests import Request

VERSION = "anthropic-version"


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code, from `x-api-key` or a bearer token: the SDK has sent both, by version."""
    key = request.headers.get("x-api-key")
    if not key:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = token if scheme.lower() == "bearer" else ""
    if not key:
        raise refusal(401, "x-api-key header is required")
    if core.settings.api_key is not None and key != core.settings.api_key:
        raise refusal(401, "invalid x-api-key")
    if not request.headers.get(VERSION):
        raise refusal(400, f"{VERSION}: header is required")
    return "anthropic/" + hashlib.blake2b(key.encode(), digest_size=6).hexdigest()
