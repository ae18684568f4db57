"""All that a command needs around it: store, Temporal (configured, or embedded), a worker in this process."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from groupage.client.config import temporal_connect_config
from groupage.client.connection import Connection, connect_temporal, open_configured_store
from groupage.schemas.errors import GroupageError
from groupage.schemas.signals import TASK_QUEUE
from groupage.store.objects import Store
from groupage.workers.embedded import ServerUse, embedded_server
from groupage.workers.memory import bound_allocator
from groupage.workers.namespace import EMBEDDED_RETENTION, keep_ended_workflows
from groupage.workers.plugin import Role
from groupage.workers.settings import Settings
from groupage.workers.spool import spool_directory
from groupage.workers.takeover import Announced, announced_worker, take_over_from_killed
from groupage.workers.telemetry import runtime
from groupage.workers.worker import worker_in_process

log = structlog.get_logger(__name__)

SWITCH_S = 0.0005

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stack:
    """What the work is given. `server` is None where a server is configured."""

    settings: Settings
    store: Store
    connection: Connection
    server: ServerUse | None


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Which workers run beside the work. `every_queue` adds `groupage` itself, for jobs that are
    started with plain JSON, where the store's own queue is another one.
    """

    role: Role = Role.all
    every_queue: bool = False

    def queues(self, connection: Connection) -> list[str]:
        both = [connection.task_queue, TASK_QUEUE] if self.every_queue else [connection.task_queue]
        return list(dict.fromkeys(both))


async def run_with_stack(
    settings: Settings,
    work: Callable[[Stack], Awaitable[T]],
    *,
    workers: WorkerPlan | None,
    embedded: bool | None = None,
) -> T:
    """Run `work` with a stack around it and return what it returns.

    `embedded`: use the embedded server, or not; None: if no server is configured.

    If the embedded server dies it is started again; should it come back at another address, `work` is
    cancelled and called anew with a new connection, so it must be safe to begin again. A worker that
    ends by a fatal error ends `work` too.
    """
    if workers:
        bound_allocator()
        # The event loop that moves files and answers Temporal gets its turn at once, not after 5 ms for each
        # thread that parses: a million requests took 36 s instead of 53 in one process.
        sys.setswitchinterval(SWITCH_S)
    store = await open_configured_store(settings)
    sdk_runtime = runtime(settings.metrics)
    async with AsyncExitStack() as outer:
        server = None
        if embedded or (embedded is None and temporal_connect_config() is None):
            server = await outer.enter_async_context(embedded_server(settings.state_dir))
        # All activities are async and move what blocks to the loop's default executor, of CPUs + 4 threads usually.
        executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="groupage")
        asyncio.get_running_loop().set_default_executor(executor)
        while True:
            record = server.record if server else None
            connection = await connect_temporal(
                settings,
                store,
                address=record.address if record else None,
                ui_url=record.ui_url if record else None,
                runtime=sdk_runtime,
            )
            if server:
                await keep_ended_workflows(connection.temporal, EMBEDDED_RETENTION)
            stack = Stack(settings, store, connection, server)
            async with _beside(stack, workers) as others:
                main = asyncio.ensure_future(work(stack))
                try:
                    await asyncio.wait([main, *others], return_when=asyncio.FIRST_COMPLETED)
                    if main.done():
                        return main.result()
                finally:
                    await _cancelled(main)
                for other in others:
                    if other.done():
                        # Raises what ended a worker; a server that has moved returns.
                        other.result()
            log.warning("embedded_temporal_moved", address=server.record.address if server and server.record else None)


@asynccontextmanager
async def _beside(stack: Stack, workers: WorkerPlan | None) -> AsyncGenerator[list[asyncio.Task[None]], None]:
    """The tasks that run beside the work: workers, and for the embedded server those that watch it and its users."""
    async with AsyncExitStack() as inner:
        tasks: list[asyncio.Task[None]] = []
        announced: Announced | None = None
        if workers:
            if stack.server:
                announced = await inner.enter_async_context(announced_worker(stack.settings.state_dir))
                looking = take_over_from_killed(stack.connection.temporal, stack.settings.state_dir)
                tasks.append(_started(looking, inner))
            spool_dir = inner.enter_context(spool_directory(stack.settings.state_dir))
            for queue in workers.queues(stack.connection):
                worker = worker_in_process(
                    stack.connection.temporal,
                    stack.settings,
                    queue,
                    spool_dir=spool_dir,
                    role=workers.role,
                    identity=announced.identity if announced else None,
                )
                tasks.append(await inner.enter_async_context(worker))
                log.info("worker_started", task_queue=queue, role=str(workers.role), store=stack.store.url)
        if stack.server:
            tasks.append(_started(_watch(stack.server, announced), inner))
        yield tasks


async def _watch(server: ServerUse, announced: Announced | None) -> None:
    """Keep the server up; returns when it has moved."""
    await server.watch()
    if announced is not None:
        announced.lost_contact = True


def _started(work: Coroutine[Any, Any, None], until: AsyncExitStack) -> "asyncio.Task[None]":
    """The work as a task that is cancelled when the stack unwinds."""
    task = asyncio.create_task(work)
    until.push_async_callback(_cancelled, task)
    return task


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel and wait; what the task raised was for others to see, or is superseded."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, GroupageError):
        log.debug("ended_with_error", task=str(task), error=repr(error))


async def serve(
    settings: Settings, workers: WorkerPlan | None, stop: asyncio.Event, ready: Callable[[Stack], None]
) -> None:
    """Keep the stack up until `stop` is set; `ready` is called with each new connection."""

    async def work(stack: Stack) -> None:
        ready(stack)
        await stop.wait()

    await run_with_stack(settings, work, workers=workers)
