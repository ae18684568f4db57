"""Reports and states of shards that no collecting made, and what the end of a provider batch calls for."""

from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass, Outcome, Route, ShardReport
from groupage.schemas.batches import ShardRef
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

NOT_RUN = frozenset(
    {ErrorClass.quota, ErrorClass.too_large, ErrorClass.account, ErrorClass.rate_limit, ErrorClass.transient}
)
"""Classes that refuse a batch as a whole: no request of it is at fault, none has run."""


def not_run(
    shard: ShardRef,
    requests: int,
    message: str,
    *,
    error: BatchError | None = None,
    phase: BatchPhase = BatchPhase.cancelled,
    batch_id: str = "",
) -> ShardReport:
    """No request of the shard has an answer, and the store holds no result of it: planning sees `not_sent`."""
    outcome = Outcome.cancelled if error is None else Outcome.failed
    return ShardReport(
        round=shard.round,
        shard=shard.shard,
        route=Route.batch,
        phase=phase,
        batch_id=batch_id,
        requests=requests,
        outcomes={outcome: requests},
        unanswered={ErrorClass.not_sent: requests},
        error=error
        or BatchError(error_class=ErrorClass.not_sent, code="not_sent", message=message[:FAILURE_MESSAGE_MAX]),
    )


def unsettled(shard: ShardRef, requests: int, batch_id: str, reason: str) -> ShardReport:
    """Provisional: the batch was told to stop and goes on. Its requests count as cancelled until it is harvested."""
    message = f"told to stop ({reason}) and not ended in time; late answers are waste"
    return _unknown_answers(shard, requests, batch_id, "unsettled", message)


def uncollected(shard: ShardRef, requests: int, batch_id: str, reason: str) -> ShardReport:
    """The batch ended, and a week of trying did not bring its answers here. They are paid for: what the provider
    keeps of it stays there, and each request that goes on may be paid a second time (docs/cases.md CL-05).
    """
    message = f"its answers could not be collected ({reason}) and lie at the provider; sent again they are paid twice"
    return _unknown_answers(shard, requests, batch_id, "uncollected", message)


def _unknown_answers(shard: ShardRef, requests: int, batch_id: str, code: str, message: str) -> ShardReport:
    return ShardReport(
        round=shard.round,
        shard=shard.shard,
        route=Route.batch,
        phase=BatchPhase.cancelling,
        batch_id=batch_id,
        requests=requests,
        outcomes={Outcome.cancelled: requests},
        unanswered={ErrorClass.cancelled: requests},
        unsettled=True,
        error=BatchError(error_class=ErrorClass.cancelled, code=code, message=message[:FAILURE_MESSAGE_MAX]),
    )


def lost(shard: ShardRef, requests: int, message: str) -> ShardReport:
    """The workflow of the shard is gone, and starting it again did not help."""
    error = BatchError(error_class=ErrorClass.transient, code="lost", message=message[:FAILURE_MESSAGE_MAX])
    return not_run(shard, requests, message, error=error, phase=BatchPhase.unknown)


def gone(shard: ShardRef, batch_id: str, failure: BatchError) -> BatchStatus:
    """The provider does not know the batch any more: it ended in failure, as far as anyone can tell."""
    return BatchStatus(batch_id=batch_id, tag=shard.tag, phase=BatchPhase.failed, raw_state="not found", error=failure)


def _has_lines(status: BatchStatus) -> bool:
    return bool(status.output_files or status.error_files) or status.completed > 0


def refused_for_quota(status: BatchStatus) -> bool:
    """The provider took the batch and failed it for its quota before any request ran (docs/cases.md QU-01)."""
    quota = status.error is not None and status.error.error_class is ErrorClass.quota
    return status.phase is BatchPhase.failed and quota and not _has_lines(status)


def needs_harvest(status: BatchStatus, requests: int) -> bool:
    """Whether there may be lines to read, or a refusal that requests have to be marked with.

    Counts are hints, so only a batch that failed as a whole and names no file is taken to be empty. One that is
    refused for a line that the provider does not name marks nobody: it is cut in halves until only that line is left.
    """
    error = status.error
    if status.phase is not BatchPhase.failed or _has_lines(status) or error is None:
        return True
    if error.error_class is ErrorClass.invalid and not error.bad_lines and not error.of_all_lines:
        return requests == 1
    return error.error_class not in NOT_RUN


def is_unexplained(status: BatchStatus, requests: int) -> bool:
    """Whether the provider took the batch and failed it as a whole for a reason that nobody knows: about one of its
    requests, or about none. No line is there to read.
    """
    error = status.error
    if not status.batch_id or status.phase is not BatchPhase.failed or _has_lines(status) or error is None:
        return False
    return error.error_class is ErrorClass.unknown and not error.bad_lines and not error.of_all_lines and requests > 1


def needed_harvest(status: BatchStatus) -> bool:
    """What histories were recorded by that know nothing of the above."""
    if status.phase is not BatchPhase.failed or _has_lines(status) or status.error is None:
        return True
    return status.error.error_class not in NOT_RUN | {ErrorClass.missing}
