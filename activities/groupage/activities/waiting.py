"""Waiting for a provider batch: one look an attempt, and the pause between looks is Temporal's.

A look that ends nothing raises a BENIGN error whose retry delay is the pause; what was seen goes into the
heartbeat details, where the next attempt and `temporal workflow describe` find it. So a day of waiting
costs eleven history events and no worker slot. Each look stands by itself: a failed one
says nothing about the batch (docs/cases.md PO-02, PO-03, PO-22).
"""

import asyncio
from datetime import UTC, datetime, timedelta

from groupage.activities.failures import RETRY_DELAY_MAX_S, retried, waiting
from groupage.activities.heartbeat import heartbeating
from groupage.activities.intents import claim, new_intent, read_log, settled_at
from groupage.activities.late import read_report
from groupage.activities.looking import cancel_others, look, look_in_listing, still_unknown
from groupage.activities.refusals import keep_refusal
from groupage.activities.registry import Context
from groupage.activities.sweep import read_submitted
from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass, Message, ShardRef
from groupage.schemas.activity_calls import AwaitBatch, CancelBatch, Progress, ReadProgress
from groupage.schemas.errors import ProviderError
from groupage.store.shards import read_shard_plan
from temporalio import activity

ELAPSED_SHARE = 0.05
"""A pause is at most this share of the time waited so far: the end is noticed at most 5 % late."""
ETA_SHARE = 0.5
"""And at most this share of the time still needed at the pace seen so far."""
REFUSED_POLLS = 4
"""A look that the provider refuses for the account is tried again after so many times `poll_s`: it is slow to mend."""
PROGRESS_CALLS = 8
"""Looks at once when the progress of a round is asked for."""


class Watch(Message):
    """Heartbeat details: what the last look saw, small and readable in the Web UI."""

    looked_at: datetime
    phase: BatchPhase = BatchPhase.unknown
    raw_state: str = ""
    total: int = -1
    completed: int = -1
    failed: int = -1
    moved_at: datetime | None = None
    """When the counts or the phase last changed."""
    pace_per_s: float = 0.0
    """Requests a second between the last two changes of the count."""
    missing_since: datetime | None = None
    """First 404 of an unbroken row of them."""
    refused_since: datetime | None = None
    """First look of an unbroken row of those that were refused for the account."""
    files_late_since: datetime | None = None
    """First look at which the batch had ended without the files that it must have."""
    next_in_s: float = 0.0
    problem: str = ""


def next_pause_s(watch: Watch, *, submitted_at: datetime, poll_s: float, max_poll_s: float) -> float:
    """Seconds until the next look: from `poll_s` on growing slowly, and shorter again near the end."""
    waited = (watch.looked_at - submitted_at).total_seconds()
    pause = min(max_poll_s, waited * ELAPSED_SHARE)
    left = watch.total - watch.completed - max(watch.failed, 0)
    if watch.phase in {BatchPhase.finalizing, BatchPhase.cancelling}:
        # Soon over, or (cancelling took 25 minutes once, PO-15) at least soon of interest.
        pause = min(pause, max(poll_s, 60.0))
    elif watch.pace_per_s > 0 and watch.total > 0 and watch.completed >= 0:
        pause = min(pause, max(left, 0) / watch.pace_per_s * ETA_SHARE)
    return min(max(pause, poll_s), max(max_poll_s, poll_s))


async def await_batch(context: Context, request: AwaitBatch) -> BatchStatus:
    """One look. Returns when there is something to tell, else raises `waiting` or a retryable error.

    There is something to tell when the batch has ended, or when `report_at` has passed and the phase is
    not `seen` any more. Raises ProviderError(missing) for a batch that has been invisible for too long and that
    no listing shows, and, if that is to be told, ProviderError(account) at the second look in a row that is refused.
    """
    before = _last_watch()
    provider = context.provider_of(request.shard.job)
    now = datetime.now(UTC)
    listed: BatchStatus | None = None
    try:
        # The beats repeat what is known: the last one before a failure is what the next attempt gets.
        async with heartbeating(context.settings.heartbeat_s, (lambda: before) if before else None):
            status = await provider.status(request.batch_id)
    except ProviderError as error:
        listed = (
            await look_in_listing(context, request) if _is_long_missing(context, request, before, now, error) else None
        )
        if listed is None:
            raise _not_seen(context, request, before, now, error) from error
        status = listed
    status, watch = _take_in(context, status, before, now)
    if before is not None and listed is not None:
        watch = watch.model_copy(update={"missing_since": before.missing_since})
    pause_s = next_pause_s(
        watch, submitted_at=request.submitted_at, poll_s=request.poll_s, max_poll_s=context.settings.max_poll_s
    )
    activity.heartbeat(watch.model_copy(update={"next_in_s": round(pause_s, 1)}))
    if status.phase.ended:
        await asyncio.to_thread(keep_refusal, context.store, request.shard, status)
        return status
    if request.report_at is not None and now >= request.report_at and status.phase is not request.seen:
        return status
    raise waiting(_one_line(status), delay_s=pause_s)


def _last_watch() -> Watch | None:
    details = activity.info().heartbeat_details
    if not details:
        return None
    # Untyped on the way back: the converter gives what JSON says.
    return details[0] if isinstance(details[0], Watch) else Watch.model_validate(details[0])


def _is_long_missing(
    context: Context, request: AwaitBatch, before: Watch | None, now: datetime, error: ProviderError
) -> bool:
    if error.error_class is not ErrorClass.missing:
        return False
    missing_since = (before.missing_since if before else None) or now
    # Right after submission the clock starts there, not at the first 404 (PO-01).
    return now - max(missing_since, request.submitted_at) >= timedelta(seconds=context.settings.not_visible_s)


def _not_seen(
    context: Context, request: AwaitBatch, before: Watch | None, now: datetime, error: ProviderError
) -> Exception:
    """What to raise for a look that failed: try again, unless the batch is gone for good."""
    watch = before or Watch(looked_at=now)
    missing_since = None
    if error.error_class is ErrorClass.missing:
        missing_since = (before.missing_since if before else None) or now
        if _is_long_missing(context, request, before, now, error):
            return ProviderError(
                f"batch {request.batch_id} is gone: not found since {missing_since:%Y-%m-%d %H:%M:%S} UTC",
                error_class=ErrorClass.missing,
                code=error.code,
                status=error.status,
            )
    refused_since = None
    if error.error_class is ErrorClass.account:
        refused_since = (before.refused_since if before else None) or now
    watch = watch.model_copy(
        update={
            "looked_at": now,
            "missing_since": missing_since,
            "refused_since": refused_since,
            "problem": str(error)[:300],
        }
    )
    activity.heartbeat(watch)
    if refused_since is not None:
        if request.tell_refusals and refused_since != now:
            return ProviderError(str(error), error_class=error.error_class, code=error.code, status=error.status)
        return retried(error, 1, min(RETRY_DELAY_MAX_S, REFUSED_POLLS * request.poll_s))
    if error.error_class in {ErrorClass.invalid, ErrorClass.too_large, ErrorClass.quota}:
        return retried(error, activity.info().attempt)
    delay_s = max(request.poll_s, error.retry_after_s or 0.0)
    return waiting(f"could not look at {request.batch_id}: {error}", delay_s=delay_s)


def _take_in(context: Context, status: BatchStatus, before: Watch | None, now: datetime) -> tuple[BatchStatus, Watch]:
    """The status as it counts here, and what to remember of it."""
    late_since = None
    if status.settles_as is not None:
        late_since = (before.files_late_since if before else None) or now
        if now - late_since >= timedelta(seconds=context.settings.files_late_s):
            status = _without_files(status)
    still = before is not None and (status.phase, status.completed) == (before.phase, before.completed)
    moved_at = before.moved_at if before and still else now
    pace = before.pace_per_s if before else 0.0
    if before and before.moved_at and before.completed >= 0 and status.completed > before.completed:
        seconds = (now - before.moved_at).total_seconds()
        pace = (status.completed - before.completed) / seconds if seconds > 0 else pace
    watch = Watch(
        looked_at=now,
        phase=status.phase,
        raw_state=status.raw_state[:100],
        total=status.total,
        completed=status.completed,
        failed=status.failed,
        moved_at=moved_at,
        pace_per_s=pace,
        files_late_since=late_since,
        problem=status.warning[:300],
    )
    return status, watch


def _without_files(status: BatchStatus) -> BatchStatus:
    """An ended batch whose files never came: ended all the same, with the reason (PO-08)."""
    error = BatchError(error_class=ErrorClass.missing, code="no_result_files", message=status.warning)
    return status.model_copy(update={"phase": status.settles_as, "settles_as": None, "error": error})


def _one_line(status: BatchStatus) -> str:
    counts = f"{status.completed} of {status.total} done" if status.total > 0 and status.completed >= 0 else "no counts"
    return f"{status.batch_id} is {status.raw_state or 'in no known state'}: {counts}"


async def cancel_batch(context: Context, request: CancelBatch) -> BatchStatus:
    """Ask for cancellation, once: a batch that is ending already is not asked again (PO-15, PO-16).

    Without a batch id the tag is looked for. If there is none, the shard is closed, so that no attempt
    that is still running somewhere creates one, and the status says `cancelled` with an empty id.
    """
    provider = context.provider_of(request.shard.job)
    async with heartbeating(context.settings.heartbeat_s):
        if not request.batch_id:
            found = await _find_or_close(context, request.shard)
            if found is None:
                return BatchStatus(batch_id="", tag=request.shard.tag, phase=BatchPhase.cancelled, raw_state="")
            status = found
        else:
            try:
                status = await provider.status(request.batch_id)
            except ProviderError as error:
                if error.error_class is not ErrorClass.account:
                    raise
                # To look may be all that is not allowed: a batch that runs on unseen is paid for.
                return await provider.cancel(request.batch_id)
        if status.phase.ended or status.phase is BatchPhase.cancelling or status.settles_as is not None:
            return status
        return await provider.cancel(status.batch_id)


async def _find_or_close(context: Context, shard: ShardRef) -> BatchStatus | None:
    provider, window = context.provider_of(shard.job), context.window_of(shard.job)
    log = await asyncio.to_thread(read_log, context.store, shard)
    looked_at = datetime.now(UTC)
    at = settled_at(log, window)
    try:
        found, others = await look(context, shard, log, [])
    except ProviderError as error:
        if log.last is not None:
            # There may be a batch, paid for: even a revoked key must not end the looking.
            raise retried(error, activity.info().attempt) from error
        activity.logger.warning("could not look for %s, of which nothing was ever sent: %s", shard.tag, error)
        found, others = None, []
    if found is not None:
        await cancel_others(provider, others)
        return found
    if log.created_id:
        return await _seen_or_collected(context, shard, log.created_id)
    if at is not None and looked_at < at:
        raise still_unknown(shard, at, window)
    if not log.closed:
        intent = new_intent(log, datetime.now(UTC), attempt=activity.info().attempt, files=[], kind="closed")
        if not await asyncio.to_thread(claim, context.store, shard, intent):
            raise ProviderError(
                f"{shard.tag} is being submitted at this moment", error_class=ErrorClass.transient, code="superseded"
            )
    return None


async def _seen_or_collected(context: Context, shard: ShardRef, batch_id: str) -> BatchStatus:
    """The batch; one that was deleted after it was collected has ended as its report says."""
    try:
        return await context.provider_of(shard.job).status(batch_id)
    except ProviderError as error:
        report = await asyncio.to_thread(read_report, context.store, shard)
        if error.error_class is not ErrorClass.missing or report is None:
            raise
        return BatchStatus(batch_id=batch_id, tag=shard.tag, phase=report.phase, raw_state="collected")


async def read_progress(context: Context, request: ReadProgress) -> Progress:
    """How far the shards of a round are, as the provider counts; what cannot be seen counts as 0."""
    gate = asyncio.Semaphore(PROGRESS_CALLS)

    async def one(number: int) -> Progress:
        shard = ShardRef(job=request.job, round=request.round, shard=number)
        async with gate:
            return await _shard_progress(context, shard)

    async with heartbeating(context.settings.heartbeat_s):
        parts = await asyncio.gather(*(one(number) for number in request.shards))
    return Progress(
        requests=sum(part.requests for part in parts),
        completed=sum(part.completed for part in parts),
        ended_shards=sum(part.ended_shards for part in parts),
    )


async def _shard_progress(context: Context, shard: ShardRef) -> Progress:
    job, store = shard.job, context.store
    plan = await asyncio.to_thread(read_shard_plan, store, job.tenant, job.key, shard.round, shard.shard)
    submitted = await asyncio.to_thread(read_submitted, store, job.tenant, job.key, shard.round, shard.shard)
    if submitted is None:
        return Progress(requests=plan.requests, completed=0)
    try:
        status = await context.provider_of(job).status(submitted.batch_id)
    except ProviderError as error:
        activity.logger.info("no progress of %s: %s", submitted.batch_id, error)
        return Progress(requests=plan.requests, completed=0)
    completed = min(max(status.completed, 0), plan.requests)
    return Progress(requests=plan.requests, completed=completed, ended_shards=int(status.phase.ended))
