"""Commands about jobs that exist: status, watch, results, cancel, decide, jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from groupage.cli.console import Console, cost, money
from groupage.cli.files import check_output
from groupage.cli.options import STDIN, positive_duration, split_key
from groupage.cli.process import run_until_signal
from groupage.cli.progress import EXIT_CODES, follow, remains, status_line
from groupage.cli.run import tell_end, write_results
from groupage.cli.settings import command_settings
from groupage.client import Groupage, Job
from groupage.client.connection import open_configured_store
from groupage.client.job import read_summary, status_of
from groupage.client.listing import ListedJob, list_ended, list_known
from groupage.client.troubles import Trouble, shown, with_troubles
from groupage.schemas import Decision, JobState, JobStatus, Summary
from groupage.schemas.errors import GroupageError, JobFailed, UsageError
from groupage.store.objects import Store
from groupage.store.segments import read_manifest_or_none
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack

T = TypeVar("T")

_DECIDED = {
    Decision.go_on: "it goes on",
    Decision.retry: "it goes on, and sends again what failed for good",
    Decision.accept: "it sends nothing more and finishes with what is there",
    Decision.abort: "it stops what runs, keeps what is answered, and ends as cancelled",
}


_REMAINS = {"maybe_paid_twice", "unsettled", "left_behind", "quarantined", "unreadable", "count_mismatches"}


class _Command:
    """What the commands about one job share: its name, settings, an open store."""

    def __init__(self, tenant: str, key: str, *, as_json: bool) -> None:
        self.tenant, self.key = split_key(tenant, key)
        self.name = f"{self.tenant}/{self.key}"
        self.console = Console(as_json=as_json)
        self.settings = command_settings()

    async def summary(self) -> tuple[Store, Summary | None]:
        store = await open_configured_store(self.settings)
        return store, await asyncio.to_thread(read_summary, store, self.tenant, self.key)

    async def with_job(self, work: Callable[[Job], Awaitable[T]], *, worker: bool) -> T:
        """Attach to the job, with a worker beside it if asked for, and do `work`."""

        async def attached(stack: Stack) -> T:
            job = await Groupage(stack.connection, stack.store).attach(self.key, self.tenant)
            if worker:
                await self._tell_other_queue(job, stack.connection.task_queue)
            return await work(job)

        return await run_with_stack(self.settings, attached, workers=WorkerPlan() if worker else None)

    async def _tell_other_queue(self, job: Job, ours: str) -> None:
        """The worker of this command does not help a job of another queue."""
        queue = await job.task_queue()
        if queue != ours:
            self.console.say(f"job {self.name} is on task queue {queue}; the worker of this command polls {ours}")

    def run(self, work: Callable[[], Any], *, stopped: str = "stopped") -> int:
        return int(run_until_signal(work, say=self.console.say, on_stop=lambda: stopped))


def show_status(tenant: str, key: str, *, as_json: bool) -> int:
    command = _Command(tenant, key, as_json=as_json)

    async def look(job: Job) -> tuple[JobStatus, str, list[Trouble]]:
        status, troubles = await job.status(), await job.troubles()
        return with_troubles(status, troubles), await job.task_queue(), troubles

    async def work() -> int:
        _, summary = await command.summary()
        status, queue, troubles = (
            await command.with_job(look, worker=False) if summary is None else (status_of(summary), "", [])
        )
        told = status.model_dump(mode="json", by_alias=True) | {"task_queue": queue or None}
        told["troubles"] = [trouble.text for trouble in troubles]
        if status.state.ended:
            # Health is about what may still come.
            told["health"] = None
        if summary is not None:
            told |= summary.model_dump(mode="json", include=_REMAINS)
        if as_json:
            command.console.data(told)
            return 0
        rows = [
            ("job", command.name),
            ("state", str(status.state)),
            ("health", told["health"] or ""),
            ("progress", status_line(status)),
            ("outcomes", ", ".join(f"{n:,} {outcome}" for outcome, n in status.outcomes.items() if n)),
            ("cost", f"{cost(status.cost_usd, status.unpriced, status.requests)}, waste {money(status.waste_usd)}"),
            ("deadline", f"{status.deadline_at:%F %T %Z}" if status.deadline_at else ""),
            ("task queue", queue),
            ("why", status.reason),
            *(("trouble", text) for text in shown(troubles)),
            *(("note", text) for text in (remains(summary) if summary is not None else ())),
            ("next", status.next_step),
        ]
        command.console.table("", ("", ""), [row for row in rows if row[1]])
        return 0

    return command.run(work)


def watch_job(tenant: str, key: str, *, worker: bool, as_json: bool) -> int:
    command = _Command(tenant, key, as_json=as_json)

    async def work() -> int:
        _, summary = await command.summary()
        if summary is None:
            summary = await command.with_job(lambda job: follow(job, command.console), worker=worker)
        _tell(command, summary)
        return EXIT_CODES[summary.state]

    return command.run(work, stopped=f"stopped; job {command.name} goes on wherever a worker runs, and at the provider")


def write_job_results(tenant: str, key: str, *, output: str, max_age: str | None, as_json: bool) -> int:
    command = _Command(tenant, key, as_json=as_json)
    check_output(output)
    oldest = positive_duration("--max-age", max_age) if max_age else None

    async def work() -> int:
        store, summary = await command.summary()
        if summary is None:
            # Raises UnknownJob where there is none.
            status = await command.with_job(lambda job: job.status(), worker=False)
            if status.state.ended:
                raise JobFailed(
                    f"job {command.name} ended {status.state} and has no results: {status.reason}",
                    hint=status.next_step,
                )
            raise UsageError(
                f"job {command.name} has not ended: it is {status.state}", hint=f"groupage watch {command.name}"
            )
        await asyncio.to_thread(_check_not_input, store, summary, output)
        await asyncio.to_thread(write_results, store, summary, output, oldest)
        tell_end(command.console, summary, output)
        return EXIT_CODES[summary.state]

    return command.run(work)


def _check_not_input(store: Store, summary: Summary, output: str) -> None:
    manifest = read_manifest_or_none(store, summary.tenant, summary.key)
    if manifest is not None and manifest.source != STDIN:
        check_output(output, manifest.source)


def cancel_job(tenant: str, key: str, *, reason: str, wait: bool, worker: bool, as_json: bool) -> int:
    command = _Command(tenant, key, as_json=as_json)

    async def ask(job: Job) -> Summary | None:
        await job.cancel(reason)
        return await follow(job, command.console) if wait else None

    async def work() -> int:
        _, summary = await command.summary()
        if summary is None:
            summary = await command.with_job(ask, worker=worker)
        else:
            command.console.say(f"job {command.name} has ended before: there is nothing to cancel")
        if summary is None:
            if as_json:
                command.console.data({"tenant": command.tenant, "key": command.key, "cancel_requested": True})
            else:
                command.console.say(f"job {command.name} is being cancelled")
                command.console.hint(f"groupage watch {command.name}")
        else:
            _tell(command, summary)
        # Cancelled is what was asked for.
        return 0

    return command.run(work, stopped=f"stopped; whether it is being cancelled says `groupage status {command.name}`")


def decide_job(tenant: str, key: str, decision: str, *, reason: str, worker: bool, as_json: bool) -> int:
    if decision not in Decision.__members__:
        raise UsageError(f"{decision!r} is no decision", hint=f"use one of {', '.join(Decision)}")
    command = _Command(tenant, key, as_json=as_json)

    async def work() -> int:
        _, summary = await command.summary()
        if summary is not None:
            raise UsageError(f"job {command.name} has ended: {summary.state}")
        await command.with_job(lambda job: job.decide(Decision(decision), reason), worker=worker)
        if as_json:
            command.console.data({"tenant": command.tenant, "key": command.key, "decision": decision})
        else:
            command.console.say(f"job {command.name}: {_DECIDED[Decision(decision)]}")
            command.console.hint(f"groupage watch {command.name}")
        return 0

    return command.run(work)


def list_jobs(tenant: str | None, *, limit: int, as_json: bool) -> int:
    console = Console(as_json=as_json)
    settings = command_settings()

    async def work() -> int:
        store = await open_configured_store(settings)
        ended = await asyncio.to_thread(list_ended, store, tenant)
        try:
            known = await run_with_stack(
                settings, lambda stack: list_known(stack.connection, tenant, limit), workers=None
            )
        except GroupageError as error:
            known = []
            console.say(f"only finished jobs are shown: {error}")
        found = {f"{job.tenant}/{job.key}": job for job in known} | {f"{job.tenant}/{job.key}": job for job in ended}
        newest = sorted(found.values(), key=ListedJob.moment, reverse=True)[:limit]
        if as_json:
            console.data([job.model_dump(mode="json") for job in newest])
        else:
            console.table(
                "",
                ("job", "state", "health", "requests", "answered", "cost", "waste", "started", "ended"),
                [_row(j) for j in newest],
            )
        return 0

    return run_until_signal(work, say=console.say, on_stop=lambda: "stopped")


def _row(job: ListedJob) -> tuple[str, ...]:
    return (
        f"{job.tenant}/{job.key}",
        str(job.state),
        str(job.health or ""),
        "" if job.requests is None else f"{job.requests:,}",
        "" if job.answered is None else f"{job.answered:,}",
        "" if job.cost_usd is None else money(job.cost_usd),
        "" if not job.waste_usd else money(job.waste_usd),
        f"{job.started_at:%F %T}" if job.started_at else "",
        f"{job.ended_at:%F %T}" if job.ended_at else "",
    )


def _tell(command: _Command, summary: Summary) -> None:
    tell_end(command.console, summary, "")
    if not command.console.as_json and summary.state is not JobState.failed:
        command.console.hint(f"groupage results {command.name} -o OUT.jsonl")
