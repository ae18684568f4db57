"""Looking for a shard's batch at the provider, and dealing with more than one."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from groupage.activities.intents import IntentLog
from groupage.activities.providers.base import BatchProvider
from groupage.activities.registry import Context
from groupage.schemas import BatchStatus, ShardRef
from groupage.schemas.errors import ProviderError
from groupage.store.segments import read_manifest
from temporalio import activity


async def look(
    context: Context, shard: ShardRef, log: IntentLog, not_ids: Sequence[str]
) -> tuple[BatchStatus | None, list[BatchStatus]]:
    """(the batch that counts, all others that carry the tag). The recorded one counts, else the furthest."""
    provider = context.provider_of(shard.job)
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
