"""Commands that stay: worker, dev, emulator."""

import asyncio
from collections.abc import Sequence

from groupage.cli.console import Console
from groupage.client.config import load_settings, temporal_connect_config
from groupage.client.local_server import find_local_server
from groupage.schemas.errors import UsageError
from groupage.workers.embedded import find_binary, stop_if_unused
from groupage.workers.plugin import Role
from groupage.workers.settings import Settings
from groupage.workers.stack import Stack, WorkerPlan, serve
from groupage.workers.telemetry import configure_logging
from groupage.workers.worker import stop_on_signals


def run_worker(*, only: str | None, task_queue: str | None, metrics: str | None) -> int:
    """A worker process of a deployment."""
    if only is not None and only not in (Role.workflows, Role.activities):
        raise UsageError(f"--only {only}: not known", hint="use workflows or activities")
    settings = load_settings(Settings, task_queue=task_queue, metrics=metrics)
    configure_logging(settings.log_level, settings.log_format)
    plan = WorkerPlan(role=Role(only or Role.all), every_queue=settings.task_queue is None)
    asyncio.run(_serve(settings, plan, Console(as_json=False)))
    return 0


def run_dev(*, worker: bool) -> int:
    """The embedded stack in the foreground."""
    if temporal_connect_config() is not None:
        raise UsageError(
            "a Temporal server is configured: there is nothing to embed",
            hint="unset TEMPORAL_ADDRESS and TEMPORAL_PROFILE, or run `groupage worker`",
        )
    settings = load_settings(Settings)
    configure_logging(settings.log_level, settings.log_format)
    plan = WorkerPlan(every_queue=settings.task_queue is None) if worker else None
    asyncio.run(_serve(settings, plan, Console(as_json=False)))
    return 0


def stop_dev() -> int:
    """Stop a server that killed processes have left running."""
    configure_logging("warning", "console", tracebacks=False)
    settings = load_settings(Settings)
    console = Console(as_json=False)
    if find_local_server(settings.state_dir) is None:
        console.say("no embedded Temporal is running")
    elif stop_if_unused(settings.state_dir):
        console.say("the embedded Temporal is stopped; its jobs are kept")
    else:
        console.say("others use the embedded Temporal, and would start it again: stop them first")
        return 1
    return 0


async def _serve(settings: Settings, plan: WorkerPlan | None, console: Console) -> None:
    def ready(stack: Stack) -> None:
        connection = stack.connection
        address = connection.temporal.service_client.config.target_host
        console.say(f"Temporal {address}, namespace {connection.temporal.namespace}, store {stack.store.url}")
        if connection.ui_url:
            console.say(f"Web UI {connection.ui_url}")
            console.say(f"for the temporal command ({find_binary()}): export TEMPORAL_ADDRESS={address}")
        queues = ", ".join(plan.queues(connection)) if plan else "none (--no-worker)"
        console.say(f"task queues: {queues}; stop with Ctrl-C")

    with stop_on_signals() as stop:
        await serve(settings, plan, stop, ready)


def run_emulator(arguments: Sequence[str]) -> int:
    """Hand over to `python -m groupage.emulator`."""
    from groupage.emulator.__main__ import main

    try:
        return main(list(arguments))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
