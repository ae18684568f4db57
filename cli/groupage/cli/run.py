"""`groupage run` and `groupage submit`."""

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from groupage.cli.console import Console
from groupage.cli.files import check_output, write_whole
from groupage.cli.options import STDIN, STDOUT, JobOptions
from groupage.cli.process import run_until_signal
from groupage.cli.progress import EXIT_CODES, follow, summary_lines
from groupage.cli.settings import command_settings
from groupage.client import Job
from groupage.client.config import temporal_connect_config
from groupage.client.connection import is_polled, open_configured_store
from groupage.client.job import read_summary
from groupage.client.providers import check_known
from groupage.client.submission import accept, spooled_input, start_job
from groupage.schemas import JobManifest, Summary
from groupage.schemas.catalog import load_catalog
from groupage.schemas.errors import UsageError
from groupage.schemas.ids import job_workflow_id
from groupage.store.intake import SpooledInput, default_key
from groupage.store.objects import Store
from groupage.store.reader import JobResults, claim_results
from groupage.workers.credentials import check_provider
from groupage.workers.embedded import started_ahead
from groupage.workers.memory import bound_allocator
from groupage.workers.settings import Settings
from groupage.workers.spool import spool_directory
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack

CLEAN_UP_AT_MOST = timedelta(seconds=30)
INTAKE_PROCESSES = 4
START_AHEAD_BYTES = 16 << 20
"""From this size of input on, reading it takes as long as starting the embedded server."""


@dataclass
class Progress:
    """How far a command has come: what is true of the job if it is stopped now."""

    name: str = ""
    """tenant/key, once it is accepted."""
    started: bool = False


def run_job(options: JobOptions, *, output: str, worker: bool, as_json: bool) -> int:
    """Submit, wait, write. Everything of it may be repeated after any kill."""
    console = Console(as_json=as_json)
    settings = command_settings()
    check_output(output, options.source)
    if worker:
        bound_allocator()
    progress = Progress()

    async def work() -> int:
        store = await open_configured_store(settings)
        async with _server_ahead(options, settings), AsyncExitStack() as spool:
            spooled = await _spool(options, settings, spool)
            summary = await _ended_before(options, spooled, store)
            if summary is None:
                if worker:
                    check_provider(settings, store, options.provider, options.profile)
                else:
                    await _check_known(options, settings, store, console)
                handing_in = _HandingIn(options, spooled, spool, progress)
                summary = await _run_to_end(handing_in, settings, console, output=output, worker=worker)
            else:
                await _accept(options, spooled, store)
                console.say(f"job {summary.tenant}/{summary.key} has ended before: these are its results")
                await asyncio.to_thread(write_results, store, summary, output)
        tell_end(console, summary, output)
        return EXIT_CODES[summary.state]

    return run_until_signal(work, say=console.say, on_stop=lambda: how_to_go_on(progress, worker=worker))


def how_to_go_on(progress: Progress, *, worker: bool) -> str:
    if not progress.name:
        return "stopped; nothing was sent"
    if not progress.started:
        return (
            f"stopped; job {progress.name} is accepted, but this command had not started it yet\n"
            "  → start it: the same command again"
        )
    goes_on = (
        "what is at the provider already goes on there, the rest waits for a worker"
        if worker
        else "it goes on with the worker that it has"
    )
    return (
        f"stopped; job {progress.name} is started and durable: {goes_on}\n"
        f"  → go on: the same command again, or `groupage watch {progress.name}`\n"
        f"  → cancel it: `groupage cancel {progress.name}`"
    )


def submit_job(options: JobOptions, *, as_json: bool) -> int:
    """Hand in and return."""
    console = Console(as_json=as_json)
    settings = command_settings()

    async def work() -> int:
        async with AsyncExitStack() as spool:
            spooled = await _spool(options, settings, spool)
            await _check_known(options, settings, await open_configured_store(settings), console)
            handing_in = _HandingIn(options, spooled, spool, Progress())
            manifest, started, queue, polled = await run_with_stack(settings, handing_in.submit, workers=None)
        name = f"{manifest.tenant}/{manifest.key}"
        if as_json:
            console.data(
                {
                    "tenant": manifest.tenant,
                    "key": manifest.key,
                    "workflow_id": job_workflow_id(manifest.tenant, manifest.key),
                    "requests": manifest.requests,
                    "rejected": manifest.rejected,
                    "fingerprint": manifest.fingerprint,
                    "running": started,
                    "task_queue": queue,
                    "polled": polled,
                }
            )
        elif started:
            console.say(f"job {name} is accepted: {manifest.requests:,} requests, {manifest.rejected:,} rejected")
            if polled is False:
                console.say(f"no worker polls task queue {queue} now: nothing moves until one does")
                console.hint("start one: `groupage worker`, `groupage dev` or `groupage watch`")
            console.hint(f"follow it: `groupage watch {name}`; results: `groupage results {name} -o OUT.jsonl`")
        else:
            console.say(f"job {name} has ended before")
            console.hint(f"results: `groupage results {name} -o OUT.jsonl`")
        return 0

    return run_until_signal(
        work, say=console.say, on_stop=lambda: "stopped; submit again: the same input is the same job"
    )


class _HandingIn:
    """Acceptance and start, once a server is connected. May be called again: the server may have moved.

    Nothing is accepted before, so that a command that cannot start its job leaves its key free.
    """

    def __init__(self, options: JobOptions, spooled: SpooledInput, spool: AsyncExitStack, progress: Progress) -> None:
        self._options = options
        self._spooled = spooled
        self._spool = spool
        self._progress = progress
        self._manifest: JobManifest | None = None

    async def start(self, stack: Stack) -> tuple[JobManifest, bool]:
        """The manifest, and False where the job has ended before."""
        if self._manifest is None:
            self._manifest = await _accept(self._options, self._spooled, stack.store)
            self._progress.name = f"{self._manifest.tenant}/{self._manifest.key}"
            await self._spool.aclose()
        options = self._options
        started = await start_job(
            stack.connection,
            stack.store,
            self._manifest,
            deadline=options.deadline,
            profile=options.profile,
            model=options.model,
            endpoint=options.endpoint,
            labels=options.labels,
            policy=options.policy,
        )
        self._progress.started = True
        return self._manifest, started

    async def submit(self, stack: Stack) -> tuple[JobManifest, bool, str, bool | None]:
        """As `start`, with the task queue and whether anybody polls it."""
        manifest, started = await self.start(stack)
        queue = stack.connection.task_queue
        return manifest, started, queue, await is_polled(stack.connection.temporal, queue)


def _server_ahead(options: JobOptions, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Start the embedded server, if it will be needed, while a large input is read."""
    source = Path(options.source)
    large = options.source != STDIN and source.is_file() and source.stat().st_size >= START_AHEAD_BYTES
    return started_ahead(settings.state_dir) if large and temporal_connect_config() is None else nullcontext()


async def _spool(options: JobOptions, settings: Settings, until: AsyncExitStack) -> SpooledInput:
    folder = until.enter_context(spool_directory(settings.state_dir))
    return await until.enter_async_context(
        spooled_input(
            sys.stdin.buffer if options.source == STDIN else _input_file(options.source),
            provider=options.provider,
            model=options.model,
            endpoint=options.endpoint,
            on_invalid=options.policy.on_invalid,
            directory=folder,
            processes=min(INTAKE_PROCESSES, os.cpu_count() or 1),
        )
    )


async def _accept(options: JobOptions, spooled: SpooledInput, store: Store) -> JobManifest:
    return await accept(store, spooled, tenant=options.tenant, key=options.key, source=options.source)


async def _ended_before(options: JobOptions, spooled: SpooledInput, store: Store) -> Summary | None:
    key = options.key or default_key(spooled.fingerprint)
    return await asyncio.to_thread(read_summary, store, options.tenant, key)


async def _check_known(options: JobOptions, settings: Settings, store: Store, console: Console) -> None:
    """A worker elsewhere may know more providers than this process. Raises UsageError where none does."""
    configured = {name.partition("/")[0] for name in settings.providers}
    if options.provider in configured or load_catalog(settings.catalog).get(options.provider) is not None:
        return
    if not await asyncio.to_thread(check_known, store, options.provider):
        console.say(f"provider {options.provider} is neither in the catalog nor in the settings here")
        console.hint("its worker must know it; `groupage catalog` lists what everybody knows")


def _input_file(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{source} is not a file" if path.exists() else f"there is no file {source}")
    return path


async def _run_to_end(
    handing_in: _HandingIn, settings: Settings, console: Console, *, output: str, worker: bool
) -> Summary:
    """Run the job and write its results; they are there before the provider's files are deleted."""

    async def work(stack: Stack) -> Summary:
        manifest, _ = await handing_in.start(stack)
        job = Job(stack.connection, stack.store, manifest.tenant, manifest.key)
        console.say(f"job {job.tenant}/{job.key}: {manifest.requests:,} requests to {manifest.provider}")
        if not manifest.requests:
            console.hint("the input has no request: the job ends at once, with an empty output")
        if job.url:
            console.say(f"Web UI while this runs: {job.url}")
        summary = await follow(job, console)
        await asyncio.to_thread(write_results, stack.store, summary, output)
        if worker and not await job.wait_for_clean_up(CLEAN_UP_AT_MOST):
            console.say("files at the provider are still to be deleted: the next worker goes on with that")
        return summary

    return await run_with_stack(settings, work, workers=WorkerPlan() if worker else None)


def write_results(store: Store, summary: Summary, output: str, max_age: timedelta | None = None) -> None:
    """All result lines to the output. A job that was cancelled before its input was read has none."""
    kept = f"the job has ended and its results are kept: `groupage results {summary.tenant}/{summary.key} -o OUT.jsonl`"
    if read_summary(store, summary.tenant, summary.key) is None:
        write_whole(output, lambda _: 0, hint=kept)
        return
    results = JobResults(store, summary.tenant, summary.key)
    write_whole(output, lambda file: results.copy_to(file, max_age), hint=kept)
    claim_results(store, summary.tenant, summary.key)


def tell_end(console: Console, summary: Summary, output: str) -> None:
    """`output` is where the results were written, empty where they were not."""
    if console.as_json:
        told = summary.model_dump(mode="json", by_alias=True)
        told |= {"output": output, "exit_code": EXIT_CODES[summary.state]}
        # stdout may hold the results themselves.
        console.data(told, to_stderr=output == STDOUT)
        return
    for line in summary_lines(summary):
        console.say(line)
    if output not in {"", STDOUT}:
        console.say(f"results: {output}")
