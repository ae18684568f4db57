"""Following a job until it ends: a bar on a terminal, plain lines elsewhere, both on stderr."""

import asyncio
import time
from types import TracebackType
from typing import Protocol, Self

from groupage.cli.console import Console, cost, money
from groupage.client import Job
from groupage.schemas import Health, JobState, JobStatus, Summary
from groupage.schemas.errors import GroupageError
from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LOOK_EVERY_S = 1.0
LINE_EVERY_S = 30.0
"""Elsewhere than on a terminal a line is written when the state changes, and so often in between."""

EXIT_CODES = {
    JobState.completed: 0,
    JobState.completed_with_failures: 3,
    JobState.failed: 4,
    JobState.cancelled: 4,
}


class _Display(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def show(self, status: JobStatus) -> None: ...

    def say(self, text: str) -> None: ...


class _Lines:
    """For logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[object, ...] = ()
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return

    def show(self, status: JobStatus) -> None:
        mark = (status.state, status.round, status.shards_done)
        if mark == self._shown and time.monotonic() - self._shown_at < LINE_EVERY_S:
            return
        self._shown, self._shown_at = mark, time.monotonic()
        self._console.say(status_line(status))

    def say(self, text: str) -> None:
        self._console.say(text)


class _Bar:
    """For terminals."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rest]}"),
            TimeElapsedColumn(),
            console=RichConsole(stderr=True),
        )
        self._task = self._progress.add_task("accepted", total=None, rest="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._progress.stop()

    def show(self, status: JobStatus) -> None:
        shards = f"shard {status.shards_done}/{status.shards}" if status.shards else ""
        self._progress.update(
            self._task,
            description=f"{status.state} round {status.round}" if status.shards else str(status.state),
            total=status.requests or None,
            completed=status.answered,
            rest=f"{shards} {cost_so_far(status)}".strip(),
        )

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)


def status_line(status: JobStatus) -> str:
    """`running: 1,250 of 2,000 answered, round 0, 3 of 8 shards done, $0.12`"""
    answered = f": {status.answered:,} of {status.requests:,} answered" if status.requests else ""
    parts = [f"{status.state}{answered}"]
    if status.shards:
        parts.append(f"round {status.round}, {status.shards_done} of {status.shards} shards done")
    if status.rejected:
        parts.append(f"{status.rejected:,} lines rejected")
    if status.requests:
        parts.append(cost_so_far(status))
    if status.waste_usd:
        parts.append(f"waste {money(status.waste_usd)}")
    return ", ".join(parts)


def cost_so_far(status: JobStatus) -> str:
    """Of requests without a price as many as there are in the job: which of them are answered is not told."""
    told = cost(status.cost_usd, status.unpriced, status.requests)
    return f"cost {told}" if status.unpriced else told


def estimate_line(status: JobStatus) -> str:
    """What the job may cost, once its requests have been read; empty before."""
    if not status.requests or status.state in {JobState.accepted, JobState.preparing}:
        return ""
    estimate = cost(status.estimated_cost_usd, status.unpriced, status.requests)
    limits = ", if every request uses its whole output limit" if status.estimated_cost_usd is not None else ""
    return f"estimate by batch: {estimate}{limits}"


async def follow(job: Job, console: Console) -> Summary:
    """Show progress until the job has ended; returns its summary. Raises what `Job.wait` raises."""
    waiting = asyncio.ensure_future(job.wait())
    display: _Display = _Bar() if console.is_terminal and not console.as_json else _Lines(console)
    told = estimate = ""
    try:
        with display:
            while not waiting.done():
                try:
                    status = await job.live_status()
                except GroupageError as error:
                    # Waiting sits an outage out and decides what is fatal; here it is only said, once.
                    news = f"{error}; waiting"
                else:
                    if not estimate:
                        estimate = estimate_line(status)
                        if estimate:
                            display.say(estimate)
                    display.show(status)
                    news = what_it_waits_for(job, status)
                if news and news != told:
                    display.say(news)
                told = news
                await asyncio.wait([waiting], timeout=LOOK_EVERY_S)
        return waiting.result()
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])


def what_it_waits_for(job: Job, status: JobStatus) -> str:
    """Words for a job that does not go on by itself; empty for others."""
    name = f"{job.tenant}/{job.key}"
    if status.health is Health.unclaimed:
        return f"job {name} waits: {status.reason}\n  → {status.next_step}"
    if status.state is not JobState.needs_decision:
        return ""
    step = status.next_step or f"`groupage decide {name} go_on|retry|accept|abort`"
    return f"job {name} waits for your decision: {status.reason}\n  → {step}"


def _doubtful(summary: Summary) -> str:
    """Which ones those are."""
    batches = len(summary.unsettled)
    calls = summary.maybe_paid_twice - sum(summary.unsettled.values())
    parts = [f"{calls:,} sync calls were cut off by a killed worker"] if calls else []
    if batches:
        parts.append(f"{batches:,} batches had not ended when the job did (look again later)")
    return "; ".join(parts)


def summary_lines(summary: Summary) -> list[str]:
    """What a person wants to know at the end."""
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in summary.outcomes.items() if n)
    guess = " (estimated)" if summary.cost_estimated else ""
    paid = f"cost {cost(summary.cost_usd, summary.unpriced, summary.requests)}"
    if summary.cost_usd or not summary.unpriced:
        paid += f"{guess}, by sync it would have been {money(summary.sync_cost_usd)}"
    if summary.waste_usd:
        paid += f", paid without an answer {money(summary.waste_usd)}"
    lines = [f"{summary.state}: {summary.requests:,} requests: {outcomes or 'nothing to do'}", paid]
    if summary.reason:
        lines.append(f"why: {summary.reason}")
    lines += [f"{n:,} × {error}" for error, n in summary.error_messages or summary.top_errors]
    return lines + remains(summary)


def remains(summary: Summary) -> list[str]:
    """What of an ended job a person may have to look after: money in doubt, odd lines, what was left at the provider."""
    lines = []
    if summary.maybe_paid_twice:
        lines.append(f"{summary.maybe_paid_twice:,} requests may have been paid for twice: {_doubtful(summary)}")
    if summary.quarantined:
        lines.append(f"{summary.quarantined:,} result lines carried no known id and were put aside")
    if summary.unreadable:
        lines.append(
            f"{summary.unreadable:,} result lines could not be read: if they were billed, it is in no sum here"
        )
    lines += [f"counts disagree: {text}" for text in summary.count_mismatches]
    if summary.left_behind:
        lines.append(f"left at the provider: {', '.join(summary.left_behind)}")
    return lines
