"""Looking for a shard's batch at the provider, and dealing with more than one."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from groupage.activities.failures import waiting
from groupage.activities.intents import IntentLog, Window, read_log, settled_at
from groupage.activities.providers.base import BatchProvider, Doubt, UntaggedProvider, traits_of
from groupage.activities.registry import Context
from groupage.activities.turns import account_of, made_by_others
from groupage.schemas import BatchStatus, ShardRef
from groupage.schemas.activity_calls import AwaitBatch
from groupage.schemas.errors import ProviderError
from groupage.store.segments import read_manifest
from groupage.store.shards import read_shard_plan
from temporalio import activity

CLOCK_SKEW = timedelta(minutes=2)
"""A provider's clock may be so far from ours when its batches are told by their time."""


async def look(
    context: Context, shard: ShardRef, log: IntentLog, not_ids: Sequence[str]
) -> tuple[BatchStatus | None, list[BatchStatus]]:
    """(the batch that counts, all others that carry the tag). The recorded one counts, else the furthest."""
    provider = context.provider_of(shard.job)
    if not traits_of(provider).tags:
        return await _look_without_tags(context, shard, log, not_ids), []
    since = log.last.first_at if log.last else await asyncio.to_thread(_accepted_at, context, shard)
    files = log.last.files if log.last else []
    found: list[BatchStatus] = []
    while True:
        known = [*not_ids, *(batch.batch_id for batch in found)]
        batch = await provider.find(shard.tag, since=since, not_ids=known, files=files)
        if batch is None:
            break
        found.append(batch)
        if not batch.warning:
            break
    if not found:
        return None, []
    chosen = next((batch for batch in found if batch.batch_id == log.created_id), found[0])
    return chosen, [batch for batch in found if batch is not chosen]


def still_unknown(shard: ShardRef, at: datetime, window: Window) -> Exception:
    """What is raised while nobody can know whether a batch was made: look again in a while."""
    left = max(0.0, (at - datetime.now(UTC)).total_seconds())
    return waiting(
        f"it is not known yet whether {shard.tag} was submitted; proven by {at:%H:%M:%S} UTC",
        delay_s=min(left + 0.1, max(1.0, window.window_s / 10)),
    )


async def look_in_listing(context: Context, request: AwaitBatch) -> BatchStatus | None:
    """A batch that the provider does not find by its id, as its listing of what carries the tag shows it.

    Raises `waiting` where the listing cannot be had: nobody knows then.
    """
    shard = request.shard
    log = await asyncio.to_thread(read_log, context.store, shard)
    try:
        found, others = await look(context, shard, log, [])
    except ProviderError as error:
        message = f"{request.batch_id} is not found, and the listing cannot be looked at: {error}"
        raise waiting(message, delay_s=max(request.poll_s, error.retry_after_s or 0.0)) from error
    return next((batch for batch in (found, *others) if batch and batch.batch_id == request.batch_id), None)


async def _look_without_tags(
    context: Context, shard: ShardRef, log: IntentLog, not_ids: Sequence[str]
) -> BatchStatus | None:
    """What the last create call may have made. None while that is not settled: it may not be visible yet, and
    what is there may be somebody else's; None, too, where it is known whether it made one.
    """
    window = context.window_of(shard.job)
    at = settled_at(log, window)
    if log.last is None or at is None or datetime.now(UTC) < at:
        return None
    job, store = shard.job, context.store
    plan = await asyncio.to_thread(read_shard_plan, store, job.tenant, job.key, shard.round, shard.shard)
    ours = await asyncio.to_thread(made_by_others, store, account_of(job), shard.tag)
    last_call = log.end.at if log.end else log.last.at + timedelta(seconds=window.longest_s)
    doubt = Doubt(
        tag=shard.tag,
        requests=plan.requests,
        since=log.last.at - CLOCK_SKEW,
        until=last_call + CLOCK_SKEW,
        not_ids=frozenset([*not_ids, *ours]),
    )
    return await cast("UntaggedProvider", context.provider_of(job)).find_doubtful(doubt)


async def cancel_others(provider: BatchProvider, others: Sequence[BatchStatus]) -> list[str]:
    """Cancel what is live among batches that carry the tag of another one; returns all their ids."""
    for batch in others:
        activity.logger.warning("batch %s (%s) carries a tag twice: %s", batch.batch_id, batch.raw_state, batch.tag)
        if batch.phase.ended:
            continue
        try:
            await provider.cancel(batch.batch_id)
        except ProviderError as error:
            activity.logger.warning("batch %s could not be cancelled: %s", batch.batch_id, error)
    return [batch.batch_id for batch in others]


def _accepted_at(context: Context, shard: ShardRef) -> datetime:
    return datetime.fromisoformat(read_manifest(context.store, shard.job.tenant, shard.job.key).accepted_at)
