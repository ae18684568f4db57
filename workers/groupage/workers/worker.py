"""One worker in this process."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from pathlib import Path

import structlog
from groupage.workers.plugin import GroupagePlugin, Role
from groupage.workers.settings import Settings
from temporalio.client import Client
from temporalio.worker import Worker

log = structlog.get_logger(__name__)

STICKY_TIMEOUT = timedelta(seconds=4)
"""How long a workflow waits for the worker that knows it, and may be dead, before any other replays it. The
default of 10 s suits long histories; ours are short."""


@contextlib.asynccontextmanager
async def worker_in_process(
    client: Client,
    settings: Settings,
    task_queue: str,
    *,
    spool_dir: Path,
    role: Role = Role.all,
    identity: str | None = None,
) -> AsyncGenerator[asyncio.Task[None], None]:
    """Run a worker for the block; yields its task, which ends early only by a fatal error.

    Leaving stops polling, lets activities finish for `graceful_shutdown`, then cancels them:
    Temporal gives them to another worker.
    """
    worker = Worker(
        client,
        task_queue=task_queue,
        identity=identity,
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        plugins=[GroupagePlugin(settings, role=role, spool_dir=spool_dir)],
    )
    running = asyncio.create_task(worker.run(), name=f"worker {task_queue}")
    try:
        yield running
    finally:
        if not running.done():
            await worker.shutdown()
        await asyncio.wait([running])


@contextlib.contextmanager
def stop_on_signals() -> Generator[asyncio.Event, None, None]:
    """An event that SIGTERM, SIGINT or SIGHUP sets; the second signal of a kind acts as usual."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def on_signal(number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        loop.remove_signal_handler(number)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
