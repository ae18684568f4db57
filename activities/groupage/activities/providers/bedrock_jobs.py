"""Bedrock's model invocation job as our BatchStatus, and the names that our jobs have.

A job's name and its client request token are the tag; where earlier jobs of the tag are known to be dead,
both get a suffix made of their ids, because a token stands for one job for ever.

==================================  ==========================================================
Submitted, Validating, Scheduled    validating
InProgress                          in_progress
Stopping                            cancelling
Completed                           completed: all records were tried, not: all succeeded (PF-03)
PartiallyCompleted                  expired: the time was over with a part of the records done (PF-04)
Expired                             expired: it never started
Stopped                             cancelled
Failed                              failed
any other word                      unknown: not ended (PO-05)
==================================  ==========================================================
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from groupage.activities.providers.batch_objects import count_told
from groupage.activities.providers.bedrock_errors import failed_job
from groupage.schemas import BatchPhase, BatchStatus
from groupage.schemas.ids import decode_tag

_PHASES = {
    "Submitted": BatchPhase.validating,
    "Validating": BatchPhase.validating,
    "Scheduled": BatchPhase.validating,
    "InProgress": BatchPhase.in_progress,
    "Stopping": BatchPhase.cancelling,
    "Completed": BatchPhase.completed,
    "PartiallyCompleted": BatchPhase.expired,
    "Expired": BatchPhase.expired,
    "Stopped": BatchPhase.cancelled,
    "Failed": BatchPhase.failed,
}
_SUFFIX = re.compile(r"-x[0-9a-f]{8}")

Counts = tuple[int, int, int]
"""(total, succeeded, failed), each -1 where it is not told."""


def job_name(tag: str, dead_ids: Sequence[str]) -> str:
    """At most 43 of [a-z0-9-]: fits jobName (63) and clientRequestToken (256)."""
    if not dead_ids:
        return tag
    digest = hashlib.sha256("\n".join(sorted(dead_ids)).encode()).hexdigest()
    return f"{tag}-x{digest[:8]}"


def tag_of_name(name: Any) -> str:
    """The tag in a job's name, "" for a job that is not ours."""
    if not isinstance(name, str):
        return ""
    suffix = name[-10:]
    tag = name[:-10] if _SUFFIX.fullmatch(suffix) else name
    return tag if decode_tag(tag) is not None else ""


def phase_of(raw_state: str) -> BatchPhase:
    return _PHASES.get(raw_state, BatchPhase.unknown)


def read_job(job: dict[str, Any]) -> BatchStatus:
    """A job as Get and List give it. Raises ValueError where it has no ARN: then it is no job.

    Output files are not named in it: they are listed in S3.
    """
    arn = job.get("jobArn")
    if not isinstance(arn, str) or not arn:
        raise ValueError("the answer has no jobArn")
    raw = job.get("status")
    raw_state = raw if isinstance(raw, str) else ""
    phase = phase_of(raw_state)
    total, completed, failed = read_counts(job)
    ended_at = _time(job.get("endTime")) or _time(job.get("lastModifiedTime")) if phase.ended else None
    return BatchStatus(
        batch_id=arn,
        tag=tag_of_name(job.get("jobName")),
        phase=phase,
        raw_state=raw_state,
        total=total,
        completed=completed,
        failed=failed,
        input_files=_uris(job, "inputDataConfig", "s3InputDataConfig"),
        error=failed_job(str(job.get("message") or "")) if phase is BatchPhase.failed else None,
        warning="" if phase is not BatchPhase.unknown else f"the provider says status {raw!r}, which is not known here",
        created_at=_time(job.get("submitTime")),
        ended_at=ended_at,
        expires_at=_time(job.get("jobExpirationTime")),
    )


def output_folder(job: dict[str, Any]) -> str:
    """`s3://bucket/prefix/{job id}/`, in which the job's results lie; "" where the job names no output."""
    base = next(iter(_uris(job, "outputDataConfig", "s3OutputDataConfig")), "")
    arn = str(job.get("jobArn") or "")
    return f"{base.rstrip('/')}/{arn.rpartition('/')[2]}/" if base and "/" in arn else ""


def read_counts(source: dict[str, Any]) -> Counts:
    """The counts of a job or of a manifest: both use the same names."""
    names = ("totalRecordCount", "successRecordCount", "errorRecordCount")
    total, succeeded, failed = (count_told(source.get(name)) for name in names)
    return total, succeeded, failed


def with_results(status: BatchStatus, files: Sequence[str], manifest: Counts | None) -> BatchStatus:
    """An ended job with the objects that lie in its output folder; the manifest's counts stand in for the job's.

    Counts of 0 are what jobs say that count nothing (PO-10), so only other ones can disagree.
    """
    notes = [status.warning] if status.warning else []
    told = (status.total, status.completed, status.failed)
    if manifest is not None and max(manifest) >= 0:
        if max(told) > 0 and told[1:] != manifest[1:]:
            notes.append(
                f"the job counts {told[1]} succeeded and {told[2]} failed, its manifest {manifest[1]} and {manifest[2]}"
            )
        told = manifest
    changes: dict[str, Any] = {"output_files": list(files)}
    changes |= dict(zip(("total", "completed", "failed"), told, strict=True))
    if not any(is_result(ref) for ref in files) and _must_have_results(status.phase, told[1]):
        notes.append(f"the provider says {status.raw_state}, but there is no result file yet")
        changes |= {"settles_as": status.phase, "phase": BatchPhase.finalizing}
    return status.model_copy(update=changes | {"warning": "; ".join(notes)})


def is_manifest(ref: str) -> bool:
    return ref.rpartition("/")[2].startswith("manifest.json")


def is_result(ref: str) -> bool:
    """Result lines: `input.jsonl.out`, and whatever parts a later version may make of it."""
    return ".jsonl" in ref.rpartition("/")[2] and not is_manifest(ref)


def _must_have_results(phase: BatchPhase, completed: int) -> bool:
    if phase is BatchPhase.completed:
        return True
    return phase in {BatchPhase.expired, BatchPhase.cancelled} and completed > 0


def _uris(job: dict[str, Any], config: str, inner: str) -> list[str]:
    outer = job.get(config)
    found = outer.get(inner) if isinstance(outer, dict) else None
    uri = found.get("s3Uri") if isinstance(found, dict) else None
    return [uri] if isinstance(uri, str) and uri else []


def _time(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
