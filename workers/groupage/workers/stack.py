"""All that a command needs around it: store, Temporal (configured, or embedded), a worker in this process."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from groupage.client.config import temporal_connect_config
from groupage.client.connection import (
    UNREACHABLE,
    Connection,
    cannot_be_reached,
    connect_temporal,
    open_configured_store,
)
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
from temporalio.runtime import Runtime
from temporalio.service import RPCError

log = structlog.get_logger(__name__)

SWITCH_S = 0.0005
ATTACH_TIMEOUT_S = 60.0
"""From the first look at the embedded server to an answer: it may have to end first, then to start."""
ATTACH_PAUSE_S = 0.2

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
            if server:
                connection = await _attached(settings, store, server, sdk_runtime)
            else:
                connection = await connect_temporal(settings, store, runtime=sdk_runtime)
            stack = Stack(settings, store, connection, server)
            async with _beside(stack, workers) as others:
                main = asyncio.ensure_future(work(stack))
                try:
                    await asyncio.wait([main, *others], return_when=asyncio.FIRST_COMPLETED)
                    if main.done():
                        return _result_of(main, connection)
                finally:
                    await _cancelled(main)
                for other in others:
                    if other.done():
                        # Raises what ended a worker; a server that has moved returns.
                        other.result()
            log.warning("embedded_temporal_moved", address=server.record.address if server and server.record else None)


async def _attached(settings: Settings, store: Store, server: ServerUse, sdk_runtime: Runtime) -> Connection:
    """A connection to the embedded server that has answered on it.

    Nobody watches the server yet. It may be ending or dead although it was there a moment ago: killed, or told to
    stop from outside. Then it is started again, here as later by its watcher.
    """
    give_up_at = time.monotonic() + ATTACH_TIMEOUT_S
    while True:
        record = server.record
        assert record is not None
        try:
            connection = await connect_temporal(
                settings, store, address=record.address, ui_url=record.ui_url, runtime=sdk_runtime
            )
            await keep_ended_workflows(connection.temporal, EMBEDDED_RETENTION)
        except (GroupageError, RPCError) as error:
            if time.monotonic() > give_up_at:
                raise error if isinstance(error, GroupageError) else cannot_be_reached(record.address, error) from error
            log.info("embedded_temporal_did_not_answer", address=record.address, error=str(error))
        else:
            return connection
        await asyncio.sleep(ATTACH_PAUSE_S)
        await asyncio.to_thread(server.join)


def _result_of(work: "asyncio.Future[T]", connection: Connection) -> T:
    try:
        return work.result()
    except RPCError as error:
        if error.status not in UNREACHABLE:
            raise
        raise cannot_be_reached(connection.temporal.service_client.config.target_host, error) from error


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
