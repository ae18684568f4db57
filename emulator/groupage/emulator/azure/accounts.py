"""Who calls: one resource, by its key or by an Entra token that the emulator's own identity endpoint gave out.

The key comes as `api-key` or, on v1, as a bearer token. Key and tokens open the same account: who changes from
one to the other finds the same files and batches.
"""

import hashlib
import hmac
import re

from groupage.emulator.azure.errors import refusal
from groupage.emulator.core import Emulator
from starlette.requests import Request

ACCOUNT = "azure/resource"
VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
V1_VERSIONS = ("v1", "preview", "latest")
_TOKEN = re.compile(r"entra\.(\d+)\.([0-9a-f]{32})")
_SECRET = b"the emulator's own"


def is_legacy(request: Request) -> bool:
    return not request.url.path.startswith("/openai/v1/")


def new_token(core: Emulator, life_s: float) -> str:
    """A bearer token that the API takes for so long by the emulator's clock."""
    ends = int(core.clock.now() + life_s)
    return f"entra.{ends}.{_signature(ends)}"


def _signature(ends: int) -> str:
    return hmac.new(_SECRET, str(ends).encode(), hashlib.sha256).hexdigest()[:32]


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code. 401 without a key or token, with a wrong or an old one; 404 without an API version."""
    version = request.query_params.get("api-version")
    fits = VERSION.fullmatch(version or "") if is_legacy(request) else version in (None, *V1_VERSIONS)
    if not fits:
        raise refusal(404)
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    key = request.headers.get("api-key") or ""
    if not key and scheme.lower() == "bearer":
        if bearer.startswith("entra."):
            _check_token(bearer, core)
            return ACCOUNT
        # The older surface takes tokens there, and no keys.
        key = "" if is_legacy(request) else bearer
    if not key or (core.settings.api_key is not None and key != core.settings.api_key):
        raise refusal(401)
    return ACCOUNT


def _check_token(token: str, core: Emulator) -> None:
    found = _TOKEN.fullmatch(token)
    if found is None or not hmac.compare_digest(found[2], _signature(int(found[1]))):
        raise refusal(401, "The access token is invalid.", "Unauthorized")
    if core.clock.now() >= int(found[1]):
        raise refusal(401, "The access token has expired.", "Unauthorized")


def nobody(_request: Request, _core: Emulator) -> str:
    """For what is asked without a key."""
    return ACCOUNT
