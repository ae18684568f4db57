"""Leaving nothing behind at the provider once a shard's results are stored and verified (promise 8)."""

import asyncio
from collections.abc import Sequence

from groupage.activities.failures import waiting
from groupage.activities.heartbeat import heartbeating
from groupage.activities.intents import read_log
from groupage.activities.looking import cancel_others
from groupage.activities.providers.base import BatchProvider
from groupage.activities.registry import Context
from groupage.schemas import BatchStatus
from groupage.schemas.activity_calls import CleanedUp, CleanUpBatch
from groupage.schemas.errors import ProviderError
from temporalio import activity

WHOLE_TRIES = 3
"""Attempts of the activity that fail because of files that are still there; the one after reports them."""
RETRY_S = 30.0
SHOWN = 20


async def clean_up_batch(context: Context, request: CleanUpBatch) -> CleanedUp:
    """Delete the files, each on its own: one that cannot be deleted stops no other (docs/cases.md CL-04).

    What is left is tried again by the next attempts and then reported, "file-id: reason", at most SHOWN.
    """
    provider = context.provider_of(request.shard.job)
    async with heartbeating(context.settings.heartbeat_s):
        files = list(dict.fromkeys([*request.files, *await _files_of_doubles(context, request)]))
        left = [failure for ref in files if (failure := await _delete(context, provider, "file", ref))]
        if request.batch_id and (failure := await _delete(context, provider, "batch", request.batch_id)):
            left.append(failure)
    if left and activity.info().attempt < WHOLE_TRIES:
        raise waiting(f"{len(left)} of {len(files)} files could not be deleted: {left[0]}", delay_s=RETRY_S)
    for failure in left:
        activity.logger.warning("left behind by %s: %s", request.shard.tag, failure)
    return CleanedUp(deleted=len(files) - len(left), left_behind=left[:SHOWN])


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


async def _files_of_doubles(context: Context, request: CleanUpBatch) -> Sequence[str]:
    """Files of other batches with this shard's tag, where more than one create call may have got through.

    Live ones are cancelled: their answers are not waited for. Looking may fail without harm, the sweep
    looks again.
    """
    shard = request.shard
    log = await asyncio.to_thread(read_log, context.store, shard)
    if not log.doubtful or log.last is None:
        return []
    provider = context.provider_of(shard.job)
    doubles: list[BatchStatus] = []
    try:
        while True:
            known = [request.batch_id, *(double.batch_id for double in doubles)]
            double = await provider.find(shard.tag, since=log.last.first_at, not_ids=known, files=log.last.files)
            if double is None:
                break
            doubles.append(double)
    except ProviderError as error:
        activity.logger.warning("could not look for more batches of %s: %s", shard.tag, error)
    await cancel_others(provider, doubles)
    return [
        ref
        for double in doubles
        if double.phase.ended
        for ref in (*double.input_files, *double.output_files, *double.error_files)
    ]
