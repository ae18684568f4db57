"""What a killed worker had begun is given to another one at once, not after its timeout.

Temporal notices a dead worker when its activity's heartbeat or time runs out: a minute, or three.
Workers of one embedded server live on one machine, so it can be known at once: each holds a lock on
a file named like its identity, and the kernel drops the lock with the process. Whoever finds such
a file unlocked fails the attempts that still run under this name, so that they are retried elsewhere.

Activities are written to be run twice, also at the same time: an attempt that is failed by
mistake costs time, not money.
"""

import asyncio
import contextlib
import fcntl
import os
import uuid
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import structlog
from groupage.client.local_server import ServerFiles, try_lock
from groupage.client.state_folder import make_state_folder
from groupage.schemas.signals import BATCH_JOB, PROVIDER_BATCH
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 2.0
AGAIN_AFTER_S = 2.0
"""The server may hand one more task to a connection that has just broken."""
RETRY_AFTER = timedelta(milliseconds=200)
"""Without it the retry would wait as long as after many failed polls: five minutes."""
RUNNING = f"ExecutionStatus = 'Running' AND WorkflowType IN ('{BATCH_JOB}', '{PROVIDER_BATCH}')"
_GONE = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.FAILED_PRECONDITION})


def workers_directory(state_dir: Path) -> Path:
    return ServerFiles.of(state_dir).directory / "workers"


class Announced:
    """A worker that is known as alive. With `lost_contact` set, others take over from it when it has ended:
    what its last attempts brought may not have been reported.
    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.lost_contact = False


@contextlib.asynccontextmanager
async def announced_worker(state_dir: Path) -> AsyncGenerator[Announced, None]:
    """A worker of this process, known as alive for the block."""
    identity = f"groupage-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    directory = workers_directory(state_dir)
    make_state_folder(directory)
    path = directory / identity
    unnamed = directory / f".{identity}"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Locked before it has the name by which others find it.
        unnamed.rename(path)
        announced = Announced(identity)
        yield announced
        if not announced.lost_contact:
            _forget(path)
    finally:
        os.close(descriptor)


async def take_over_from_killed(client: Client, state_dir: Path) -> None:
    """Look for killed workers until cancelled."""
    directory = workers_directory(state_dir)
    while True:
        for path in sorted(directory.glob("groupage-*")):
            await _take_over(client, path)
        await asyncio.sleep(LOOK_EVERY_S)


async def _take_over(client: Client, path: Path) -> None:
    # The lock also keeps others from doing the same at the same time.
    with try_lock(path) as dead:
        if not dead:
            return
        try:
            freed = await fail_attempts_of(client, path.name)
            await asyncio.sleep(AGAIN_AFTER_S)
            freed += await fail_attempts_of(client, path.name)
        except RPCError as error:
            # The server is being restarted: the file stays, and the next look does it all again.
            log.info("take_over_postponed", worker=path.name, reason=error.message)
            return
        _forget(path)
        log.info("taken_over", worker=path.name, activities=freed)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


async def fail_attempts_of(client: Client, identity: str) -> int:
    """Fail, as retryable, every activity attempt that runs under this worker's identity. Returns how many."""
    freed = 0
    async for seen in client.list_workflows(RUNNING):
        handle = client.get_workflow_handle(seen.id, run_id=seen.run_id)
        described = await handle.describe()
        for pending in described.raw_description.pending_activities:
            if (
                pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
                or pending.last_worker_identity != identity
            ):
                continue
            attempt = client.get_async_activity_handle(
                workflow_id=seen.id, run_id=seen.run_id, activity_id=pending.activity_id
            )
            error = ApplicationError("its worker was killed", type="worker_killed", next_retry_delay=RETRY_AFTER)
            try:
                await attempt.fail(error)
            except RPCError as gone:
                if gone.status not in _GONE:
                    raise
            else:
                freed += 1
    return freed
