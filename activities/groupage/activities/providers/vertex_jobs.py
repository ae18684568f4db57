"""Vertex's batch prediction job as our BatchStatus, and the job that we ask for. Jobs are JSON in REST's words.

==========================================  ==========================================================
QUEUED, PENDING                             validating: up to 72 h
RUNNING, UPDATING, PAUSED                   in_progress: up to 24 h
CANCELLING                                  cancelling
SUCCEEDED                                   completed: all rows were tried, not: all succeeded
PARTIALLY_SUCCEEDED                         expired: the time was over, or rows are missing, and the rest is there
EXPIRED                                     expired
CANCELLED                                   cancelled
FAILED                                      failed
UNSPECIFIED, any other word or number       unknown: not ended (PO-05)
==========================================  ==========================================================

The SDK's own list of ended states lacks EXPIRED and PARTIALLY_SUCCEEDED, and has PAUSED.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from groupage.activities.providers.batch_objects import count_told
from groupage.activities.providers.vertex_data import Json
from groupage.activities.providers.vertex_errors import failed_job
from groupage.schemas import BatchPhase, BatchStatus
from groupage.schemas.ids import decode_tag

TAG_LABEL = "groupage_tag"
QUEUE_AND_RUN_S = (72 + 24) * 3600
"""So long a job may take, by Google's documentation."""

_PHASES = {
    "QUEUED": BatchPhase.validating,
    "PENDING": BatchPhase.validating,
    "RUNNING": BatchPhase.in_progress,
    "UPDATING": BatchPhase.in_progress,
    "PAUSED": BatchPhase.in_progress,
    "CANCELLING": BatchPhase.cancelling,
    "CANCELING": BatchPhase.cancelling,
    "SUCCEEDED": BatchPhase.completed,
    "PARTIALLY_SUCCEEDED": BatchPhase.expired,
    "EXPIRED": BatchPhase.expired,
    "CANCELLED": BatchPhase.cancelled,
    "CANCELED": BatchPhase.cancelled,
    "FAILED": BatchPhase.failed,
}
_FRACTION = re.compile(r"\.(\d{6})\d*")


def phase_of(raw_state: str) -> BatchPhase:
    return _PHASES.get(raw_state.upper().removeprefix("JOB_STATE_"), BatchPhase.unknown)


def tag_of(job: Json) -> str:
    """The tag in a job's name or label, "" for a job that is not ours."""
    labels = job.get("labels")
    label = labels.get(TAG_LABEL) if isinstance(labels, dict) else None
    return next(
        (text for text in (job.get("displayName"), label) if isinstance(text, str) and decode_tag(text) is not None), ""
    )


def read_job(job: Json) -> BatchStatus:
    """A job as Get and List give it. Raises ValueError where it has no name: then it is no job.

    Output files are not named in it: the data plane lists them.
    """
    name = job.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("the answer has no name")
    raw_state = str(job.get("state") or "JOB_STATE_UNSPECIFIED")
    phase = phase_of(raw_state)
    total, completed, failed = _counts(job)
    warnings = []
    if phase is BatchPhase.unknown:
        warnings.append(f"the provider says state {raw_state!r}, which is not known here")
    if raw_state.upper().endswith("PAUSED"):
        warnings.append("the provider says that the job is paused")
    return BatchStatus(
        batch_id=name,
        tag=tag_of(job),
        phase=phase,
        raw_state=raw_state,
        total=total,
        completed=completed,
        failed=failed,
        input_files=input_files(job),
        error=failed_job(job.get("error")) if phase is BatchPhase.failed else None,
        warning="; ".join([*warnings, *_partial_failures(job)]),
        created_at=_time(job.get("createTime")),
        ended_at=_time(job.get("endTime")) or _time(job.get("updateTime")) if phase.ended else None,
    )


def with_results(status: BatchStatus, files: Sequence[str]) -> BatchStatus:
    """An ended job with what lies in its output folder."""
    changes: dict[str, Any] = {"output_files": list(files)}
    if not files and _must_have_results(status):
        note = f"the provider says {status.raw_state}, but there is no result file yet"
        warning = "; ".join(filter(None, [status.warning, note]))
        changes |= {"settles_as": status.phase, "phase": BatchPhase.finalizing, "warning": warning}
    return status.model_copy(update=changes)


def input_files(job: Json) -> list[str]:
    config = job.get("inputConfig") or {}
    uris = (config.get("gcsSource") or {}).get("uris") or []
    table = (config.get("bigquerySource") or {}).get("inputUri")
    return [uri for uri in [*uris, table] if isinstance(uri, str) and uri]


def _must_have_results(status: BatchStatus) -> bool:
    if status.phase is BatchPhase.completed:
        return True
    partial = status.raw_state.upper().endswith("PARTIALLY_SUCCEEDED")
    return partial or (status.phase in {BatchPhase.expired, BatchPhase.cancelled} and status.completed > 0)


def _counts(job: Json) -> tuple[int, int, int]:
    """(total, succeeded, failed), each -1 where it is not told. Proto JSON writes int64 as text and leaves out zeros."""
    stats = job.get("completionStats")
    if not isinstance(stats, dict):
        return -1, -1, -1
    parts = [count_told(stats.get(name, 0)) for name in ("successfulCount", "failedCount", "incompleteCount")]
    return sum(parts) if min(parts) >= 0 else -1, parts[0], parts[1]


def _partial_failures(job: Json) -> list[str]:
    """At most 20 of them are told; the rows have them all, so that the first is enough."""
    found = job.get("partialFailures")
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return []
    return [f"partial failures, the first: {str(found[0].get('message') or found[0].get('code'))[:200]}"]


def _time(value: Any) -> datetime | None:
    """Proto JSON has up to nine digits behind the second."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(_FRACTION.sub(r".\1", value)).astimezone(UTC)
    except ValueError:
        return None
