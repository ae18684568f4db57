"""What one provider batch does: its script, and what the provider says of it as time goes on."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass
from groupage.schemas.activity_calls import SubmittedBatch
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory


@dataclass
class Script:
    """What one provider batch does. `answers` is how many of its requests it answers, None: all.

    `turnaround_s` from submission to its end; `cancel_s` from the cancel call to its end (None: never
    by itself, it ends at its turnaround). `progress` is the share answered when it is cancelled.
    """

    turnaround_s: float = 3600.0
    answers: int | None = None
    rest: ErrorClass = ErrorClass.expired
    phase: BatchPhase = BatchPhase.completed
    error: BatchError | None = None
    cancel_s: float | None = 1.0
    progress: float = 0.0
    refuse: list[BatchError] = field(default_factory=list)
    """Each submission attempt takes one of these, until there are none left."""
    submit_s: float = 0.0
    """Real seconds that submitting takes."""
    doubt_s: float = 0.0
    """Server seconds for which nobody can tell whether the create call made a batch."""
    lost: bool = False
    """It made none, as turns out at the end of the doubt."""
    gone: bool = False
    """The provider does not know its batch any more."""


@dataclass
class Batch:
    id: str
    shard: tuple[int, int]
    script: Script
    submitted_at: datetime
    members: list[int]
    cancelled_at: datetime | None = None

    def ends_at(self) -> datetime:
        end = self.submitted_at + timedelta(seconds=self.script.turnaround_s)
        if self.cancelled_at is not None and self.script.cancel_s is not None:
            end = min(end, self.cancelled_at + timedelta(seconds=self.script.cancel_s))
        return end

    def in_doubt(self, at: datetime) -> bool:
        return at < self.submitted_at + timedelta(seconds=self.script.doubt_s)

    def submitted(self, *, adopted: bool) -> SubmittedBatch:
        return SubmittedBatch(
            batch_id=self.id,
            adopted=adopted,
            submitted_at=self.submitted_at,
            input_files=[f"in-{self.id}"],
            requests=len(self.members),
        )

    def status(self, now: datetime) -> BatchStatus:
        total = len(self.members)
        if now < self.ends_at():
            phase = BatchPhase.cancelling if self.cancelled_at is not None else BatchPhase.in_progress
            return BatchStatus(batch_id=self.id, phase=phase, raw_state=phase, total=total, completed=self.done(now))
        cut_short = self.cancelled_at is not None and self.ends_at() < self.submitted_at + timedelta(
            seconds=self.script.turnaround_s
        )
        phase = BatchPhase.cancelled if cut_short else self.script.phase
        failed = phase is BatchPhase.failed and self.script.error is not None
        return BatchStatus(
            batch_id=self.id,
            phase=phase,
            raw_state=phase,
            total=total,
            completed=0 if failed else self.done(now),
            error=self.script.error if failed else None,
            output_files=[] if failed else [f"out-{self.id}"],
        )

    def done(self, now: datetime) -> int:
        total = len(self.members)
        full = total if self.script.answers is None else self.script.answers
        if now >= self.submitted_at + timedelta(seconds=self.script.turnaround_s):
            return full
        return min(full, int(total * self.script.progress))


def waiting(text: str, next_s: float) -> ApplicationError:
    """As activities fail that are to look again."""
    return ApplicationError(
        text, type="waiting", category=ApplicationErrorCategory.BENIGN, next_retry_delay=timedelta(seconds=next_s)
    )


def in_doubt() -> ApplicationError:
    return waiting("it is not known yet whether it was submitted", next_s=1)


def failure(error: BatchError) -> ApplicationError:
    return ApplicationError(error.message, error, type=f"provider.{error.error_class}", non_retryable=True)


async def passed(gate: asyncio.Event | None) -> None:
    """Return when the gate is open; None is no gate."""
    if gate is not None:
        await gate.wait()
