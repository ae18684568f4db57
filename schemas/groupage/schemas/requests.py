"""What a caller hands in: one request."""

from typing import Any

from groupage.schemas._base import Message
from groupage.schemas.written import Written
from pydantic import Field

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
)
"""Endpoints of OpenAI and its relatives that the adapters read answers of."""

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
DEFAULT_ENDPOINT = CHAT

NATIVE_ENDPOINTS: dict[str, tuple[str, ...]] = {
    "anthropic": ("/v1/messages",),
    "bedrock": ("/invoke", "/converse"),
    "gemini": ("/generateContent", "/embedContent"),
    "vertex": ("/generateContent", "/rawPredict"),
}
"""Providers that do not speak OpenAI, and the endpoints that take their own bodies as they are.

`/invoke` takes an InvokeModel body, `/converse` a Converse one; `/rawPredict` is Claude on Vertex. Chat and
embeddings requests for these providers are translated (groupage.schemas.portable).
"""

_PORTABLE: dict[str, tuple[str, ...]] = {
    "anthropic": (CHAT,),
    "bedrock": (CHAT, EMBEDDINGS),
    "gemini": (CHAT, EMBEDDINGS),
    "vertex": (CHAT,),
}


def endpoints_of(provider: str) -> tuple[str, ...]:
    """The endpoints that requests for a provider may have."""
    natives = NATIVE_ENDPOINTS.get(provider)
    return ENDPOINTS if natives is None else _PORTABLE[provider] + natives


class Request(Written):
    """One LLM call. `id` is the caller's, any text, kept and returned, never sent.

    `body` is the provider's request body for `endpoint`, with its model in it. `labels` are free
    text pairs that come back with the result and into the ledger.
    """

    id: str = Field(min_length=1)
    endpoint: str = DEFAULT_ENDPOINT
    body: dict[str, Any]
    labels: dict[str, str] = Field(default_factory=dict)


class Rejected(Message):
    """One input line that cannot be sent: a row of requests/rejected.jsonl.zst.

    `index` counts input lines that are not blank from 0; `line` is the physical line from 1.
    """

    index: int
    line: int
    code: str
    message: str
    excerpt: str = ""

    def one_line(self) -> str:
        shown = f" — {self.excerpt}" if self.excerpt else ""
        return f"line {self.line}: {self.message} [{self.code}]{shown}"


class RequestGroup(Message):
    """Requests that may share a provider batch: same endpoint, same model."""

    endpoint: str
    model: str
    requests: int
    bytes: int
    """Sum of the body bytes."""
    tokens: int
    """Estimated prompt tokens (4 bytes of text a token), not a bill."""
    max_output_tokens: int
    """Sum of the bodies' own output limits, or of the default guess where a body has none."""


class SegmentInfo(Message):
    requests: int
    bytes: int
    """Uncompressed size of the segment."""


class JobManifest(Message):
    """`requests/manifest.json`: put once, on condition that there is none. It makes the job accepted."""

    version: int = 1
    tenant: str
    key: str
    salt: str
    token: str
    fingerprint: str
    provider: str
    requests: int
    """Input lines that are not blank, the rejected ones included."""
    rejected: int
    groups: list[RequestGroup]
    segments: list[SegmentInfo]
    accepted_at: str
    source: str = ""
