"""Ending a job: all rounds merged, the sums checked, the summary written last."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from groupage.activities.late import REPORT, Unmerged, note_late_shards, unmerged_key
from groupage.activities.refusals import seal_refused
from groupage.activities.sweep import read_submitted
from groupage.activities.threads import check
from groupage.schemas import (
    LONGEST,
    ErrorClass,
    JobManifest,
    Message,
    Outcome,
    ShardRef,
    ShardReport,
    Summary,
    final_job_state,
)
from groupage.schemas.activity_calls import FinalizeJob
from groupage.schemas.errors import StoreError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.store import keys
from groupage.store.merge import Merged, NoResult, merge_job
from groupage.store.objects import Store
from groupage.store.segments import read_manifest
from groupage.store.shard_results import read_shard_results
from groupage.store.shards import count_rounds, read_round_plan, read_shard_plan
from groupage.store.sync_parts import compact, read_flushed

NOTES_SHOWN = 20
"""Notes of each kind in the summary: it travels through Temporal. All of them are in the shards' reports."""
NOTE_MAX = 300


class Ended(Message):
    """`ended.json`: when finalizing began, put once. The merge takes its times from it: a second attempt
    must write the same bytes.
    """

    at: datetime


@dataclass(slots=True)
class _Notes:
    """What the shards' reports say beyond their results."""

    maybe_paid_twice: int = 0
    quarantined: int = 0
    unreadable: int = 0
    quarantined_usd: Decimal = Decimal(0)
    mismatches: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)


def finalize_job(store: Store, call: FinalizeJob, spool: Path, stop: threading.Event) -> Summary:
    """Merge, check, sum up. Blocks: run it in a thread. A job that has its summary already keeps it.

    Raises StoreError where an object is damaged, or where the outcomes do not add up to the requests.
    """
    job = call.job
    found = store.get_message_or_none(keys.summary(job.tenant, job.key), Summary)
    if found is not None:
        note_late_shards(store, job)
        return found
    manifest = read_manifest(store, job.tenant, job.key)
    ended_at = _ended_at(store, call)
    shards: list[tuple[int, int]] = []
    notes = _Notes(left_behind=_left_behind(store, call))
    for round_, shard, sync in _shards(store, call):
        check(stop)
        if sync:
            _seal(store, call, (round_, shard), spool)
        elif not call.cancelled and f"{round_}-{shard}" not in call.unsettled:
            ref = ShardRef(job=job, round=round_, shard=shard)
            seal_refused(store, ref, datetime.fromisoformat(manifest.accepted_at), spool, stop)
        _note(store, call, (round_, shard), notes)
        shards.append((round_, shard))
    merged = merge_job(
        store,
        manifest,
        shards,
        no_result=_no_result(call, ended_at),
        # Older jobs may ask for more years than there are.
        effective_until=ended_at + min(LONGEST, timedelta(seconds=call.effective_for_s)),
        directory=spool,
        heartbeat=lambda _parts: check(stop),
    )
    _check_sums(manifest, merged)
    unsettled = {name: _requests_of(store, call, name) for name in call.unsettled if name in merged.without_results}
    summary = _summary(call, manifest, merged, notes, unsettled, rounds=_rounds(store, call))
    store.put_message(unmerged_key(job), Unmerged(shards=merged.without_results))
    is_first = store.put_new_message(keys.summary(job.tenant, job.key), summary)
    note_late_shards(store, job)
    if is_first:
        return summary
    return store.get_message(keys.summary(job.tenant, job.key), Summary)


def _ended_at(store: Store, call: FinalizeJob) -> datetime:
    key = f"{keys.job(call.job.tenant, call.job.key)}/ended.json"
    store.put_new_message(key, Ended(at=datetime.now(UTC)))
    return store.get_message(key, Ended).at


def _shards(store: Store, call: FinalizeJob) -> Iterator[tuple[int, int, bool]]:
    """(round, shard, whether it is a sync shard) of all rounds; the last one of each holds what planning gave up.

    An earlier run of the job, terminated by hand, may have planned more rounds than this one came to.
    """
    for round_ in range(_rounds(store, call)):
        plan = read_round_plan(store, call.job.tenant, call.job.key, round_)
        if plan is None:
            continue  # planning was cut short: nothing of this round was sent
        for shard in range(plan.batch_shards + plan.sync_shards):
            yield round_, shard, shard >= plan.batch_shards
        given_up = (round_, plan.batch_shards + plan.sync_shards)
        if read_shard_results(store, call.job.tenant, call.job.key, *given_up) is not None:
            yield *given_up, False


def _rounds(store: Store, call: FinalizeJob) -> int:
    return max(call.rounds, count_rounds(store, call.job.tenant, call.job.key))


def _seal(store: Store, call: FinalizeJob, shard: tuple[int, int], spool: Path) -> None:
    """Keep what a sync shard flushed although its activity did not come to its end."""
    at = (call.job.tenant, call.job.key, *shard)
    if read_shard_results(store, *at) is None and read_flushed(store, *at).parts:
        compact(store, *at, directory=spool)


def _note(store: Store, call: FinalizeJob, shard: tuple[int, int], notes: _Notes) -> None:
    at = (call.job.tenant, call.job.key, *shard)
    report = store.get_message_or_none(keys.shard_object(*at, REPORT), ShardReport)
    if report is None:
        return
    notes.maybe_paid_twice += report.maybe_paid_twice
    notes.unreadable += report.unanswered.get(ErrorClass.unreadable, 0)
    if report.quarantined:
        results = read_shard_results(store, *at)
        notes.quarantined += report.quarantined
        # The part of the shard's waste that belongs to no request, and so is in no row.
        notes.quarantined_usd += report.waste_usd - (results.tally.waste_usd if results else Decimal(0))
    if report.count_mismatch:
        notes.mismatches.append(f"r{shard[0]}-s{shard[1]}: {report.count_mismatch}"[:NOTE_MAX])
    notes.left_behind += report.left_behind


def _left_behind(store: Store, call: FinalizeJob) -> list[str]:
    """What the workflow names. The id of a batch that had not ended may be known to its shard alone."""
    texts = list(call.left_behind)
    for name in call.unsettled:
        round_, _, shard = name.partition("-")
        submitted = read_submitted(store, call.job.tenant, call.job.key, int(round_), int(shard))
        if submitted is not None:
            unknown, known = f"batch (unknown) of shard {name} ", f"batch {submitted.batch_id} of shard {name} "
            texts = [text.replace(unknown, known) for text in texts]
    return texts


def _no_result(call: FinalizeJob, ended_at: datetime) -> NoResult:
    """What stands for a request that was never sent."""
    if call.cancelled:
        outcome, code, message = Outcome.cancelled, "job_cancelled", "the job was cancelled before it was sent"
    elif call.failed_reason:
        outcome, code, message = Outcome.failed, "job_failed", call.failed_reason
    else:
        outcome, code, message = Outcome.expired, "not_sent", call.reason or "the job ended before it was sent"
    return NoResult(outcome, ErrorClass.not_sent, code, message[:FAILURE_MESSAGE_MAX], ended_at)


def _check_sums(manifest: JobManifest, merged: Merged) -> None:
    """Promise 1: every request has exactly one outcome. Checked here, not assumed."""
    total = sum(merged.tally.outcomes.values())
    if not total == merged.tally.requests == manifest.requests:
        raise StoreError(
            f"job {manifest.key!r}: {manifest.requests} requests were accepted, the results are "
            f"{merged.tally.requests} with {total} outcomes",
            hint="the merged results disagree with the manifest; compare results/ with requests/",
        )
    unanswered = sum(n for outcome, n in merged.tally.outcomes.items() if not outcome.answered)
    if sum(merged.tally.unanswered.values()) != unanswered:
        raise StoreError(
            f"job {manifest.key!r}: {unanswered} requests have no answer, but "
            f"{sum(merged.tally.unanswered.values())} have an error class"
        )


def _requests_of(store: Store, call: FinalizeJob, name: str) -> int:
    round_, _, shard = name.partition("-")
    return read_shard_plan(store, call.job.tenant, call.job.key, int(round_), int(shard)).requests


def _summary(
    call: FinalizeJob, manifest: JobManifest, merged: Merged, notes: _Notes, unsettled: dict[str, int], *, rounds: int
) -> Summary:
    tally = merged.tally
    mismatches = _first(notes.mismatches)
    if merged.paid_twice:
        mismatches.append(f"{merged.paid_twice} answers came for requests that were answered already; they are waste")
    return Summary(
        tenant=manifest.tenant,
        key=manifest.key,
        fingerprint=manifest.fingerprint,
        state=final_job_state(tally.outcomes, cancelled=call.cancelled, failed=bool(call.failed_reason)),
        reason=(call.failed_reason or call.reason)[:FAILURE_MESSAGE_MAX],
        provider=manifest.provider,
        requests=manifest.requests,
        outcomes=tally.outcomes,
        error_classes=tally.unanswered,
        top_errors=tally.top_errors,
        error_messages=merged.error_messages,
        routes=tally.routes,
        rounds=rounds,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        waste_usd=tally.waste_usd + notes.quarantined_usd,
        sync_cost_usd=tally.sync_cost_usd,
        cost_estimated=tally.cost_estimated,
        unpriced=tally.unpriced,
        maybe_paid_twice=notes.maybe_paid_twice + sum(unsettled.values()),
        unsettled=unsettled,
        quarantined=notes.quarantined,
        unreadable=notes.unreadable,
        count_mismatches=mismatches,
        left_behind=_first(list(dict.fromkeys(notes.left_behind))),
        result_parts=merged.parts,
        accepted_at=call.accepted_at,
        deadline_at=call.deadline_at,
        finished_at=datetime.now(UTC),
    )


def _first(texts: list[str]) -> list[str]:
    """The first NOTES_SHOWN, and how many more there are."""
    shown = [text[:NOTE_MAX] for text in texts[:NOTES_SHOWN]]
    return [*shown, f"and {len(texts) - NOTES_SHOWN} more"] if len(texts) > NOTES_SHOWN else shown
