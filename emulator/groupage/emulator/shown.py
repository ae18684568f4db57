"""What a caller is shown of batches, by all providers alike, and what the fault plan makes of it."""

from datetime import UTC, datetime
from typing import Any

from groupage.emulator.core import Emulator
from groupage.emulator.life import Batch


def visible(core: Emulator, account: str, dialect: str | None = None) -> list[Batch]:
    """The account's batches that can be seen now, newest first; of all dialects, or of one."""
    return [
        batch
        for batch in reversed(core.state.batches.values())
        if dialect in (None, batch.dialect) and core.find_batch(account, batch.id)
    ]


def held_back(batch: Batch, ended_at: float | None, now: float) -> bool:
    """Whether the effect `late_output` keeps the results of a batch that has ended from being seen."""
    late = batch.effect("late_output")
    return late is not None and ended_at is not None and now < ended_at + late["seconds"]


def shown_word(batch: Batch, status: str, usual: Any) -> Any:
    """`usual`, unless the effect `status_word` has another word (or null) for batches that are in `status`."""
    words = [one["word"] for one in batch.effects if one["effect"] == "status_word" and one["during"] == status]
    return words[-1] if words else usual


def zulu(at: float, timespec: str = "microseconds") -> str:
    """A time as JSON of Google and AWS has it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
