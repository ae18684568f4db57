"""Who calls: the access key of the request's signature. The signature itself is not checked."""

import hashlib
import re

from groupage.emulator.bedrock.errors import refusal
from groupage.emulator.core import Emulator
from starlette.requests import Request

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,]+)/\d{8}/([a-z0-9-]+)/bedrock/aws4_request")
ACCOUNT = "123456789012"


def authenticate(request: Request, core: Emulator) -> str:
    """The account's code. 403 without a signature, or with another key than the only one that is allowed."""
    given = request.headers.get("authorization", "")
    found = _CREDENTIAL.match(given)
    key = found[1] if found else given.partition(" ")[2] if given.startswith("Bearer ") else ""
    if not key:
        raise refusal(403, "Missing Authentication Token", "MissingAuthenticationTokenException")
    if core.settings.api_key is not None and key != core.settings.api_key:
        raise refusal(403, "The security token included in the request is invalid.", "UnrecognizedClientException")
    return "bedrock/" + hashlib.blake2b(key.encode(), digest_size=6).hexdigest()


def region_of(request: Request) -> str:
    found = _CREDENTIAL.match(request.headers.get("authorization", ""))
    return found[2] if found else "us-east-1"
