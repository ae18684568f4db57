"""What a job does while a round runs: questions and looks, by the policy's rules and the job's memory.

No workflow API, no clock. What becomes of a round's rest is in `between_rounds`.
"""

from datetime import datetime, timedelta

from groupage.schemas import DecideInput, Decision, ErrorClass, Health, JobPolicy, JobSpec, Route
from groupage.schemas.activity_calls import Progress
from groupage.workflows.memory import JobMemory, RoundMemory
from groupage.workflows.policy.denials import is_the_accounts
from groupage.workflows.policy.escalation import (
    Clock,
    Evidence,
    Work,
    choose_route,
    last_stop_s,
    latest_escalation_s,
    plan_escalation,
    reserves,
    sync_until_s,
)
from groupage.workflows.policy.estimate import typical_s
from groupage.workflows.policy.failures import PERMANENT, fails_all, takes_none
from groupage.workflows.policy.health import job_health
from groupage.workflows.policy.questions import (
    Question,
    account_question,
    all_failed_question,
    cost_question,
    denied_question,
    mostly_failed_question,
    none_taken_question,
)

CONTINUE_AT_EVENTS = 2_000
"""Far below the server's own suggestion (4,096), because signals go on while it is being done."""

SHORT_SPAN_S = 600.0
"""Within it nobody looks at a job's health, and extra looks at the provider would only cost."""

HEALTH_LOOK_SHARE = 1.0 / 8.0
ORPHAN_LOOK_S = 600.0
"""How often shards that an earlier run started are looked after, at most."""


def history_is_full(events: int) -> bool:
    return events >= CONTINUE_AT_EVENTS


def span_s(memory: JobMemory) -> float:
    return (memory.deadline_at - memory.accepted_at).total_seconds()


def clock(memory: JobMemory, now: datetime) -> Clock:
    return Clock(span_s=span_s(memory), now_s=(now - memory.accepted_at).total_seconds())


def at(memory: JobMemory, seconds: float) -> datetime:
    """A time given in seconds since acceptance."""
    return memory.accepted_at + timedelta(seconds=seconds)


def work(memory: JobMemory) -> Work:
    return Work(requests=memory.accepted, remainder=memory.remainder)


def sync_until(memory: JobMemory, policy: JobPolicy) -> datetime:
    return at(memory, sync_until_s(policy, span_s(memory), memory.accepted))


def last_stop(memory: JobMemory, policy: JobPolicy) -> datetime:
    return at(memory, last_stop_s(policy, span_s(memory), memory.accepted))


def stop_wait_s(memory: JobMemory, policy: JobPolicy) -> tuple[float, float]:
    """(how long cancelled batches may take to settle, how long their reports are waited for), seconds."""
    set_aside = reserves(policy, span_s(memory), memory.accepted)
    return set_aside.settle_s, set_aside.settle_s + set_aside.harvest_s


def ask_about_cost(memory: JobMemory, spec: JobSpec, now: datetime) -> None:
    """Raise the question of cost, once, before anything is sent."""
    prepared = memory.prepared
    if memory.cost_decided or memory.rounds_planned or prepared is None:
        return
    route = choose_route(spec.policy, clock(memory, now), work(memory), ())
    by_sync = route is Route.sync
    text = cost_question(
        spec.policy,
        prepared.estimated_sync_cost_usd if by_sync else prepared.estimated_cost_usd,
        unpriced=prepared.unpriced_requests,
        models=prepared.unpriced_models,
    )
    if text:
        memory.question, memory.question_text = Question.cost, text


def ask_about_shards(memory: JobMemory, spec: JobSpec) -> None:
    """Raise the questions that finished shards call for."""
    current = memory.current
    if current is None or memory.question is not None or memory.ending is not None:
        return
    if current.account_failures > current.account_cleared:
        memory.question = Question.account
        memory.question_text = account_question(spec.provider, current.account_said or current.first_error)
        return
    _judge_denials(memory, current)
    if current.denied > current.denied_cleared and not memory.forbidden_alone:
        memory.question = Question.denied
        memory.question_text = denied_question(spec.provider, current.denied - current.denied_cleared, current.denial)
        return
    if memory.judged or not memory.first_requests:
        return
    text = mostly_failed_question(spec.policy, memory.first_failed, memory.first_requests, current.first_error)
    if text and current.next_batch < current.batch_shards:
        memory.question, memory.question_text = Question.mostly_failed, text
    else:
        memory.judged = True


def _judge_denials(memory: JobMemory, current: RoundMemory) -> None:
    # A round that was stopped for the sync API judges nothing: what is answered there does, and no question may
    # keep its rest from going.
    idle = not current.stopped and current.done >= current.next_batch + current.next_sync
    if is_the_accounts(current.denials, memory.answered, idle=idle):
        current.denied += current.denials
        current.denials = 0


def none_is_taken(memory: JobMemory) -> bool:
    """Whether the provider has refused every batch of the job before it was one: a person is to say why."""
    current = memory.current
    return (
        current is not None
        and _may_ask(memory)
        and not _got_through(memory)
        and takes_none(current.at_create, current.done, len(current.running))
    )


def all_fail(memory: JobMemory) -> bool:
    """Whether the provider has made batches of the job and failed every one as a whole: a person is to say why."""
    current = memory.current
    if current is None or not _may_ask(memory):
        return False
    # Where others got through, halves that fail speak of bad requests, until all of many do.
    again = memory.rounds_unexplained > 0 and not _got_through(memory)
    return fails_all(current.at_create, current.unexplained, current.done, len(current.running), again=again)


def _may_ask(memory: JobMemory) -> bool:
    """Nothing else is asked, nor has anybody said that it is about some requests."""
    return memory.question is None and memory.ending is None and not memory.cutting


def _got_through(memory: JobMemory) -> bool:
    return bool(memory.rounds_sent or memory.answered)


def ask_why_none_is_taken(memory: JobMemory, spec: JobSpec) -> None:
    assert memory.current is not None
    memory.question = Question.none_taken
    memory.question_text = none_taken_question(spec.provider, memory.current.why_refused)


def ask_why_all_fail(memory: JobMemory, spec: JobSpec) -> None:
    assert memory.current is not None
    memory.question = Question.none_taken
    memory.question_text = all_failed_question(spec.provider, memory.current.why_refused)


def window(memory: JobMemory, policy: JobPolicy) -> int:
    """Provider batches that may run at once: one alone while the canary has not come back."""
    return 1 if policy.canary_requests and not memory.judged and memory.rounds_planned == 1 else policy.window


def apply_decision(memory: JobMemory, argument: DecideInput) -> None:
    """Act on a decision that the validator found suitable."""
    question, memory.question, memory.question_text = memory.question, None, ""
    why = f": {argument.reason}" if argument.reason else ""
    if argument.decision is Decision.abort:
        memory.cancel_reason = f"decided to abort{why}"
        return
    if argument.decision is Decision.accept:
        memory.ending = f"accepted with what was there{why}"
        return
    memory.cost_decided = True
    if question is Question.mostly_failed:
        memory.judged = True
        if argument.decision is Decision.retry:
            memory.insist = [*sorted(PERMANENT), ErrorClass.unreadable]
    if question is Question.none_taken:
        _take_up_refused(memory, argument.decision)
    if question is Question.denied and memory.current is not None:
        _decide_on_denied(memory, memory.current, argument.decision)
    if question is Question.account and memory.current is not None:
        memory.current.account_cleared = memory.current.account_failures
        memory.insist = sorted({*memory.insist, ErrorClass.account})
        memory.rounds_free += 1


def _decide_on_denied(memory: JobMemory, current: RoundMemory, decision: Decision) -> None:
    """The refused go again where the permission is there now; else they have failed, and nobody is asked again."""
    current.denied_cleared, current.denials = current.denied, 0
    current.heard = (current.next_batch, current.next_sync)
    memory.judged = memory.judged or memory.first_requests > 0
    memory.rounds_free += 1
    if decision is Decision.retry:
        memory.insist = sorted({*memory.insist, ErrorClass.forbidden})
    else:
        memory.forbidden_alone = True


def _take_up_refused(memory: JobMemory, decision: Decision) -> None:
    """Where the cause is mended the same shards go again, and cutting them says nothing."""
    if decision is Decision.go_on:
        memory.cutting = True
    elif memory.current is not None:
        memory.current.cut -= memory.current.at_create
        memory.current.at_create = memory.current.unexplained = 0
        memory.rounds_free += 1


def look(
    memory: JobMemory, policy: JobPolicy, now: datetime, progress: Progress | None, *, orphans: bool = False
) -> datetime:
    """Decide whether to go on waiting; returns when to look again. `progress` is of the running shards."""
    here = clock(memory, now)
    if memory.question is not None:
        return _look_at_question(memory, policy, now)
    if memory.escalated or memory.current is None:
        return _look_at_sync(memory, policy, now)
    completed = progress.completed if progress is not None else 0
    left = work(memory)
    evidence = _evidence(memory, memory.current, now, progress)
    plan = plan_escalation(policy, here, left, evidence)
    latest_s = latest_escalation_s(policy, here.span_s, left) if policy.escalate else plan.look_at_s
    memory.escalate_at = at(memory, max(here.now_s, latest_s))
    if plan.escalate and not policy.escalate:
        memory.ending = (
            f"the deadline comes with {left.remainder} requests unanswered, and the policy says not to escalate"
        )
        return sync_until(memory, policy)
    if plan.escalate:
        memory.escalated = True
        memory.health, memory.reason = (
            Health.on_track,
            "escalated: what is unanswered goes by sync to make the deadline",
        )
        return _look_at_sync(memory, policy, now)
    unmoved_s = _unmoved_s(memory.current, now, completed if progress is not None else None)
    memory.health, memory.reason = job_health(
        here,
        left,
        evidence,
        escalate_at_s=plan.look_at_s if plan.enough or not policy.escalate else latest_s,
        enough=plan.enough or not policy.escalate,
        unmoved_s=unmoved_s,
        typical_s=typical_s(policy),
    )
    next_s = plan.look_at_s
    if here.span_s >= SHORT_SPAN_S:
        halfway_s = max((next_s - here.now_s) / 2.0, HEALTH_LOOK_SHARE * here.span_s)
        next_s = min(next_s, here.now_s + halfway_s)
    if orphans:
        next_s = min(next_s, here.now_s + ORPHAN_LOOK_S)
    return at(memory, next_s)


def progress_matters(memory: JobMemory, policy: JobPolicy, now: datetime) -> bool:
    """Whether the provider's counts could change what `look` decides: asking for them takes time."""
    if memory.escalated or memory.question is not None:
        return False
    plan = plan_escalation(policy, clock(memory, now), work(memory), Evidence(memory.turnarounds))
    return not (plan.escalate and plan.enough)


def _look_at_question(memory: JobMemory, policy: JobPolicy, now: datetime) -> datetime:
    """Nobody deciding ends the job in time to deliver what is there."""
    stop_at = last_stop(memory, policy)
    if now >= stop_at:
        memory.ending = f"nobody decided in time on this: {memory.question_text}"
        memory.question, memory.question_text = None, ""
    return stop_at


def _look_at_sync(memory: JobMemory, policy: JobPolicy, now: datetime) -> datetime:
    """Sync calls end by themselves at `sync_until`; a little later they are told to."""
    set_aside = reserves(policy, span_s(memory), memory.accepted)
    end_at = sync_until(memory, policy) + timedelta(seconds=set_aside.finalize_s / 4.0)
    if now >= end_at:
        memory.ending = f"the deadline came with {memory.remainder} requests unanswered"
    return end_at


def _evidence(memory: JobMemory, current: RoundMemory, now: datetime, progress: Progress | None) -> Evidence:
    share = progress.completed / progress.requests if progress is not None and progress.requests else 0.0
    return Evidence(
        turnarounds=memory.turnarounds,
        elapsed_s=(now - current.started_at).total_seconds(),
        completed_share=min(1.0, share),
    )


def _unmoved_s(current: RoundMemory, now: datetime, completed: int | None) -> float:
    """Seconds since the completed count was last seen to change; 0 if it was not asked for."""
    if completed is None:
        return 0.0
    total = completed + sum(current.unanswered.values()) + current.done
    if total != current.completed_seen or current.completed_at is None:
        current.completed_seen, current.completed_at = total, now
    return (now - current.completed_at).total_seconds()
