"""How workflows call activities: one table of options with its reasons, one function, one reading of failures.

Every activity is written to be run twice, so that attempts are unlimited unless stated; what bounds
them is `schedule_to_close` (here or given by the caller) and what ends them for good is a
non-retryable failure.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from groupage.schemas import BatchError, ErrorClass, Message
from groupage.schemas.activity_calls import (
    AWAIT_BATCH,
    CANCEL_BATCH,
    CLEAN_UP_BATCH,
    COLLECT_BATCH,
    FINALIZE_JOB,
    PLAN_ROUND,
    PREPARE_JOB,
    READ_PROGRESS,
    RUN_SYNC_SHARD,
    SUBMIT_BATCH,
    SWEEP_ORPHANS,
    ActivityCall,
)
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError
from temporalio.workflow import ActivityCancellationType, ActivityHandle

In = TypeVar("In", bound=Message)
Out = TypeVar("Out", bound=Message)

_HEARTBEAT = timedelta(seconds=60)
"""A dead worker is noticed after a minute. Temporal throttles heartbeats to 0.8 of it, so less would only
make busy workers look dead."""

TIMED_OUT = "timeout"
"""Code of an activity of which nothing was heard for too long: what it has done is not known."""


def _retry(first_s: float, longest_s: float, attempts: int = 0, growth: float = 2.0) -> RetryPolicy:
    """`attempts` 0: unlimited. Activities that know better say so with next_retry_delay."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=first_s),
        maximum_interval=timedelta(seconds=longest_s),
        backoff_coefficient=growth,
        maximum_attempts=attempts,
    )


@dataclass(frozen=True, slots=True)
class CallOptions:
    """`start_to_close` bounds one attempt, `schedule_to_close` all of them with their pauses."""

    start_to_close: timedelta
    schedule_to_close: timedelta
    retry: RetryPolicy
    heartbeat: timedelta | None = None
    cancellation: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL


OPTIONS: dict[str, CallOptions] = {
    # Reads and checks every line: hours for tens of millions.
    PREPARE_JOB.name: CallOptions(timedelta(hours=12), timedelta(days=7), _retry(1, 60), _HEARTBEAT),
    # Passes over the index, not over bodies.
    PLAN_ROUND.name: CallOptions(timedelta(hours=2), timedelta(days=7), _retry(1, 60), _HEARTBEAT),
    # Renders and uploads up to some hundred MB. Cancelling waits for the attempt to end: whether a batch
    # was created must be known, and a create call in flight would otherwise leave an orphan.
    SUBMIT_BATCH.name: CallOptions(
        timedelta(hours=1),
        timedelta(days=7),
        _retry(2, 120),
        _HEARTBEAT,
        ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    ),
    # One look an attempt, the pause comes with the failure. Ten days are beyond every provider's window
    # (Vertex queues for three days and runs for one). Polls that fail are no batches that fail. The pause
    # does not grow: every look counts as an attempt, and after a dead worker's one the next would be far off.
    AWAIT_BATCH.name: CallOptions(timedelta(minutes=3), timedelta(days=10), _retry(10, 10, growth=1.0)),
    # One small call; the caller bounds it by the time the batch has to settle.
    CANCEL_BATCH.name: CallOptions(timedelta(minutes=2), timedelta(days=1), _retry(2, 60)),
    # Downloads up to some GB; provider files live for weeks, a day of trying outlasts outages.
    COLLECT_BATCH.name: CallOptions(timedelta(hours=6), timedelta(days=2), _retry(2, 300), _HEARTBEAT),
    # Nobody waits for it.
    CLEAN_UP_BATCH.name: CallOptions(timedelta(minutes=15), timedelta(hours=12), _retry(5, 600), _HEARTBEAT),
    # A hint that the job can do without.
    READ_PROGRESS.name: CallOptions(timedelta(minutes=1), timedelta(minutes=2), _retry(2, 10, attempts=3)),
    # Ends by itself at the deadline that it is given. Cancelling waits for the answers to be flushed.
    RUN_SYNC_SHARD.name: CallOptions(
        timedelta(days=1),
        timedelta(days=7),
        _retry(1, 60),
        _HEARTBEAT,
        ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    ),
    # The merge of all rounds; a job cannot end without it.
    FINALIZE_JOB.name: CallOptions(timedelta(hours=12), timedelta(days=7), _retry(1, 60), _HEARTBEAT),
    # Lists all batches and files of an account. The next sweep takes up what this one did not get to.
    SWEEP_ORPHANS.name: CallOptions(timedelta(hours=1), timedelta(hours=3), _retry(5, 300), _HEARTBEAT),
}


def start(
    call: ActivityCall[In, Out],
    argument: In,
    *,
    summary: str,
    schedule_to_close: timedelta | None = None,
) -> ActivityHandle[Out]:
    """Start the activity. `summary` is shown on the timeline of the Web UI, 200 bytes at most."""
    options = OPTIONS[call.name]
    if schedule_to_close is not None:
        options = replace(options, schedule_to_close=schedule_to_close)
    return workflow.start_activity(
        call.name,
        argument,
        result_type=call.result,
        start_to_close_timeout=min(options.start_to_close, options.schedule_to_close),
        schedule_to_close_timeout=options.schedule_to_close,
        heartbeat_timeout=options.heartbeat,
        retry_policy=options.retry,
        cancellation_type=options.cancellation,
        summary=summary[:200],
    )


def failure_of(error: ActivityError) -> BatchError:
    """Why an activity failed for good, in our words: its BatchError, or one made of what Temporal says."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        for detail in cause.details[:1]:
            try:
                return BatchError.model_validate(detail)
            except ValidationError:
                workflow.logger.warning("failure of %s carries an unknown detail", error.activity_type)
        name = (cause.type or "").removeprefix("provider.")
        known = ErrorClass(name) if name in ErrorClass.__members__ else ErrorClass.unknown
        return BatchError(error_class=known, code=cause.type or "", message=_cut(cause.message))
    if isinstance(cause, CancelledError):
        return BatchError(error_class=ErrorClass.cancelled, code="cancelled", message="stopped before it ended")
    return BatchError(
        error_class=ErrorClass.transient,
        code=TIMED_OUT,
        message=_cut(f"{error.activity_type} did not end in time: {cause or error}"),
    )


def _cut(text: str) -> str:
    return text[:FAILURE_MESSAGE_MAX]
