"""The activities that move data: names and types as workflows call them.

Work that blocks runs in threads, told to stop when the activity is cancelled; the event loop stays
free for heartbeats (TE-06).
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from groupage.activities.collecting import Limits, collect_batch
from groupage.activities.failures import reported
from groupage.activities.finalizing import finalize_job
from groupage.activities.heartbeat import heartbeating
from groupage.activities.planning import plan_round
from groupage.activities.preparing import prepare_job
from groupage.activities.providers.base import facts_about
from groupage.activities.registry import Context
from groupage.activities.sync_runner import SyncProgress, SyncRunner, run_sync_shard
from groupage.activities.threads import in_thread
from groupage.schemas import RoundPlan, ShardReport, Summary
from groupage.schemas.activity_calls import (
    COLLECT_BATCH,
    FINALIZE_JOB,
    PLAN_ROUND,
    PREPARE_JOB,
    RUN_SYNC_SHARD,
    CollectBatch,
    FinalizeJob,
    PlanRound,
    PreparedJob,
    PrepareJob,
    RunSyncShard,
)
from temporalio import activity


class DataActivities:
    """Each method reports our errors as what Temporal acts on."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def spool(self) -> Path:
        """Scratch space on the local disk; nothing in it outlives an activity."""
        return self.context.settings.spool_dir or Path(gettempdir()) / "groupage-spool"

    @activity.defn(name=PREPARE_JOB.name)
    async def prepare_job(self, request: PrepareJob) -> PreparedJob:
        with reported():
            spec = request.spec
            provider = self.context.provider(spec.provider, spec.profile)
            dialect = facts_about(provider, "").dialect
            async with heartbeating(self.context.settings.heartbeat_s):
                return await in_thread(
                    partial(prepare_job, self.context.store, provider, request, self.spool, dialect=dialect)
                )

    @activity.defn(name=PLAN_ROUND.name)
    async def plan_round(self, request: PlanRound) -> RoundPlan:
        with reported():
            provider = self.context.provider_of(request.job)
            async with heartbeating(self.context.settings.heartbeat_s):
                return await in_thread(partial(plan_round, self.context.store, provider, request, self.spool))

    @activity.defn(name=COLLECT_BATCH.name)
    async def collect_batch(self, request: CollectBatch) -> ShardReport:
        not_visible = timedelta(seconds=self.context.settings.not_visible_s)
        limits = Limits(self.spool, not_visible, heavy=self.context.heavy)
        with reported():
            provider = self.context.provider_of(request.shard.job)
            async with heartbeating(self.context.settings.heartbeat_s):
                return await collect_batch(self.context.store, provider, request, limits)

    @activity.defn(name=RUN_SYNC_SHARD.name)
    async def run_sync_shard(self, request: RunSyncShard) -> ShardReport:
        runners: list[SyncRunner] = []

        def progress() -> SyncProgress:
            return runners[0].progress() if runners else SyncProgress()

        with reported():
            provider = self.context.provider_of(request.shard.job)
            async with heartbeating(self.context.settings.heartbeat_s, progress):
                return await run_sync_shard(
                    self.context.store,
                    provider,
                    request,
                    spool=self.spool,
                    watch=runners.append,
                    keeps_on_cancel=_cancelled_by_workflow,
                )

    @activity.defn(name=FINALIZE_JOB.name)
    async def finalize_job(self, request: FinalizeJob) -> Summary:
        with reported():
            async with heartbeating(self.context.settings.heartbeat_s):
                return await in_thread(partial(finalize_job, self.context.store, request, self.spool))


def _cancelled_by_workflow() -> bool:
    """False where the worker goes away: then another attempt goes on with the shard."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


def data_activities(context: Context) -> list[Callable[..., Any]]:
    """The activities of this module, to be registered with a worker."""
    bound = DataActivities(context)
    return [bound.prepare_job, bound.plan_round, bound.collect_batch, bound.run_sync_shard, bound.finalize_job]
