"""The provider tests' world with Vertex in it: emulated jobs over a Cloud Storage server, Google's real clients."""

from typing import Any

from groupage.activities.providers.vertex import VertexProvider
from job_world import JobWorld, chat_body

GEMINI = "gemini-2.5-flash"
CLAUDE = "claude-haiku-4-5@20251001"
PROJECT, LOCATION = "test-project", "us-central1"
ROOT = "groupage/"
"""Under it everything of ours lies in the bucket."""


def variables_of(base_url: str) -> dict[str, str]:
    return {
        "GROUPAGE_VERTEX_API_ENDPOINT": base_url.removesuffix("/v1"),
        "GROUPAGE_VERTEX_DATA": "gs://groupage/groupage",
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "GOOGLE_CLOUD_LOCATION": LOCATION,
    }


def body_of(n: int, model: str = GEMINI) -> dict[str, Any]:
    return chat_body(n, model)


class VertexWorld(JobWorld):
    name = "vertex"
    model = GEMINI

    @property
    def adapter(self) -> VertexProvider:
        provider = self.context.provider("vertex")
        assert isinstance(provider, VertexProvider)
        return provider
