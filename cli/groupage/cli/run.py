"""`groupage run` and `groupage submit`."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from groupage.cli.console import Console
from groupage.cli.files import check_output, write_whole
from groupage.cli.options import STDIN, STDOUT, JobOptions
from groupage.cli.process import run_until_signal
from groupage.cli.progress import EXIT_CODES, follow, summary_lines
from groupage.client import Job
from groupage.client.config import load_settings
from groupage.client.connection import open_configured_store
from groupage.client.job import read_summary
from groupage.client.submission import accept, spooled_input, start_job
from groupage.schemas import JobManifest, Summary
from groupage.schemas.errors import UsageError
from groupage.store.objects import Store
from groupage.store.reader import JobResults, claim_results
from groupage.workers.credentials import check_provider
from groupage.workers.memory import bound_allocator
from groupage.workers.settings import Settings
from groupage.workers.spool import spool_directory
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack
from groupage.workers.telemetry import configure_logging

CLEAN_UP_AT_MOST = timedelta(seconds=30)


def run_job(options: JobOptions, *, output: str, worker: bool, as_json: bool) -> int:
    """Submit, wait, write. Everything of it may be repeated after any kill."""
    console = Console(as_json=as_json)
    configure_logging("warning", "console", tracebacks=False)
    settings = load_settings(Settings)
    check_output(output)
    if worker:
        bound_allocator()
    accepted: list[JobManifest] = []

    async def work() -> int:
        store = await open_configured_store(settings)
        manifest = await _accept(options, settings, store)
        accepted.append(manifest)
        summary = await asyncio.to_thread(read_summary, store, manifest.tenant, manifest.key)
        if summary is None:
            if worker:
                check_provider(settings, store, options.provider, options.profile)
            summary = await _run_to_end(options, settings, manifest, console, output=output, worker=worker)
        else:
            console.say(f"job {manifest.tenant}/{manifest.key} has ended before: these are its results")
            await asyncio.to_thread(write_results, store, summary, output)
        tell_end(console, summary, output)
        return EXIT_CODES[summary.state]

    def how_to_go_on() -> str:
        if not accepted:
            return "stopped; nothing was sent"
        name = f"{accepted[0].tenant}/{accepted[0].key}"
        return (
            f"stopped; job {name} is durable and goes on at the provider\n"
            f"  → go on: the same command again, or `groupage watch {name}`\n"
            f"  → cancel it: `groupage cancel {name}`"
        )

    return run_until_signal(work, say=console.say, on_stop=how_to_go_on)


def submit_job(options: JobOptions, *, as_json: bool) -> int:
    """Hand in and return."""
    console = Console(as_json=as_json)
    configure_logging("warning", "console", tracebacks=False)
    settings = load_settings(Settings)

    async def work() -> int:
        store = await open_configured_store(settings)
        manifest = await _accept(options, settings, store)

        async def start(stack: Stack) -> tuple[bool, Job]:
            return await _start(stack, options, manifest), Job(stack.connection, store, manifest.tenant, manifest.key)

        started, job = await run_with_stack(settings, start, workers=None)
        name = f"{manifest.tenant}/{manifest.key}"
        if as_json:
            console.data(
                {
                    "tenant": manifest.tenant,
                    "key": manifest.key,
                    "workflow_id": job.workflow_id,
                    "requests": manifest.requests,
                    "rejected": manifest.rejected,
                    "fingerprint": manifest.fingerprint,
                    "running": started,
                }
            )
        elif started:
            console.say(f"job {name} is accepted: {manifest.requests:,} requests, {manifest.rejected:,} rejected")
            console.hint(f"follow it: `groupage watch {name}`; results: `groupage results {name} -o OUT.jsonl`")
        else:
            console.say(f"job {name} has ended before")
            console.hint(f"results: `groupage results {name} -o OUT.jsonl`")
        return 0

    return run_until_signal(
        work, say=console.say, on_stop=lambda: "stopped; submit again: the same input is the same job"
    )


async def _accept(options: JobOptions, settings: Settings, store: Store) -> JobManifest:
    with spool_directory(settings.state_dir) as folder:
        async with spooled_input(
            sys.stdin.buffer if options.source == STDIN else _input_file(options.source),
            provider=options.provider,
            model=options.model,
            endpoint=options.endpoint,
            on_invalid=options.policy.on_invalid,
            directory=folder,
        ) as spooled:
            return await accept(store, spooled, tenant=options.tenant, key=options.key, source=options.source)


def _input_file(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{source} is not a file" if path.exists() else f"there is no file {source}")
    return path


async def _start(stack: Stack, options: JobOptions, manifest: JobManifest) -> bool:
    return await start_job(
        stack.connection,
        stack.store,
        manifest,
        deadline=options.deadline,
        profile=options.profile,
        model=options.model,
        endpoint=options.endpoint,
        labels=options.labels,
        policy=options.policy,
    )


async def _run_to_end(
    options: JobOptions, settings: Settings, manifest: JobManifest, console: Console, *, output: str, worker: bool
) -> Summary:
    """Run the job and write its results; they are there before the provider's files are deleted."""

    async def work(stack: Stack) -> Summary:
        await _start(stack, options, manifest)
        job = Job(stack.connection, stack.store, manifest.tenant, manifest.key)
        console.say(f"job {job.tenant}/{job.key}: {manifest.requests:,} requests to {manifest.provider}")
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
    if read_summary(store, summary.tenant, summary.key) is None:
        write_whole(output, lambda _: 0)
        return
    results = JobResults(store, summary.tenant, summary.key)
    write_whole(output, lambda file: results.copy_to(file, max_age))
    claim_results(store, summary.tenant, summary.key)


def tell_end(console: Console, summary: Summary, output: str) -> None:
    if console.as_json:
        told = summary.model_dump(mode="json", by_alias=True)
        told |= {"output": output, "exit_code": EXIT_CODES[summary.state]}
        # stdout may hold the results themselves.
        console.data(told, to_stderr=output == STDOUT)
        return
    for line in summary_lines(summary):
        console.say(line)
    if output != STDOUT:
        console.say(f"results: {output}")
