"""What becomes of what a round left: the next round's plan call, or that the job is done.

The policy's rules applied to the job's memory. No workflow API, no clock.
"""

from datetime import datetime

from groupage.schemas import ErrorClass, FailureAction, JobPolicy, JobSpec, Route
from groupage.schemas.activity_calls import PlanRound
from groupage.schemas.states import UNEXPLAINED
from groupage.workflows.memory import JobMemory, RoundMemory, close_round
from groupage.workflows.policy.escalation import choose_route
from groupage.workflows.policy.failures import (
    LATE_CLASSES,
    LIMITS_HALVINGS,
    decide_actions,
    is_barren,
    once_more,
    unexplained_by_rounds,
)
from groupage.workflows.policy.pace import shard_requests, sync_shard_requests
from groupage.workflows.steps import clock, sync_until, work

ROUNDS_MAX = 90
"""A tag has two digits for the round."""


def plan_next(memory: JobMemory, spec: JobSpec, now: datetime, job: PlanRound) -> PlanRound | None:
    """The next round's plan call, filled in from `job`; None if the job is to be finished (memory says why)."""
    policy = spec.policy
    if memory.rounds_planned == 0:
        route = choose_route(policy, clock(memory, now), work(memory), memory.turnarounds)
        if route is None:
            memory.ending = f"the deadline of {memory.deadline_at:%F %H:%M:%S} UTC has passed before anything was sent"
            return None
        memory.escalated = route is Route.sync
        if memory.escalated:
            memory.reason = "the deadline is too near for a batch: everything goes by sync"
    else:
        route = Route.sync if memory.escalated else Route.batch
    return job.model_copy(
        update={
            "round": memory.rounds_planned,
            "first_route": route,
            "actions": memory.actions,
            "once_more": memory.once_more,
            "limits_factor": memory.limits_factor,
            "canary_requests": policy.canary_requests,
            "escalate": policy.escalate,
            "max_shard_requests": policy.max_shard_requests,
            "max_shard_bytes": policy.max_shard_bytes,
            "max_shard_tokens": policy.max_shard_tokens,
            "sync_shard_requests": sync_shard_requests(policy, memory.remainder),
        }
    )


def account_was_cleared(memory: JobMemory) -> bool:
    """Whether a person has decided on a refusal of the account in the current round."""
    current = memory.current
    return current is not None and (current.account_cleared > 0 or current.denied_cleared > 0)


def some_are_unexplained(memory: JobMemory) -> bool:
    """Whether the current round, not the first one, left requests that are tried once more."""
    current = memory.current
    return current is not None and memory.rounds_planned > 1 and bool(UNEXPLAINED & current.unanswered.keys())


def _count_round(memory: JobMemory, current: RoundMemory, *, no_try: bool) -> None:
    """What the round counts as: only what was sent is a try."""
    if current.batch_shards and current.sent > current.unsent:
        memory.rounds_sent += 1
    elif current.unsent:
        memory.rounds_free += 1
    if current.unexplained and current.unexplained == current.batch_shards:
        memory.rounds_unexplained += 1
    if current.sync_shards and not current.batch_shards and not no_try:
        memory.sync_rounds += 1


def finish_round(
    memory: JobMemory, policy: JobPolicy, now: datetime, *, no_try: bool = False, by_request: bool = True
) -> None:
    """The round has ended: what to do with each class of unanswered requests, or that the job is done.

    `no_try`: going by sync was refused for the account and a person said to go on, so it counts as no sync round.
    `by_request`: planning tells which requests have been tried once more; else that goes by the number of rounds.
    """
    current = memory.current
    if current is None:
        return
    unanswered = dict(current.unanswered)
    if current.unstarted:
        about = current.unstarted * shard_requests(current.requests, current.shards)
        unanswered[ErrorClass.not_sent] = unanswered.get(ErrorClass.not_sent, 0) + about
    _count_round(memory, current, no_try=no_try)
    if memory.ending is not None or memory.cancel_reason is not None:
        close_round(memory, 0)
        return
    if not any(unanswered.values()):
        memory.ending = ""
        close_round(memory, 0)
        return
    route = _route_of_rest(memory, current, policy, now)
    if route is None:
        memory.ending = f"the deadline came with {memory.remainder} requests unanswered"
        close_round(memory, 0)
        return
    insist = frozenset(memory.insist)
    actions = _actions(memory, current, policy, route, unanswered)
    if not by_request:
        actions = unexplained_by_rounds(actions, memory.rounds_sent + memory.sync_rounds, insist)
    memory.once_more, memory.insist = sorted(once_more(insist)), []
    _take(memory, current, actions, unanswered)


def _actions(
    memory: JobMemory, current: RoundMemory, policy: JobPolicy, route: Route, unanswered: dict[ErrorClass, int]
) -> dict[ErrorClass, FailureAction]:
    """What happens to each class. Adds to `unanswered` what is sure to be there, but was not counted."""
    if current.unsettled:
        # Shards that did not settle have no results in the store: planning sees their members as not sent.
        unanswered.setdefault(ErrorClass.not_sent, 1)
    # Those that settled after their provisional report have: their requests may be of any class by now.
    settling = dict.fromkeys(LATE_CLASSES, 1) if current.unsettled else {}
    actions = decide_actions(
        settling | unanswered,
        route=route,
        rounds_sent=memory.rounds_sent,
        rounds_planned=memory.rounds_planned - memory.rounds_free - memory.sync_rounds,
        sync_rounds=memory.sync_rounds,
        max_rounds=policy.max_rounds,
        escalate=policy.escalate,
        insist=frozenset(memory.insist),
    )
    if ErrorClass.not_sent in actions:
        # The store may know members of a refused shard by the class of the refusal: none of them was sent.
        actions |= dict.fromkeys(current.refused, actions[ErrorClass.not_sent])
        if current.unexplained:
            actions.setdefault(ErrorClass.unknown, actions[ErrorClass.not_sent])
        if is_barren(current.cut + (current.unexplained if memory.cutting else 0), current.batch_shards):
            actions[ErrorClass.not_sent] = FailureAction.give_up
    return actions


def _take(
    memory: JobMemory,
    current: RoundMemory,
    actions: dict[ErrorClass, FailureAction],
    unanswered: dict[ErrorClass, int],
) -> None:
    goes_on = {c for c, a in actions.items() if a in {FailureAction.resubmit, FailureAction.sync}}
    if not any(unanswered.get(c) for c in goes_on) or memory.rounds_planned >= ROUNDS_MAX:
        whole = current.refused or current.cut or current.unexplained
        memory.ending = f"the provider refused whole batches: {current.why_refused}" if whole else ""
    elif all(actions[c] is FailureAction.sync for c in goes_on):
        memory.escalated = True
    memory.actions = {c: a for c, a in actions.items() if a is not FailureAction.ask}
    given_up = sum(n for c, n in unanswered.items() if c not in goes_on)
    close_round(memory, given_up if memory.ending is None else 0)


def _route_of_rest(memory: JobMemory, current: RoundMemory, policy: JobPolicy, now: datetime) -> Route | None:
    """Where the rest goes. Shards that were refused as too large, or for a line that nobody named, are cut in halves,
    those of which the lines are known go again without them; as often as is allowed.
    """
    if memory.escalated:
        return Route.sync if now < sync_until(memory, policy) else None
    halved = current.refused.get(ErrorClass.too_large, 0) + current.cut + current.unexplained
    if halved or current.cleared:
        if memory.halvings >= LIMITS_HALVINGS:
            return Route.sync
        memory.halvings += 1
        memory.limits_factor /= 2.0 if halved else 1.0
        memory.rounds_free += 1
    return choose_route(policy, clock(memory, now), work(memory), memory.turnarounds)
