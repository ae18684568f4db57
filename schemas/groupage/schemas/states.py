"""Every state, outcome and error class, with the transitions that are allowed.

A job (workflow `BatchJob`)::

    accepted -> preparing -> [needs_decision] -> running -> [escalating] -> finalizing -> completed
                    |              |  ^            |  ^                         |-> completed_with_failures
                    |              |  |            v  |                         |-> failed
                    v              v  └------ needs_decision                    └-> cancelled
                  failed       finalizing

A provider batch (workflow `ProviderBatch`), in our words; each adapter maps its provider's::

    submitting -> validating -> in_progress -> finalizing -> completed | failed | expired | cancelled
                      └------------┴-> cancelling -> cancelled | completed | expired
    unknown: any word that we do not know; counts as not ended, is kept and reported
"""

from enum import StrEnum


class JobState(StrEnum):
    accepted = "accepted"
    preparing = "preparing"
    needs_decision = "needs_decision"
    running = "running"
    escalating = "escalating"
    finalizing = "finalizing"
    completed = "completed"
    completed_with_failures = "completed_with_failures"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def ended(self) -> bool:
        return self in ENDED_JOB_STATES


ENDED_JOB_STATES = frozenset(
    {JobState.completed, JobState.completed_with_failures, JobState.failed, JobState.cancelled}
)

JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.accepted: frozenset({JobState.preparing}),
    JobState.preparing: frozenset(
        {JobState.needs_decision, JobState.running, JobState.escalating, JobState.finalizing, JobState.failed}
    ),
    JobState.needs_decision: frozenset({JobState.running, JobState.escalating, JobState.finalizing}),
    JobState.running: frozenset({JobState.needs_decision, JobState.escalating, JobState.finalizing}),
    JobState.escalating: frozenset({JobState.needs_decision, JobState.finalizing}),
    JobState.finalizing: ENDED_JOB_STATES,
    JobState.completed: frozenset(),
    JobState.completed_with_failures: frozenset(),
    JobState.failed: frozenset(),
    JobState.cancelled: frozenset(),
}


class BatchPhase(StrEnum):
    """The life of a provider batch in our words."""

    validating = "validating"
    in_progress = "in_progress"
    finalizing = "finalizing"
    cancelling = "cancelling"
    completed = "completed"
    failed = "failed"
    expired = "expired"
    cancelled = "cancelled"
    unknown = "unknown"

    @property
    def ended(self) -> bool:
        return self in ENDED_BATCH_PHASES


ENDED_BATCH_PHASES = frozenset({BatchPhase.completed, BatchPhase.failed, BatchPhase.expired, BatchPhase.cancelled})


class Outcome(StrEnum):
    """How one request ended. The first three are answers: they are paid for and never sent again."""

    succeeded = "succeeded"
    truncated = "truncated"
    refused = "refused"
    failed = "failed"
    expired = "expired"
    cancelled = "cancelled"
    unreadable = "unreadable"

    @property
    def answered(self) -> bool:
        return self in ANSWERED_OUTCOMES


ANSWERED_OUTCOMES = frozenset({Outcome.succeeded, Outcome.truncated, Outcome.refused})


class ErrorClass(StrEnum):
    """Why a request or a batch has no answer: what is done next depends on this alone.

    invalid     the request itself is wrong: never sent again unchanged
    too_large   the request or the file is over a size limit: a file is split, a request given up
    transient   5xx, timeouts, connection lost, overloaded: the same bytes may work later
    rate_limit  429 and its kind: the same bytes will work later
    quota       enqueued-token or batch-count quota: wait, then the same bytes
    account     key, permission, credit: stop and ask; no request is at fault
    forbidden   a 403 to one request: its own failure where its neighbours are answered, else as account
    expired     the provider's window ended first
    cancelled   the batch was cancelled before this request ran
    missing     in no result file, though the batch ended
    unreadable  a line that cannot be parsed, or is not shaped like an answer
    not_sent    the job ended before this request was sent
    unknown     a code that we do not know: kept, reported, tried once more
    """

    invalid = "invalid"
    too_large = "too_large"
    transient = "transient"
    rate_limit = "rate_limit"
    quota = "quota"
    account = "account"
    forbidden = "forbidden"
    expired = "expired"
    cancelled = "cancelled"
    missing = "missing"
    unreadable = "unreadable"
    not_sent = "not_sent"
    unknown = "unknown"


UNEXPLAINED = frozenset({ErrorClass.missing, ErrorClass.unreadable, ErrorClass.unknown})
"""Nobody knows why the request has no answer (docs/cases.md PF-08): each try may have been billed."""


class FailureAction(StrEnum):
    """What the failure policy does with the unanswered requests of one error class."""

    resubmit = "resubmit"
    sync = "sync"
    give_up = "give_up"
    ask = "ask"


class Route(StrEnum):
    batch = "batch"
    flex = "flex"
    sync = "sync"


class Health(StrEnum):
    """Search attribute GroupageHealth."""

    on_track = "on_track"
    at_risk = "at_risk"
    stuck = "stuck"
    needs_decision = "needs_decision"
    unclaimed = "unclaimed"


class Decision(StrEnum):
    """Argument of the update `decide`.

    go_on   proceed as planned (pay the estimate, send the rest)
    retry   send the unanswered requests again
    accept  keep what is there and finish
    abort   cancel what runs, keep what is there, end as cancelled
    """

    go_on = "go_on"
    retry = "retry"
    accept = "accept"
    abort = "abort"


def final_job_state(outcomes: dict[Outcome, int], *, cancelled: bool, failed: bool) -> JobState:
    """The state a job ends in, from what its requests ended in.

    A job in which no request was answered has failed, whatever the provider's status word says;
    an empty job is completed.
    """
    if cancelled:
        return JobState.cancelled
    total = sum(outcomes.values())
    answered = sum(n for outcome, n in outcomes.items() if outcome.answered)
    if failed or (total and not answered):
        return JobState.failed
    return JobState.completed if outcomes.get(Outcome.succeeded, 0) == total else JobState.completed_with_failures
