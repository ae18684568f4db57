"""The provider tests' world with Azure OpenAI in it: both surfaces, by key and by token, the real openai SDK."""

import json
import urllib.request
from typing import Any

from job_world import CHAT, JobWorld  # noqa: F401  # the tests take CHAT from here
from provider_world import Emulator

DEPLOYMENT = "gpt-4o-mini.batch-1"
LEGACY = {"OPENAI_API_VERSION": "2024-10-21"}
CLEARED = (
    *(
        "AZURE_OPENAI_BASE_URL",
        "AZURE_OPENAI_API_KEY",
        "AZURE_OPENAI_AD_TOKEN",
        "OPENAI_API_VERSION",
        "AZURE_CLIENT_ID",
    ),
    *("AZURE_TENANT_ID", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_OPENAI_ENDPOINT", "AZURE_TOKEN_CREDENTIALS"),
)


def root_of(emulator: Emulator) -> str:
    return emulator.base_url.removesuffix("/v1")


def identity_of(emulator: Emulator) -> dict[str, str]:
    """What App Service tells a process of its managed identity; no other credential is tried, so none asks a network."""
    return {
        "IDENTITY_ENDPOINT": f"{root_of(emulator)}/_azure/identity",
        "IDENTITY_HEADER": "loopback",
        "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
    }


def token_of(emulator: Emulator) -> str:
    """One of the emulator's tokens."""
    url = f"{root_of(emulator)}/_azure/identity?api-version=2019-08-01&resource=https://cognitiveservices.azure.com"
    request = urllib.request.Request(url, headers={"X-IDENTITY-HEADER": "loopback"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return str(json.loads(reply.read())["access_token"])


def variables_of(base_url: str) -> dict[str, str]:
    """v1 by key."""
    return {"AZURE_OPENAI_ENDPOINT": base_url.removesuffix("/v1"), "AZURE_OPENAI_API_KEY": "right"}


class AzureWorld(JobWorld):
    name = "azure"
    model = DEPLOYMENT

    async def file(self, file_id: str) -> dict[str, Any]:
        sdk = await self.adapter._sdk()
        return (await sdk.files.retrieve(file_id)).model_dump()

    async def stranger(self) -> list[str]:
        sdk = await self.adapter._sdk()
        return [(await sdk.files.create(file=("mine.jsonl", b"{}\n"), purpose="batch")).id]
