"""A batch's life as a pure function of its record and the clock.

The record holds what was decided (turnaround, effects, when cancel was asked) and what work has been
done (input checked, results written). Everything else follows, so a restart changes nothing. Work
that takes longer than the schedule holds the visible state back and moves nothing else: no batch is
in progress before its input is checked, or completed before its files are there.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

WINDOW_S = 24 * 3600.0
CHECK_SHARE, RUN_SHARE = 0.1, 0.95
"""Of the turnaround: validating takes the first tenth, finalizing the last twentieth."""
CHECK_MAX_S = 60.0
CANCELLING_PACE = 0.25
"""While cancelling, lines go on finishing at this share of the usual pace (docs/cases.md PO-15)."""


@dataclass(slots=True)
class Checked:
    """What reading the input file brought."""

    total: int = 0
    tokens: int = 0
    model: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Done:
    """The results that were written. Money is in USD."""

    completed: int = 0
    failed: int = 0
    output_file_id: str | None = None
    error_file_id: str | None = None
    billed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(slots=True)
class Batch:
    """One batch as stored. Times are virtual Unix seconds; `number` counts batches from 1."""

    id: str
    number: int
    account: str
    created_at: float
    endpoint: str
    input_file_id: str
    turnaround: float
    cancel_s: float
    visible_from: float
    metadata: dict[str, str] | None = None
    output_expires_s: int | None = None
    effects: list[dict[str, Any]] = field(default_factory=list)
    cancel_at: float | None = None
    checked: Checked | None = None
    done: Done | None = None
    dialect: str = "openai"
    """Whose lines it holds: a name in dialects.py."""
    announced: int = 0
    """Requests as counted when it was created; 0 where that is found out later."""
    deleted: bool = False
    window_s: float = WINDOW_S
    """After it the provider ends the batch as expired."""

    def effect(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self.effects if one["effect"] == name), None)

    @property
    def expires_at(self) -> float:
        return math.inf if self.effect("never_expires") else self.created_at + self.window_s


def load_batch(data: dict[str, Any]) -> Batch:
    checked, done = data.pop("checked"), data.pop("done")
    return Batch(
        **data,
        checked=Checked(**checked) if checked else None,
        done=Done(**done) if done else None,
    )


@dataclass(frozen=True, slots=True)
class Course:
    """How a batch goes if nobody touches it any more.

    It works from `start` for `run` seconds, not counting a stall. `ending` is completed, expired,
    cancelled or failed; at `settled_at` nothing can change that any more and results can be written;
    at `end_at` it has ended, unless the writing takes longer. `share` of the requests are finished then.
    """

    start: float
    run: float
    stall_from: float = math.inf
    stall_for: float = 0.0
    stall_at: float = 0.0
    """Share of the requests that are finished during the stall."""
    ending: str = "completed"
    settled_at: float = math.inf
    end_at: float = math.inf
    share: float = 1.0

    @property
    def run_end(self) -> float:
        return self.start + self.run + (self.stall_for if self.stall_from < math.inf else 0.0)

    def progress(self, now: float) -> float:
        """Share of the requests that have finished by `now`, cancel and expiry aside."""
        if now > self.stall_from:
            now -= self.stall_for
            if now <= self.stall_from:
                return self.stall_at
        if now <= self.start:
            return 0.0
        return 1.0 if self.run <= 0 else min(1.0, (now - self.start) / self.run)


def course_of(batch: Batch) -> Course:
    """Needs `checked`."""
    assert batch.checked is not None
    start = batch.created_at + min(batch.turnaround * CHECK_SHARE, CHECK_MAX_S)
    if batch.checked.errors:
        return Course(start, 0.0, ending="failed", settled_at=start, end_at=start, share=0.0)
    run = max(0.0, batch.created_at + batch.turnaround * RUN_SHARE - start)
    stall, expire, queue = batch.effect("stall"), batch.effect("expire"), batch.effect("queue")
    start += queue["seconds"] if queue else 0.0
    free = Course(start, run)
    if stall:
        lasts = math.inf if stall["seconds"] is None else float(stall["seconds"])
        free = Course(start, run, start + stall["at"] * run, lasts, stall["at"])
    expires_at, by_plan = batch.expires_at, False
    if expire:
        at = start + expire["at"] * run
        at += free.stall_for if at > free.stall_from else 0.0
        by_plan = at < expires_at
        expires_at = min(expires_at, at)
    cancel_at = math.inf if batch.cancel_at is None else batch.cancel_at
    if cancel_at < min(free.run_end, expires_at):
        return _cancelled(batch, free, cancel_at)
    if expires_at < free.run_end or by_plan:
        # By the plan's own share: reckoning it from times would be one request off now and then.
        share = expire["at"] if expire and by_plan else free.progress(expires_at)
        return replace(free, ending="expired", settled_at=expires_at, end_at=expires_at, share=share)
    finalizing = batch.turnaround * (1 - RUN_SHARE)
    return replace(free, settled_at=free.run_end, end_at=free.run_end + finalizing)


def _cancelled(batch: Batch, free: Course, cancel_at: float) -> Course:
    slow = batch.effect("slow_cancel")
    lasts = batch.cancel_s
    if slow:
        lasts = math.inf if slow["seconds"] is None else float(slow["seconds"])
    end = cancel_at + lasts
    share = _share_while_cancelling(free, cancel_at, end)
    return replace(free, ending="cancelled", settled_at=end, end_at=end, share=share)


def _share_while_cancelling(course: Course, cancel_at: float, now: float) -> float:
    if cancel_at < course.start:
        return 0.0
    then = course.progress(cancel_at)
    return then + (course.progress(now) - then) * CANCELLING_PACE


@dataclass(frozen=True, slots=True)
class View:
    """What a batch looks like at one moment. `completed` and `failed` are request counts."""

    status: str
    total: int
    completed: int
    failed: int
    ended_at: float | None
    course: Course | None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None


def view(batch: Batch, now: float) -> View:
    checked = batch.checked
    if checked is None:
        return View("validating" if batch.cancel_at is None else "cancelling", 0, 0, 0, None, None)
    course = course_of(batch)
    if course.ending == "failed":
        over = now >= course.end_at
        # An input that cannot be read has no requests that could be counted.
        return View("failed" if over else "validating", 0, 0, 0, course.end_at if over else None, course)
    if batch.done is not None and now >= course.end_at:
        done = batch.done
        return View(course.ending, checked.total, done.completed, done.failed, course.end_at, course)
    return View(_running(batch, course, now), *_counts(checked.total, course, now, batch), None, course)


def _running(batch: Batch, course: Course, now: float) -> str:
    if batch.cancel_at is not None and now >= batch.cancel_at:
        return "cancelling"
    if now < course.start:
        return "validating"
    return "finalizing" if now >= course.settled_at else "in_progress"


def _counts(total: int, course: Course, now: float, batch: Batch) -> tuple[int, int, int]:
    if course.ending == "cancelled" and batch.cancel_at is not None and now > batch.cancel_at:
        share = _share_while_cancelling(course, batch.cancel_at, now)
    else:
        share = course.progress(now)
    # The margin undoes the rounding of times: 0.6 of 100 requests is 60, not 59.
    return total, int(min(share, course.share) * total + 1e-6), 0


def finished_count(total: int, course: Course) -> int:
    """How many requests are finished when a batch ends."""
    return int(course.share * total + 1e-6)


def next_change(batch: Batch) -> float:
    """When work on this batch is due next (virtual time); infinity if there is none."""
    if batch.checked is None:
        return batch.created_at
    if batch.done is not None:
        return math.inf
    course = course_of(batch)
    return math.inf if course.ending == "failed" else course.settled_at
