"""Numbers that are ours. A provider's own limits are in `ProviderLimits`, filled by its adapter."""

from groupage.schemas._base import Message
from pydantic import Field

PAYLOAD_MAX_BYTES = 32 * 1024
"""Largest message through Temporal; Temporal itself warns at 512 KiB, fails at 2 MiB."""

REQUEST_ID_MAX_BYTES = 4 * 1024
"""Longest caller's id, UTF-8. With the labels it fits the index's 16-bit body offset."""

LABELS_MAX_BYTES = 16 * 1024
LINE_MAX_BYTES = 32 * 1024 * 1024
"""A longer input line is an invalid line; providers' own per-line limits are below it."""

SEGMENT_REQUESTS = 8192
SEGMENT_BYTES = 8 * 1024 * 1024
"""A segment is closed at whichever comes first: what one reader holds in memory."""

FAILURE_MESSAGE_MAX = 1000
"""Characters of an error message kept in Temporal: failures over 4 KiB are cut by the server."""

FORBIDDEN_IN_A_ROW = 5
"""So many requests that are refused with a 403, and not one that is answered meanwhile: the account may be refused."""

PROBLEMS_SHOWN = 20
"""Invalid lines that are quoted in a message; the whole list is in rejected.jsonl.zst."""


class ProviderLimits(Message):
    """What one provider batch may hold. Source: the adapter's comment beside each number."""

    max_requests: int = Field(gt=0)
    max_bytes: int = Field(gt=0)
    max_line_bytes: int = Field(gt=0)
    max_tokens: int | None = None
    """Estimated prompt tokens of one batch; None: no known limit."""
    max_inputs: int | None = None
    """Inputs of all requests of one batch for embeddings; None: no known limit."""
    min_requests: int = 1
    completion_window_s: int = 86_400
