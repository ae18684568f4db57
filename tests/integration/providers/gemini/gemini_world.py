"""Jobs at the Gemini API: emulated files and batches, through the real google-genai."""

import json
import urllib.request
from typing import Any

from job_world import JobWorld
from provider_world import Emulator

FLASH = "gemini-2.5-flash"
EMBEDDING = "gemini-embedding-001"
CLEARED = ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_HTTP_CLIENT")


def root_of(base_url: str) -> str:
    return base_url.removesuffix("/v1")


def variables_of(base_url: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "test", "GOOGLE_GEMINI_BASE_URL": root_of(base_url)}


class GeminiWorld(JobWorld):
    name = "gemini"
    model = FLASH

    def left(self) -> list[str]:
        """Result files are not ours to delete."""
        return [file["name"] for file in uploaded(self.emulator)]

    async def stranger(self) -> list[str]:
        (name,) = self.left()
        body = {"batch": {"displayName": "theirs", "inputConfig": {"fileName": name}}}
        ask(self.emulator, f"models/{FLASH}:batchGenerateContent", method="POST", body=body)
        return []


def ask(emulator: Emulator, path: str, *, method: str = "GET", body: Any = None) -> Any:
    """A call past every SDK."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{root_of(emulator.base_url)}/v1beta/{path}", data, {"x-goog-api-key": "test"}, method=method
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def uploaded(emulator: Emulator) -> list[dict[str, Any]]:
    """Input files that are there, as the API shows them."""
    return [file for file in ask(emulator, "files?pageSize=100")["files"] if file["source"] == "UPLOADED"]
