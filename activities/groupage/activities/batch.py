"""The activities around provider batches, bound to one context: names and types as workflows call them."""

from collections.abc import Callable
from typing import Any

from groupage.activities import cleanup, submission, sweep, waiting
from groupage.activities.failures import reported
from groupage.activities.registry import Context
from groupage.schemas import BatchStatus
from groupage.schemas.activity_calls import (
    AWAIT_BATCH,
    CANCEL_BATCH,
    CLEAN_UP_BATCH,
    READ_PROGRESS,
    SUBMIT_BATCH,
    SWEEP_ORPHANS,
    AwaitBatch,
    CancelBatch,
    CleanedUp,
    CleanUpBatch,
    Progress,
    ReadProgress,
    SubmitBatch,
    SubmittedBatch,
    SweepOrphans,
    Swept,
)
from temporalio import activity


class BatchActivities:
    """Each method reports our errors as what Temporal acts on."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @activity.defn(name=SUBMIT_BATCH.name)
    async def submit_batch(self, request: SubmitBatch) -> SubmittedBatch:
        with reported():
            return await submission.submit_batch(self.context, request)

    @activity.defn(name=AWAIT_BATCH.name)
    async def await_batch(self, request: AwaitBatch) -> BatchStatus:
        with reported():
            return await waiting.await_batch(self.context, request)

    @activity.defn(name=CANCEL_BATCH.name)
    async def cancel_batch(self, request: CancelBatch) -> BatchStatus:
        with reported():
            return await waiting.cancel_batch(self.context, request)

    @activity.defn(name=CLEAN_UP_BATCH.name)
    async def clean_up_batch(self, request: CleanUpBatch) -> CleanedUp:
        with reported():
            return await cleanup.clean_up_batch(self.context, request)

    @activity.defn(name=READ_PROGRESS.name)
    async def read_progress(self, request: ReadProgress) -> Progress:
        with reported():
            return await waiting.read_progress(self.context, request)

    @activity.defn(name=SWEEP_ORPHANS.name)
    async def sweep_orphans(self, request: SweepOrphans) -> Swept:
        with reported():
            return await sweep.sweep_orphans(self.context, request)


def batch_activities(context: Context) -> list[Callable[..., Any]]:
    """submit, await, cancel, clean up, read progress, sweep."""
    bound = BatchActivities(context)
    return [
        bound.submit_batch,
        bound.await_batch,
        bound.cancel_batch,
        bound.clean_up_batch,
        bound.read_progress,
        bound.sweep_orphans,
    ]
