"""What batch objects of several providers have in common: counts, times, and which of several is the furthest."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from groupage.schemas import BatchPhase, BatchStatus

_RANKS = [
    BatchPhase.completed,
    BatchPhase.finalizing,
    BatchPhase.expired,
    BatchPhase.in_progress,
    BatchPhase.validating,
    BatchPhase.unknown,
    BatchPhase.cancelling,
    BatchPhase.cancelled,
    BatchPhase.failed,
]
"""From the furthest on: of two batches with one tag the one that has more answers, or will, is kept."""


def rank(status: BatchStatus) -> int:
    """0 for the furthest; for sorting."""
    return _RANKS.index(status.phase)


def furthest(tag: str, matches: Sequence[BatchStatus], kind: str = "batches") -> BatchStatus | None:
    """The one to keep of all that carry the tag; its warning names the rest. None where there is none."""
    if not matches:
        return None
    first, *rest = sorted(matches, key=rank)
    if not rest:
        return first
    others = ", ".join(f"{each.batch_id} ({each.raw_state})" for each in rest)
    return first.model_copy(update={"warning": f"more {kind} carry the tag {tag}: {others}"})


def count_told(value: Any) -> int:
    """A count, -1 where it is not told. Proto JSON writes it as text."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1


def read_time(value: Any) -> datetime | None:
    """Epoch seconds (OpenAI) or an ISO 8601 text (Azure's samples) as UTC; None for everything else."""
    try:
        if isinstance(value, str):
            text = value.strip()
            if not text.replace(".", "", 1).isdigit():
                at = datetime.fromisoformat(text)
                return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
            value = float(text)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
