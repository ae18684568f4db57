"""OpenAI's batch object, and what its relatives make of it, as our BatchStatus.

Everything in it may be missing, null or new: an unknown word is not an end (docs/cases.md PO-05), counts are
hints (PO-10), and "completed" without the file that must be there is not the end yet (PO-08).
"""

import re
from collections.abc import Mapping
from typing import Any

from groupage.activities.providers.bad_lines import OF_ALL_LINES, bad_lines
from groupage.activities.providers.batch_objects import count_told, read_time
from groupage.activities.providers.openai_errors import classify_call
from groupage.schemas import BadLines, BatchError, BatchPhase, BatchStatus, ErrorClass
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

TAG_KEY = "groupage_tag"
"""The key of a batch's metadata that holds our tag."""

_PHASES = {
    "validating": BatchPhase.validating,
    "inprogress": BatchPhase.in_progress,
    "finalizing": BatchPhase.finalizing,
    "finalising": BatchPhase.finalizing,
    "completed": BatchPhase.completed,
    "failed": BatchPhase.failed,
    "expired": BatchPhase.expired,
    "cancelling": BatchPhase.cancelling,
    "canceling": BatchPhase.cancelling,
    "cancelled": BatchPhase.cancelled,
    "canceled": BatchPhase.cancelled,
}
OF_FILE = {"input_no_permissions": ErrorClass.account, "input_modified": ErrorClass.transient}
"""Codes of Azure's about a file and not its lines: one that may not be read, and one that was changed after the upload."""
_NOT_LETTERS = re.compile(r"[^a-z]")

_ENDED_AT = {
    BatchPhase.completed: "completed_at",
    BatchPhase.failed: "failed_at",
    BatchPhase.expired: "expired_at",
    BatchPhase.cancelled: "cancelled_at",
}


def phase_of(raw_state: str) -> BatchPhase:
    """Our word for the provider's, whatever its case and spelling ("Validating", "InProgress", "canceled")."""
    return _PHASES.get(_NOT_LETTERS.sub("", raw_state.lower()), BatchPhase.unknown)


def tag_of(batch: dict[str, Any]) -> str:
    metadata = batch.get("metadata")
    tag = metadata.get(TAG_KEY) if isinstance(metadata, dict) else None
    return tag if isinstance(tag, str) else ""


def read_batch(batch: dict[str, Any], of_file: Mapping[str, ErrorClass] = OF_FILE) -> BatchStatus:
    """A batch object as BatchStatus. Raises ValueError where it has no id: then it is no batch object.

    `of_file` are the codes that refuse a file for no fault of its lines.
    """
    batch_id = batch.get("id")
    if not isinstance(batch_id, str) or not batch_id:
        raise ValueError("the answer has no batch id")
    raw = batch.get("status")
    raw_state = raw if isinstance(raw, str) else ""
    phase = phase_of(raw_state)
    warning = "" if phase is not BatchPhase.unknown else f"the provider says status {raw!r}, which is not known here"
    total, completed, failed = _counts(batch.get("request_counts"))
    outputs, errors = _files(batch.get("output_file_id")), _files(batch.get("error_file_id"))
    ended_at = read_time(batch.get(_ENDED_AT.get(phase, "")))
    settles_as: BatchPhase | None = None
    if _lacks_files(phase, completed, outputs, errors):
        settles_as = phase
        warning = f"the provider says {raw_state} with {max(completed, 0)} completed, but names no output file yet"
        phase = BatchPhase.finalizing
    return BatchStatus(
        batch_id=batch_id,
        tag=tag_of(batch),
        phase=phase,
        raw_state=raw_state,
        total=total,
        completed=completed,
        failed=failed,
        input_files=_files(batch.get("input_file_id")),
        output_files=outputs,
        error_files=errors,
        settles_as=settles_as,
        error=_batch_error(batch.get("errors"), of_file) if phase is BatchPhase.failed else None,
        warning=warning,
        created_at=read_time(batch.get("created_at")),
        ended_at=ended_at,
        expires_at=read_time(batch.get("expires_at")),
    )


def _lacks_files(phase: BatchPhase, completed: int, outputs: list[str], errors: list[str]) -> bool:
    """True where an ended batch must have a file that it does not name (PO-08)."""
    if phase is BatchPhase.completed and not outputs and not errors:
        return True
    return phase in {BatchPhase.completed, BatchPhase.expired, BatchPhase.cancelled} and completed > 0 and not outputs


def _files(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value else []


def _counts(counts: Any) -> tuple[int, int, int]:
    """(total, completed, failed), each -1 where it is not told."""
    told = counts if isinstance(counts, dict) else {}
    return count_told(told.get("total")), count_told(told.get("completed")), count_told(told.get("failed"))


def _batch_error(errors: Any, of_file: Mapping[str, ErrorClass]) -> BatchError:
    """Why the batch failed: the first entry decides, the number of further ones is told, the lines at fault are kept."""
    data = errors.get("data") if isinstance(errors, dict) else errors
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    if not entries:
        text = errors if isinstance(errors, str) else "the provider gives no reason"
        return BatchError(error_class=ErrorClass.unknown, code="failed", message=text[:FAILURE_MESSAGE_MAX])
    found, code, message = classify_call(None, entries[0])
    found = of_file.get(code, found)
    lines = _named_lines(entries) if found in {ErrorClass.invalid, ErrorClass.unknown} else []
    if found is ErrorClass.unknown and (lines or code in _INVALID_FILE_CODES):
        found = ErrorClass.invalid
    line = entries[0].get("line")
    where = f"line {line} of the batch's input: " if isinstance(line, int) else ""
    more = f" (and {len(entries) - 1} more)" if len(entries) > 1 else ""
    text = f"{where}{message}{more}"[:FAILURE_MESSAGE_MAX]
    return BatchError(error_class=found, code=code, message=text, bad_lines=lines, of_all_lines=code in OF_ALL_LINES)


def _named_lines(entries: list[dict[str, Any]]) -> list[BadLines]:
    """The lines at fault; none unless every entry names one, since what is wrong besides concerns all lines."""
    named = []
    for entry in entries:
        line = entry.get("line")
        if not isinstance(line, int) or isinstance(line, bool):
            return []
        _, code, message = classify_call(None, entry)
        named.append((line, code, message))
    return bad_lines(named)


_INVALID_FILE_CODES = frozenset(
    {
        "invalid_json_line",
        "url_mismatch",
        "invalid_url",
        "invalid_method",
        "missing_custom_id",
        "missing_required_parameter",
        "model_not_found",
        "duplicate_custom_id",
        "empty_file",
        "empty_batch",
        "model_mismatch",
        "mismatched_model",
        "invalid_request",
    }
)
"""What a file is refused for at validation (OpenAI and Azure)."""
