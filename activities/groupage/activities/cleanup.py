"""Leaving nothing behind at the provider once a shard's results are stored and verified (promise 8)."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from groupage.activities.collecting import REPLACED
from groupage.activities.doubles import find_doubles, note_cost
from groupage.activities.failures import waiting
from groupage.activities.heartbeat import heartbeating
from groupage.activities.looking import cancel_others
from groupage.activities.providers.base import BatchProvider
from groupage.activities.registry import Context
from groupage.schemas import BatchPhase, BatchStatus, ShardRef
from groupage.schemas.activity_calls import CleanedUp, CleanUpBatch
from groupage.schemas.errors import ProviderError
from groupage.store import keys
from temporalio import activity

WHOLE_TRIES = 3
"""Attempts of the activity that fail because of files that are still there; the one after reports them."""
RETRY_S = 30.0
SHOWN = 20
DOUBLES_WAIT = timedelta(hours=6)
"""How long another batch of the shard is waited for after it was cancelled."""


async def clean_up_batch(context: Context, request: CleanUpBatch) -> CleanedUp:
    """Delete the files, each on its own: one that cannot be deleted stops no other (docs/cases.md CL-04).

    What is left is tried again by the next attempts and then reported, "file-id: reason", at most SHOWN. Other
    batches of the shard are waited for until they have ended: only then is it known what they cost and left.
    """
    provider = context.provider_of(request.shard.job)
    async with heartbeating(context.settings.heartbeat_s):
        files = list(dict.fromkeys([*request.files, *await asyncio.to_thread(_replaced, context, request.shard)]))
        left = [failure for ref in files if (failure := await _delete(context, provider, "file", ref))]
        if request.batch_id and (failure := await _delete(context, provider, "batch", request.batch_id)):
            left.append(failure)
        open_, more, left_of_doubles = await _end_doubles(context, request)
    left += left_of_doubles
    if open_ and datetime.now(UTC) - activity.info().scheduled_time < DOUBLES_WAIT:
        delay_s = min(RETRY_S, 2.0 ** min(activity.info().attempt, 10))
        raise waiting(f"batch {open_[0].batch_id}, another one of {request.shard.tag}, is to end", delay_s=delay_s)
    left += [f"batch {double.batch_id}, another one of the shard, had not ended" for double in open_]
    if left and activity.info().attempt < WHOLE_TRIES:
        raise waiting(f"{len(left)} of {len(files) + more} files could not be deleted: {left[0]}", delay_s=RETRY_S)
    for failure in left:
        activity.logger.warning("left behind by %s: %s", request.shard.tag, failure)
    return CleanedUp(deleted=max(0, len(files) + more - len(left)), left_behind=left[:SHOWN])


def _replaced(context: Context, shard: ShardRef) -> list[str]:
    """Result files that the batch named only after it had been seen to end."""
    key = keys.shard_object(shard.job.tenant, shard.job.key, shard.round, shard.shard, REPLACED)
    status = context.store.get_message_or_none(key, BatchStatus)
    return [*status.output_files, *status.error_files] if status is not None else []


async def _end_doubles(context: Context, request: CleanUpBatch) -> tuple[list[BatchStatus], int, list[str]]:
    """End what other batches carry the shard's tag: (those that still run, files of the others, what is left of those)."""
    shard, provider = request.shard, context.provider_of(request.shard.job)
    doubles = await find_doubles(context.store, provider, shard, request.batch_id)
    running = [double for double in doubles if not double.phase.ended]
    await cancel_others(provider, [double for double in running if double.phase is not BatchPhase.cancelling])
    count, left = 0, []
    for double in doubles:
        if double in running:
            continue
        if (spool := context.settings.spool_dir) is not None:
            await asyncio.to_thread(spool.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=spool, prefix=f"{shard.tag}-") as folder:
            await note_cost(context.store, provider, shard, double, Path(folder))
        files = list(dict.fromkeys([*double.input_files, *double.output_files, *double.error_files]))
        count += len(files)
        left += [failure for ref in files if (failure := await _delete(context, provider, "file", ref))]
        if failure := await _delete(context, provider, "batch", double.batch_id):
            left.append(failure)
    return running, count, left


async def _delete(context: Context, provider: BatchProvider, kind: str, ref: str) -> str:
    """Delete one object, trying a few times; "" or what failed. One that is gone already is fine."""
    attempts, pause_s = context.settings.delete_attempts, context.settings.delete_pause_s
    for attempt in range(attempts):
        try:
            await provider.delete(kind, ref)
        except ProviderError as error:
            if attempt + 1 == attempts:
                return f"{ref}: {str(error)[:200]}"
            await asyncio.sleep(max(pause_s * 2**attempt, min(error.retry_after_s or 0.0, 30.0)))
        else:
            return ""
    return ""
