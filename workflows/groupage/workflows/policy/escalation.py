"""When to stop waiting for batches and send the rest by sync.

    |accepted ............ batches run ............|settle|harvest|plan| sync x safety |finalize|deadline
                                                   ^ latest_escalation_s

The moment is recomputed whenever the remainder shrinks, and moves towards the deadline then. Waiting
until it costs nothing; waiting longer breaks the promise. The provider's counts do not move it: a batch
that does not settle in time brings nothing, however much of it is done. Two more rules:

* If sync can take everything that is left, the moment binds, whatever the batches promise.
* If sync cannot (a large job, a small rate limit), nothing can guarantee the deadline. Then batches
  are waited for as long as they are reckoned to answer more than sync could in the time left, and at
  `last_stop_s` what they have is harvested.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from groupage.schemas import JobPolicy, Route
from groupage.workflows.policy.estimate import finish_probability, settle_probability, typical_s
from groupage.workflows.policy.pace import sync_time_s

SETTLE_SHARE = 0.15
HARVEST_SHARE = 0.05
PLAN_SHARE = 0.04
FINALIZE_SHARE = 0.08
"""A short deadline scales all bounds down: together they take 32 % of the span at most."""

HARVEST_BASE_S = 60.0
HARVEST_RATE = 2_000.0
"""Requests a second that cancelled batches are downloaded and read at, a low guess."""

PLAN_BASE_S = 20.0
PLAN_RATE = 100_000.0
"""Splitting the remainder, starting its activities, and one slow call: what no throughput tells."""

FINALIZE_BASE_S = 5.0
FINALIZE_RATE = 20_000.0
"""Requests a second of the final merge, a low guess."""

LOOK_SHARE = 0.02
"""Two looks at the providers' counts are at least this share of the span apart: at most 50 looks a job."""

PARTIAL_SHARE = 0.3
LATE_SHARE = 0.5
"""Shares of its requests that a batch has answered, on average, when it is cut short and settles in time,
and when it does not and goes on meanwhile."""

FRUITLESS_SHARE = 0.01
"""Of a batch's usual turnaround: one that is cut short sooner has answered nothing."""

LEAST_GAIN = 0.05
"""Share of the discount that trying by batch must promise: less is not worth the risk of double payments."""


@dataclass(frozen=True, slots=True)
class Reserves:
    """Seconds set aside before the deadline for what follows the decision to stop."""

    settle_s: float
    harvest_s: float
    plan_s: float
    finalize_s: float

    @property
    def total_s(self) -> float:
        return self.settle_s + self.harvest_s + self.plan_s + self.finalize_s


@dataclass(frozen=True, slots=True)
class Clock:
    """The job's time: `span_s` from acceptance to the deadline, `now_s` since acceptance."""

    span_s: float
    now_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """What the job has: `requests` accepted in all, of which `remainder` are unanswered."""

    requests: int
    remainder: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of the running batches; `completed_share` is of their requests, by the counts."""

    turnarounds: Sequence[float] = ()
    elapsed_s: float = 0.0
    completed_share: float = 0.0


@dataclass(frozen=True, slots=True)
class EscalationPlan:
    """Escalate now, or look again at `look_at_s`. `enough` is false where sync cannot take the remainder in time."""

    escalate: bool
    look_at_s: float
    enough: bool


def settle_s(policy: JobPolicy, span_s: float) -> float:
    """How long a cancelled batch may take to end: the policy's bound, at most SETTLE_SHARE of the span."""
    return min(policy.settle.total_seconds(), SETTLE_SHARE * span_s)


def reserves(policy: JobPolicy, span_s: float, requests: int) -> Reserves:
    return Reserves(
        settle_s=settle_s(policy, span_s),
        harvest_s=min(HARVEST_BASE_S + requests / HARVEST_RATE, HARVEST_SHARE * span_s),
        plan_s=min(PLAN_BASE_S + requests / PLAN_RATE, PLAN_SHARE * span_s),
        finalize_s=min(FINALIZE_BASE_S + requests / FINALIZE_RATE, FINALIZE_SHARE * span_s),
    )


def latest_escalation_s(policy: JobPolicy, span_s: float, work: Work) -> float:
    """The last moment at which escalating still makes the deadline, with the safety factor. May lie before 0."""
    set_aside = reserves(policy, span_s, work.requests)
    return span_s - set_aside.total_s - policy.safety_factor * sync_time_s(policy, work.remainder)


def last_stop_s(policy: JobPolicy, span_s: float, requests: int) -> float:
    """The last moment to stop batches so that their answers are still harvested and merged by the deadline."""
    return span_s - reserves(policy, span_s, requests).total_s


def sync_until_s(policy: JobPolicy, span_s: float, requests: int) -> float:
    """When sync calls must have ended so that the merge makes the deadline."""
    return span_s - reserves(policy, span_s, requests).finalize_s


def sync_share(policy: JobPolicy, clock: Clock, work: Work, *, running: bool) -> float:
    """Share of the remainder that sync can take if it starts now (after settling, where batches run); 0 to 1."""
    if work.remainder <= 0:
        return 1.0
    set_aside = reserves(policy, clock.span_s, work.requests)
    left_s = clock.span_s - clock.now_s - (set_aside.total_s if running else set_aside.finalize_s)
    return max(0.0, min(1.0, left_s / sync_time_s(policy, work.remainder)))


def plan_escalation(policy: JobPolicy, clock: Clock, work: Work, evidence: Evidence) -> EscalationPlan:
    """Whether the running batches are to be stopped now, and if not, when to ask again."""
    stop_s = last_stop_s(policy, clock.span_s, work.requests)
    if not policy.escalate:
        return EscalationPlan(escalate=clock.now_s >= stop_s, look_at_s=stop_s, enough=False)
    latest_s = latest_escalation_s(policy, clock.span_s, work)
    share = sync_share(policy, clock, work, running=True)
    enough = share >= 1.0
    gap_s = LOOK_SHARE * clock.span_s
    if clock.now_s < latest_s:
        # A moment that is as good as here is not worth another look at the provider.
        near = latest_s - clock.now_s < gap_s
        return EscalationPlan(escalate=near, look_at_s=latest_s, enough=enough)
    if enough or clock.now_s >= stop_s:
        return EscalationPlan(escalate=True, look_at_s=clock.now_s, enough=enough)
    chance = finish_probability(
        evidence.turnarounds,
        elapsed_s=evidence.elapsed_s,
        within_s=stop_s - clock.now_s,
        completed_share=evidence.completed_share,
        typical_s=typical_s(policy),
    )
    # Answered in the end: by batches that end in time, else what they have by then; or what they have now and sync.
    by_waiting = chance + (1.0 - chance) * max(PARTIAL_SHARE, evidence.completed_share)
    by_escalating = evidence.completed_share + (1.0 - evidence.completed_share) * share
    look_at_s = min(stop_s, clock.now_s + max(gap_s, clock.span_s / 20.0))
    return EscalationPlan(escalate=by_escalating > by_waiting, look_at_s=look_at_s, enough=False)


def batch_gain(policy: JobPolicy, span_s: float, window_s: float, turnarounds: Sequence[float]) -> float:
    """What trying by batch for `window_s` saves, as a share of the discount; below 0 it costs more than it saves.

    A batch that ends in time saves all. One that is cut short saves what it has answered if it settles in
    time, and otherwise the same is paid for twice.
    """
    if window_s <= 0:
        return 0.0
    typical = typical_s(policy)
    ends = finish_probability(turnarounds, elapsed_s=0.0, within_s=window_s, typical_s=typical)
    settles = settle_probability(settle_s(policy, span_s), typical_s=typical)
    return ends + (1.0 - ends) * (PARTIAL_SHARE * settles - LATE_SHARE * (1.0 - settles))


def choose_route(policy: JobPolicy, clock: Clock, work: Work, turnarounds: Sequence[float]) -> Route | None:
    """Where unanswered requests go now: by batch, by sync, or nowhere (None) because no time is left."""
    stop_s = last_stop_s(policy, clock.span_s, work.requests)
    if not policy.escalate:
        return Route.batch if clock.now_s < stop_s else None
    if clock.now_s >= sync_until_s(policy, clock.span_s, work.requests):
        return None
    share = sync_share(policy, clock, work, running=False)
    if share >= 1.0:
        # Sync can take all of it afterwards, so trying by batch risks no deadline, only double payments.
        window_s = latest_escalation_s(policy, clock.span_s, work) - clock.now_s
        tries = (
            window_s >= LOOK_SHARE * clock.span_s
            and batch_gain(policy, clock.span_s, window_s, turnarounds) >= LEAST_GAIN
        )
        return Route.batch if tries else Route.sync
    within_s, typical = stop_s - clock.now_s, typical_s(policy)
    if within_s < FRUITLESS_SHARE * typical:
        return Route.sync
    chance = finish_probability(turnarounds, elapsed_s=0.0, within_s=within_s, typical_s=typical)
    return Route.batch if chance + (1.0 - chance) * PARTIAL_SHARE >= share else Route.sync
