"""A managed identity's endpoint, as App Service has it (api-version 2019-08-01): where azure-identity gets tokens.

IDENTITY_ENDPOINT=http://127.0.0.1:P/_azure/identity IDENTITY_HEADER=anything
"""

import time
from typing import Any

from groupage.emulator.azure.accounts import new_token
from groupage.emulator.azure.errors import refusal
from groupage.emulator.calls import Call, Reply, json_reply

PATH = "/_azure/identity"
LIFE_S = 3600.0
RESOURCES = ("https://cognitiveservices.azure.com", "https://ai.azure.com")


def error_of(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    return {"statusCode": status, "message": f"{code or 'error'}: {message or 'no token to be had'}"}


async def token(call: Call) -> Reply:
    """A token for an hour. Its end is told in real time, which is what the client's clock shows."""
    request = call.request
    resource = request.query_params.get("resource", "").rstrip("/")
    if not request.headers.get("x-identity-header"):
        raise refusal(401, "X-IDENTITY-HEADER is missing.")
    if resource not in RESOURCES:
        raise refusal(400, f"The resource '{resource}' is not known.")
    return json_reply(
        {
            "access_token": new_token(call.core, LIFE_S),
            "expires_on": str(int(time.time() + LIFE_S)),
            "resource": resource,
            "token_type": "Bearer",
        }
    )
