"""Gemini's batch, an operation with the batch as its metadata, as our BatchStatus.

====================================  ============================================================
BATCH_STATE_, or JOB_STATE_
====================================  ============================================================
PENDING, QUEUED                       validating
RUNNING, UPDATING, PAUSED             in_progress
CANCELLING                            cancelling: a word of Vertex's; here it stays RUNNING
SUCCEEDED, PARTIALLY_SUCCEEDED        completed: all requests were tried, not: all succeeded (PF-02)
FAILED                                failed
CANCELLED                             cancelled
EXPIRED                               expired: after 48 h, and with it all that was done
none, but `done`                      by what the operation ends with: an error, or a response
UNSPECIFIED, any other word           unknown: not ended (PO-05)
====================================  ============================================================
"""

import re
from datetime import datetime
from typing import Any

from groupage.activities.providers.batch_objects import count_told, read_time
from groupage.activities.providers.call_errors import of_whole
from groupage.activities.providers.google_errors import read_error
from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_PHASES = {
    "queued": BatchPhase.validating,
    "pending": BatchPhase.validating,
    "running": BatchPhase.in_progress,
    "updating": BatchPhase.in_progress,
    "paused": BatchPhase.in_progress,
    "cancelling": BatchPhase.cancelling,
    "canceling": BatchPhase.cancelling,
    "succeeded": BatchPhase.completed,
    "partially_succeeded": BatchPhase.completed,
    "failed": BatchPhase.failed,
    "cancelled": BatchPhase.cancelled,
    "canceled": BatchPhase.cancelled,
    "expired": BatchPhase.expired,
}
_PREFIX = re.compile(r"^(batch|job)_state_")


def phase_of(raw_state: str) -> BatchPhase:
    return _PHASES.get(_PREFIX.sub("", raw_state.lower()), BatchPhase.unknown)


def display_name_of(operation: dict[str, Any]) -> str:
    name = _metadata(operation).get("displayName")
    return name if isinstance(name, str) else ""


def created_at_of(operation: dict[str, Any]) -> datetime | None:
    return read_time(_metadata(operation).get("createTime"))


def read_operation(operation: dict[str, Any], tag: str = "") -> BatchStatus:
    """A batch as get, list and create give it. Raises ValueError where it has no name: then it is no batch."""
    name = operation.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("the answer has no batch name")
    metadata = _metadata(operation)
    raw = metadata.get("state")
    raw_state = raw if isinstance(raw, str) else ""
    phase = phase_of(raw_state)
    error = operation.get("error") or metadata.get("error")
    outputs = _results(operation, metadata)
    if not raw_state and operation.get("done") is True:
        phase = BatchPhase.failed if error else BatchPhase.completed if outputs else BatchPhase.unknown
    warning = "" if phase is not BatchPhase.unknown else f"the provider says state {raw!r}, which is not known here"
    total, completed, failed = _counts(metadata.get("batchStats"))
    settles_as: BatchPhase | None = None
    ended_at = read_time(metadata.get("endTime")) if phase.ended else None
    if phase is BatchPhase.completed and not outputs:
        settles_as, phase = phase, BatchPhase.finalizing
        warning = f"the provider says {raw_state}, but names no results file yet"
    return BatchStatus(
        batch_id=name,
        tag=tag or display_name_of(operation),
        phase=phase,
        raw_state=raw_state,
        total=total,
        completed=completed,
        failed=failed,
        input_files=_text(metadata.get("inputConfig"), "fileName"),
        output_files=outputs,
        settles_as=settles_as,
        error=failed_batch(error) if phase is BatchPhase.failed else None,
        warning=warning,
        created_at=read_time(metadata.get("createTime")),
        ended_at=ended_at,
    )


def _metadata(operation: dict[str, Any]) -> dict[str, Any]:
    metadata = operation.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _results(operation: dict[str, Any], metadata: dict[str, Any]) -> list[str]:
    """The results file: in the operation's response, and in the batch's output."""
    return _text(operation.get("response"), "responsesFile") or _text(metadata.get("output"), "responsesFile")


def _text(value: Any, name: str) -> list[str]:
    found = value.get(name) if isinstance(value, dict) else None
    return [found] if isinstance(found, str) and found else []


def _counts(stats: Any) -> tuple[int, int, int]:
    """(total, succeeded, failed). Counts are written as text, and those of 0 not at all; -1 where nothing is told."""
    if not isinstance(stats, dict) or not stats:
        return -1, -1, -1
    names = ("requestCount", "successfulRequestCount", "failedRequestCount")
    total, succeeded, failed = (count_told(stats.get(name, 0)) for name in names)
    return total, succeeded, failed


def failed_batch(error: Any) -> BatchError:
    """Why a batch failed as a whole."""
    if not error:
        return BatchError(error_class=ErrorClass.unknown, code="failed", message="the provider gives no reason")
    found = read_error(None, error)
    # A whole batch is not refused for a minute's rate: what was used up is the quota of batches.
    quota = found.error_class is ErrorClass.rate_limit
    return BatchError(
        error_class=ErrorClass.quota if quota else of_whole(found.error_class),
        code=found.code,
        message=(found.message or "the provider gives no reason")[:FAILURE_MESSAGE_MAX],
        retry_after_s=found.retry_after_s,
    )
