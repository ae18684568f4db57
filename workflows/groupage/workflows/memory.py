"""What a BatchJob knows: all of it is handed to the next run by continue-as-new, so all of it is small.

Shards are counters and a list of the running ones (the policy's window bounds it to 200), never a
list of all: a job of thousands of shards carries as much as one of ten. With every list at its bound
it stays below PAYLOAD_MAX_BYTES (tested).
"""

from datetime import datetime
from decimal import Decimal

from groupage.schemas import BatchError, ErrorClass, FailureAction, Health, JobSpec, JobState, Outcome, ShardReport
from groupage.schemas.activity_calls import PreparedJob
from groupage.schemas.batches import NOT_TO_BE_SENT
from groupage.schemas.signals import ShardTrouble
from groupage.schemas.states import BatchPhase
from groupage.schemas.written import NotesUnknown
from groupage.workflows.policy.denials import standing_after
from groupage.workflows.policy.estimate import remember
from groupage.workflows.policy.questions import Question, permanent_failures
from groupage.workflows.policy.reasons import Reason, count_reason, tell_reasons
from groupage.workflows.shard_reports import NOT_RUN
from pydantic import BaseModel, Field

LEFT_BEHIND_NAMED = 50
"""Files and batches that are named in the summary; further ones are counted."""

TEXT_MAX = 500


class RoundMemory(BaseModel):
    """One round. Batch shards are numbered from 0, sync shards follow them."""

    round: int
    batch_shards: int
    sync_shards: int
    requests: int
    started_at: datetime
    next_batch: int = 0
    next_sync: int = 0
    running: list[int] = Field(default_factory=list)
    done: int = 0
    sent: int = 0
    """Shards that were not refused as a whole."""
    refused: dict[ErrorClass, int] = Field(default_factory=dict)
    """Shards that were refused as a whole, by class."""
    refusal: str = ""
    """Why the first of them was, in the provider's words."""
    reasons: list[Reason] = Field(default_factory=list)
    """Why they were refused, and those below."""
    cut: int = 0
    """Shards that were refused as invalid for a line that nobody named: they go again in halves."""
    unexplained: int = 0
    """Shards that the provider took and failed as a whole, and nobody knows why: they go again in halves."""
    cleared: int = 0
    """Shards that were refused for lines that were named: they go again without those."""
    unsettled: int = 0
    """Shards that did not end in time after they were told to stop."""
    stopped: bool = False
    """No further batch shard of this round is started."""
    restarts: dict[int, int] = Field(default_factory=dict)
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    unanswered: dict[ErrorClass, int] = Field(default_factory=dict)
    first_error: str = ""
    account_said: str = ""
    """What the first error told that may be the account's trouble."""
    account_cleared: int = 0
    """Account failures that a person has decided on."""
    troubled: list[int] = Field(default_factory=list)
    """Running shards that cannot go on until a person acts."""
    trouble: BatchError | None = None
    """What the first of them ran into."""
    completed_seen: int = 0
    completed_at: datetime | None = None
    answered: int = 0
    denials: int = 0
    """Requests that were refused with a 403, and no answer speaks against the account's being refused."""
    denied: int = 0
    """Those of them about which a person is asked."""
    denied_cleared: int = 0
    """Those about which a person has decided."""
    heard: tuple[int, int] = (0, 0)
    """Batch and sync shards that had been started then: what comes of them is decided too."""
    denial: str = ""
    """Why the first of them was, in the provider's words."""
    at_create: int = 0
    """Of `cut`: shards of which the provider did not even make a batch."""
    unsent: int = 0
    """Of `sent`: shards that an earlier run of the job planned, and that are not sent any more."""

    @property
    def shards(self) -> int:
        return self.batch_shards + self.sync_shards

    @property
    def account_failures(self) -> int:
        return self.unanswered.get(ErrorClass.account, 0) + self.refused.get(ErrorClass.account, 0)

    @property
    def unstarted(self) -> int:
        return self.shards - self.next_batch - self.next_sync

    @property
    def why_refused(self) -> str:
        """Each reason with what it holds for; a round begun by an older version knows the first one alone."""
        return tell_reasons(self.reasons) or self.refusal


class JobMemory(BaseModel):
    accepted_at: datetime
    deadline_at: datetime
    prepared: PreparedJob | None = None
    state: JobState = JobState.accepted
    health: Health = Health.on_track
    reason: str = ""
    published: dict[str, str] = Field(default_factory=dict)
    """Search attributes as upserted last."""
    current: RoundMemory | None = None
    actions: dict[ErrorClass, FailureAction] = Field(default_factory=dict)
    once_more: list[ErrorClass] = Field(default_factory=list)
    """Classes in which a request may end once (PlanRound)."""
    rounds_planned: int = 0
    rounds_sent: int = 0
    sync_rounds: int = 0
    rounds_unexplained: int = 0
    """Rounds of which the provider failed every batch as a whole, and nobody knows why."""
    rounds_free: int = 0
    """Rounds that do not count against max_rounds: nothing was sent, or a person asked for it."""
    limits_factor: float = 1.0
    halvings: int = 0
    escalated: bool = False
    escalate_at: datetime | None = None
    cost_decided: bool = False
    judged: bool = False
    """The first shard was found good enough, or a person decided on it."""
    forbidden_alone: bool = False
    """A person said that what is refused with a 403 is refused for itself."""
    cutting: bool = False
    """A person said that requests are at fault, though the provider takes no batch and names none."""
    first_failed: int = 0
    first_requests: int = 0
    insist: list[ErrorClass] = Field(default_factory=list)
    question: Question | None = None
    question_text: str = ""
    cancel_reason: str | None = None
    ending: str | None = None
    """Set once the job is to be finished; the text says why, empty if there is nothing to say."""
    failed_reason: str = ""
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    """Of requests that nothing more is done about."""
    cost_usd: Decimal = Decimal(0)
    waste_usd: Decimal = Decimal(0)
    turnarounds: list[float] = Field(default_factory=list)
    unsettled: dict[str, str] = Field(default_factory=dict)
    """ "round-shard" to batch id, of batches that were told to stop and have not ended."""
    left_behind: list[str] = Field(default_factory=list)
    left_behind_more: int = 0

    @property
    def accepted(self) -> int:
        """Requests that can be sent."""
        return self.prepared.requests - self.prepared.rejected if self.prepared is not None else 0

    @property
    def answered(self) -> int:
        return sum(n for outcome, n in self.outcomes.items() if outcome.answered)

    @property
    def remainder(self) -> int:
        """Requests that are neither answered nor given up. Reports of unsettled shards count roughly, so: never below 0."""
        return max(0, self.accepted - sum(self.outcomes.values()))


class JobArgument(JobSpec, NotesUnknown):
    """The argument of BatchJob: a JobSpec, and what the run before this one knew."""

    carried: JobMemory | None = Field(None, repr=False)

    @property
    def misspelt(self) -> str:
        """What is wrong with the fields that a person has written, in words; empty if nothing is.

        What Groupage has written may come from a newer one: the argument that a run hands to the next, and that
        of the client, which names the fingerprint of requests that it has put into the store.
        """
        by_us = self.carried is not None or (self.fingerprint is not None and self.input_url is None)
        return "" if by_us else self.unknown


def _add(counts: dict[Outcome, int], outcome: Outcome, number: int) -> None:
    counts[outcome] = counts.get(outcome, 0) + number


def absorb(memory: JobMemory, report: ShardReport) -> bool:
    """Count a report once; False if there was nothing new in it.

    A shard reports again with what could not be deleted, or when it settles after all; a report of a
    shard that does not run (any more) is a repetition.
    """
    _leave_behind(memory, report.left_behind)
    current = memory.current
    key = f"{report.round}-{report.shard}"
    if current is not None and report.round == current.round and report.shard in current.running:
        current.running.remove(report.shard)
        forget_trouble(current, report.shard)
        _count(memory, current, report)
        if report.unsettled:
            current.unsettled += 1
            memory.unsettled[key] = report.batch_id
        return True
    if key in memory.unsettled and report.unsettled and report.batch_id:
        # What it was in doubt about has shown.
        memory.unsettled[key] = report.batch_id
    if key in memory.unsettled and not report.unsettled:
        # Harvested late. Which of its answers are delivered is up to the merge; the status calls them waste.
        del memory.unsettled[key]
        memory.waste_usd += report.cost_usd + report.waste_usd
        return True
    return False


def note_trouble(memory: JobMemory, trouble: ShardTrouble) -> None:
    """Take note of what a running shard says of itself."""
    current = memory.current
    if current is None or trouble.round != current.round or trouble.shard not in current.running:
        return
    if trouble.error is None:
        forget_trouble(current, trouble.shard)
    elif trouble.shard not in current.troubled:
        current.troubled.append(trouble.shard)
        shown = trouble.error.model_copy(update={"message": trouble.error.message[:TEXT_MAX]})
        current.trouble = current.trouble or shown


def forget_trouble(current: RoundMemory, shard: int) -> None:
    current.troubled = [n for n in current.troubled if n != shard]
    if not current.troubled:
        current.trouble = None


def count_sync(memory: JobMemory, report: ShardReport) -> None:
    """Count the report of a sync shard: it comes as an activity's result, exactly once."""
    if memory.current is not None:
        _count(memory, memory.current, report)


def _count(memory: JobMemory, current: RoundMemory, report: ShardReport) -> None:
    current.done += 1
    for outcome, number in report.outcomes.items():
        _add(memory.outcomes if outcome.answered else current.outcomes, outcome, number)
    for error_class, number in report.unanswered.items():
        current.unanswered[error_class] = current.unanswered.get(error_class, 0) + number
    memory.cost_usd += report.cost_usd
    memory.waste_usd += report.waste_usd
    _count_refusal(current, report)
    _count_forbidden(current, report)
    if not current.account_said and report.unanswered.get(ErrorClass.account):
        current.account_said = report.account_said[:TEXT_MAX]
    if not current.first_error and report.unanswered:
        top = f"{report.top_errors[0][0]}" if report.top_errors else ""
        current.first_error = (report.error.message if report.error is not None else top)[:TEXT_MAX]
    current.unsent += report.error is not None and report.error.code == NOT_TO_BE_SENT
    if report.phase is BatchPhase.completed:
        memory.turnarounds = remember(memory.turnarounds, report.latency_s)
    if current.round == 0 and not memory.first_requests:
        memory.first_requests = report.requests
        memory.first_failed = permanent_failures(report)


def _count_refusal(current: RoundMemory, report: ShardReport) -> None:
    """Whether the shard was sent, or refused as a whole."""
    error = report.error
    if error is None or report.answered:
        current.sent += 1
        return
    if error.error_class in NOT_RUN:
        current.refused[error.error_class] = current.refused.get(error.error_class, 0) + 1
    elif error.error_class is ErrorClass.invalid and report.unanswered.get(ErrorClass.not_sent):
        if report.unanswered.get(ErrorClass.invalid):
            current.cleared += 1
        else:
            current.cut += 1
            current.at_create += not report.batch_id
    elif error.error_class is ErrorClass.unknown and report.unanswered.get(ErrorClass.not_sent):
        current.unexplained += 1
    else:
        current.sent += 1
        return
    current.refusal = current.refusal or error.message[:TEXT_MAX]
    current.reasons = count_reason(current.reasons, error.message, report.requests)


def _is_heard(current: RoundMemory, report: ShardReport) -> bool:
    batches, calls = current.heard
    if report.shard < current.batch_shards:
        return report.shard < batches
    return report.shard - current.batch_shards < calls


def _count_forbidden(current: RoundMemory, report: ShardReport) -> None:
    current.answered += report.answered
    forbidden = report.unanswered.get(ErrorClass.forbidden, 0)
    stopped = report.error is not None and report.error.error_class is ErrorClass.forbidden
    if _is_heard(current, report):
        return
    if stopped:
        # So many in a row that the calls were stopped, whatever had been answered before.
        current.denied += forbidden
    else:
        current.denials = standing_after(current.denials, forbidden, report.answered)
    if forbidden and not current.denial:
        told = report.error.message if stopped and report.error is not None else report.account_said
        current.denial = told[:TEXT_MAX]


def _leave_behind(memory: JobMemory, names: list[str]) -> None:
    for name in names:
        if name in memory.left_behind:
            continue
        if len(memory.left_behind) < LEFT_BEHIND_NAMED:
            memory.left_behind.append(name[:200])
        else:
            memory.left_behind_more += 1


def give_up(memory: JobMemory, requests: int) -> None:
    """So many requests are not sent again: they have their outcome."""
    if requests:
        _add(memory.outcomes, Outcome.failed, requests)


def close_round(memory: JobMemory, given_up: int) -> None:
    """The round is over: what is given up has its outcome, everything else is sent again."""
    give_up(memory, given_up)
    memory.current = None


def left_behind_named(memory: JobMemory) -> list[str]:
    """For the summary: files, and batches whose late answers are waste."""
    names = list(memory.left_behind)
    names += [f"batch {batch or '(unknown)'} of shard {key} had not ended" for key, batch in memory.unsettled.items()]
    shown = names[:LEFT_BEHIND_NAMED]
    more = memory.left_behind_more + len(names) - len(shown)
    return [*shown, f"and {more} more"] if more else shown
