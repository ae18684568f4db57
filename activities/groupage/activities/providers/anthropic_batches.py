"""Anthropic's MessageBatch as our BatchStatus, and batches of which nobody knows yet whether they are ours.

`ended` says nothing about success, so the counts give the phase; the lines decide (promise 6). A batch has
no metadata: after a create call without an answer, all that a listing can show is that a batch of that size
was made at that time. Such batches are a *guess*, and a guess has an id of its own::

    guess:{tag}:{batch id}+{batch id}…

It is resolved when they end and their results can be read: the custom_ids say whose each is.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from groupage.activities.providers.batch_objects import read_time
from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass

_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
_GUESS = "guess:"


def read_batch(batch: dict[str, Any]) -> BatchStatus:
    """A batch object as BatchStatus. Raises ValueError where it has no id: then it is no batch object."""
    batch_id = batch.get("id")
    if not isinstance(batch_id, str) or not batch_id:
        raise ValueError("the answer has no batch id")
    raw = batch.get("processing_status")
    raw_state = raw if isinstance(raw, str) else ""
    counts = _counts(batch.get("request_counts"))
    phase, warning = _phase(raw_state, counts, cancelled=batch.get("cancel_initiated_at") is not None)
    settles_as: BatchPhase | None = None
    error: BatchError | None = None
    has_results = isinstance(batch.get("results_url"), str)
    if phase.ended and not has_results:
        if batch.get("archived_at") is not None:
            message = f"batch {batch_id} was archived: its results are gone (29 days after its creation)"
            error = BatchError(error_class=ErrorClass.missing, code="archived", message=message)
        else:
            settles_as, phase = phase, BatchPhase.finalizing
            warning = "the provider says that it has ended, but names no results yet"
    ended = raw_state == "ended"
    return BatchStatus(
        batch_id=batch_id,
        phase=phase,
        raw_state=raw_state,
        total=sum(counts.values()) if counts else -1,
        # All but `processing` stay 0 until the whole batch has ended: not told, rather than none.
        completed=counts.get("succeeded", -1) if ended else -1,
        failed=counts.get("errored", -1) if ended else -1,
        output_files=[batch_id] if has_results and ended else [],
        settles_as=settles_as,
        error=error,
        warning=warning,
        created_at=read_time(batch.get("created_at")),
        ended_at=read_time(batch.get("ended_at")),
        expires_at=read_time(batch.get("expires_at")),
    )


def _phase(raw_state: str, counts: dict[str, int], *, cancelled: bool) -> tuple[BatchPhase, str]:
    """(phase, warning). Of a batch that ended, what kept requests from running names it."""
    if raw_state == "in_progress":
        return BatchPhase.in_progress, ""
    if raw_state == "canceling":
        return BatchPhase.cancelling, ""
    if raw_state != "ended":
        return BatchPhase.unknown, f"the provider says status {raw_state!r}, which is not known here"
    if counts.get("canceled", 0) > 0 or (cancelled and not counts):
        return BatchPhase.cancelled, ""
    return (BatchPhase.expired if counts.get("expired", 0) > 0 else BatchPhase.completed), ""


def _counts(counts: Any) -> dict[str, int]:
    """Empty where they are not told, or all 0: no batch has no requests (PO-10)."""
    if not isinstance(counts, dict):
        return {}
    known = {name: counts.get(name) for name in _COUNTS}
    told = {name: count for name, count in known.items() if isinstance(count, int) and not isinstance(count, bool)}
    return told if any(told.values()) else {}


def read_http_date(text: str | None) -> datetime | None:
    """A Date header; None for a missing or odd one."""
    try:
        at = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)


def guess_id(tag: str, batch_ids: Sequence[str]) -> str:
    return f"{_GUESS}{tag}:{'+'.join(batch_ids)}"


def read_guess(batch_id: str) -> tuple[str, list[str]] | None:
    """(tag, ids of the batches of which one may be ours); None for the id of a batch that is known."""
    if not batch_id.startswith(_GUESS):
        return None
    tag, _, ids = batch_id.removeprefix(_GUESS).partition(":")
    return tag, ids.split("+")


def not_ours(batch_id: str, tag: str, ids: Sequence[str]) -> BatchStatus:
    """What became of a guess of which no batch is ours: the create call made none."""
    message = (
        f"the create call of {tag} had no answer, and none of the batches that it might have made is ours: "
        f"{', '.join(ids)}. They were left alone; the requests were never sent"
    )
    return BatchStatus(
        batch_id=batch_id,
        tag=tag,
        phase=BatchPhase.failed,
        raw_state="not ours",
        error=BatchError(error_class=ErrorClass.transient, code="not_ours", message=message[:1000]),
        warning=message[:300],
    )


def undecided(batch_id: str, tag: str, seen: Sequence[BatchStatus]) -> BatchStatus:
    """A guess whose batches have not all ended: as far as the one that is furthest behind."""
    ids = ", ".join(f"{batch.batch_id} ({batch.raw_state})" for batch in seen)
    return BatchStatus(
        batch_id=batch_id,
        tag=tag,
        phase=BatchPhase.in_progress,
        raw_state="unproven",
        total=max((batch.total for batch in seen), default=-1),
        warning=f"the create call had no answer; which of these batches is ours shows when they end: {ids}"[:300],
        created_at=min((batch.created_at for batch in seen if batch.created_at), default=None),
        expires_at=max((batch.expires_at for batch in seen if batch.expires_at), default=None),
    )
