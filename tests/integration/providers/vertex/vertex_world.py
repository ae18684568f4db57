"""Jobs at Vertex: emulated over a Cloud Storage server, through Google's real clients."""

import os
from typing import Any

from gcs_server import GcsServer
from groupage.activities.providers.vertex import _as_proto
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
    def bucket(self) -> GcsServer:
        return GcsServer(os.environ["STORAGE_EMULATOR_HOST"])

    def left(self) -> list[str]:
        return self.bucket.keys()

    def content(self, ref: str) -> bytes:
        return self.bucket.read(_key(ref))

    def put(self, ref: str, data: bytes) -> None:
        """In the place of what is there."""
        key = _key(ref)
        if key in self.bucket.keys(key):
            self.bucket.delete(key)
        self.bucket.put(key, data)

    async def stranger(self) -> list[str]:
        self.put("groupage/somebody-elses.jsonl", b"")
        clients = self.adapter._clients
        ours = (await self.adapter.find(self.ref().tag, since=None, not_ids=[])).batch_id
        job = await self.adapter._job(ours)
        theirs = {"displayName": "somebody else's", "model": "publishers/google/models/gemini-2.5-flash"}
        theirs |= {name: job[name] for name in ("inputConfig", "outputConfig")}
        clients.jobs().create_batch_prediction_job(parent=clients.parent, batch_prediction_job=_as_proto(theirs))
        return ["groupage/somebody-elses.jsonl"]


def _key(ref: str) -> str:
    return ref.removeprefix("gs://groupage/")
