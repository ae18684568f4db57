"""What can be seen of a job from outside: the status, search attributes, the details in the Web UI."""

from datetime import datetime
from typing import Any

from groupage.schemas import Health, JobSpec, JobState, JobStatus, Summary, final_job_state
from groupage.schemas.signals import MEMO_ANSWERS, MEMO_QUESTION
from groupage.workflows.memory import JobMemory
from groupage.workflows.policy.questions import how_to_decide
from groupage.workflows.policy.troubles import trouble_health, trouble_reason, what_to_do
from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes

STATE = SearchAttributeKey.for_keyword("GroupageState")
HEALTH = SearchAttributeKey.for_keyword("GroupageHealth")
TENANT = SearchAttributeKey.for_keyword("GroupageTenant")
PROVIDER = SearchAttributeKey.for_keyword("GroupageProvider")
MODEL = SearchAttributeKey.for_keyword("GroupageModel")
DEADLINE = SearchAttributeKey.for_datetime("GroupageDeadline")


def changed_attributes(spec: JobSpec, memory: JobMemory) -> list[SearchAttributeUpdate[Any]]:
    """The attributes that differ from what was upserted last; remembers them as upserted."""
    now = {**memory.published, "GroupageState": memory.state.value, "GroupageHealth": health(memory).value}
    updates: list[SearchAttributeUpdate[Any]] = []
    if not memory.published:
        updates += [TENANT.value_set(spec.tenant), PROVIDER.value_set(spec.provider)]
        updates.append(DEADLINE.value_set(memory.deadline_at))
    model = model_of(spec, memory)
    if model and memory.published.get("GroupageModel") != model:
        updates.append(MODEL.value_set(model))
        now["GroupageModel"] = model
    if memory.published.get("GroupageState") != now["GroupageState"]:
        updates.append(STATE.value_set(now["GroupageState"]))
    if memory.published.get("GroupageHealth") != now["GroupageHealth"]:
        updates.append(HEALTH.value_set(now["GroupageHealth"]))
    memory.published = now
    return updates


def new_question(memory: JobMemory, workflow_id: str) -> dict[str, str] | None:
    """The memo of a question that has not been told in it; remembers it as told."""
    if memory.question is None or memory.published.get(MEMO_QUESTION) == memory.question_text:
        return None
    memory.published = {**memory.published, MEMO_QUESTION: memory.question_text}
    return {MEMO_QUESTION: memory.question_text, MEMO_ANSWERS: how_to_decide(memory.question, workflow_id)}


def model_of(spec: JobSpec, memory: JobMemory) -> str:
    """The model that all requests name, else the one that stands in where they name none; empty if neither."""
    return (memory.prepared.model if memory.prepared is not None else "") or spec.model or ""


def shard_attributes(spec: JobSpec, memory: JobMemory) -> TypedSearchAttributes:
    """What a ProviderBatch is found by; given at its start, so that it costs no event."""
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(TENANT, spec.tenant),
        SearchAttributePair(PROVIDER, spec.provider),
        SearchAttributePair(DEADLINE, memory.deadline_at),
    ]
    model = model_of(spec, memory)
    if model:
        pairs.append(SearchAttributePair(MODEL, model))
    return TypedSearchAttributes(pairs)


def job_status(spec: JobSpec, memory: JobMemory, workflow_id: str) -> JobStatus:
    current, prepared = memory.current, memory.prepared
    outcomes = dict(memory.outcomes)
    for outcome, number in (current.outcomes if current is not None else {}).items():
        outcomes[outcome] = outcomes.get(outcome, 0) + number
    return JobStatus(
        tenant=spec.tenant,
        key=spec.key,
        provider=spec.provider,
        state=memory.state,
        health=health(memory),
        reason=reason(memory),
        next_step=next_step(memory, workflow_id),
        requests=prepared.requests if prepared is not None else 0,
        rejected=prepared.rejected if prepared is not None else 0,
        answered=memory.answered,
        outcomes=outcomes,
        round=current.round if current is not None else max(0, memory.rounds_planned - 1),
        shards=current.shards if current is not None else 0,
        shards_done=current.done if current is not None else 0,
        shards_running=shards_running(memory),
        estimated_cost_usd=prepared.estimated_cost_usd if prepared is not None else None,
        cost_usd=memory.cost_usd,
        waste_usd=memory.waste_usd,
        unpriced=prepared.unpriced if prepared is not None else {},
        accepted_at=memory.accepted_at,
        deadline_at=memory.deadline_at,
        escalate_at=memory.escalate_at,
        cancel_requested=memory.cancel_reason is not None,
    )


def shards_running(memory: JobMemory) -> int:
    """Batch shards that run, and sync shards that were started and have not ended."""
    current = memory.current
    if current is None:
        return 0
    return current.next_batch + current.next_sync - current.done


def health(memory: JobMemory) -> Health:
    """A shard's trouble counts for more than a guess about when the batches end."""
    current = memory.current
    if memory.question is None and current is not None and current.troubled:
        return trouble_health(len(current.troubled), len(current.running))
    return memory.health


def reason(memory: JobMemory) -> str:
    """Why the job is in its state, if that is not plain."""
    if memory.cancel_reason is not None and not memory.failed_reason:
        return f"cancelled: {memory.cancel_reason}" if memory.cancel_reason else "cancelled"
    if memory.question is not None:
        return memory.question_text
    if memory.failed_reason:
        return memory.failed_reason
    if memory.state is JobState.finalizing and not memory.escalated:
        # A guess about batches that have ended meanwhile explains nothing about how the job ended.
        return memory.ending or ""
    return memory.ending or _shards_trouble(memory) or memory.reason


def _shards_trouble(memory: JobMemory) -> str:
    current, prepared = memory.current, memory.prepared
    if current is None or current.trouble is None or prepared is None:
        return ""
    return trouble_reason(prepared.job.provider, current.trouble, len(current.troubled), len(current.running))


def next_step(memory: JobMemory, workflow_id: str) -> str:
    """What happens next by itself, or what a person has to do."""
    if memory.question is not None and memory.cancel_reason is None:
        return how_to_decide(memory.question, workflow_id)
    match memory.state:
        case JobState.accepted | JobState.preparing:
            return "every line is read and checked, then the requests are split into shards"
        case JobState.running | JobState.escalating | JobState.needs_decision:
            return _next_while_running(memory)
        case JobState.finalizing:
            return "merging the answers into input order"
        case _:
            return ""


def _next_while_running(memory: JobMemory) -> str:
    if memory.cancel_reason is not None:
        return "batches are cancelled, what they have answered is kept"
    if memory.state is JobState.escalating:
        return "sending what is unanswered by sync"
    trouble = memory.current.trouble if memory.current is not None else None
    if trouble is not None and memory.prepared is not None:
        return what_to_do(memory.prepared.job.provider, memory.prepared.job.profile, trouble)
    moment = f"{memory.escalate_at:%F %H:%M:%S} UTC" if memory.escalate_at is not None else "in time"
    return f"waiting for the provider; what is unanswered at {moment} is looked at again and sent by sync if need be"


def details(status: JobStatus, memory: JobMemory) -> str:
    """Markdown for the Web UI: first line the state, then counts, then what to do."""
    head = f"**{status.state}**, {status.answered} of {status.requests} answered"
    if status.health is not Health.on_track and status.health.value != status.state.value:
        head += f", **{status.health}**"
    shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(status.outcomes.items()) if n) or "none yet"
    lines = [
        head,
        "",
        f"- round {status.round}: shards {status.shards_done} of {status.shards} done, {status.shards_running} running",
        f"- outcomes: {shown}",
        f"- cost so far: {status.cost_usd:.4f} USD, waste {status.waste_usd:.4f} USD{without_price(status)}",
        f"- deadline: {memory.deadline_at:%F %H:%M:%S} UTC",
    ]
    if status.rejected:
        lines.append(f"- rejected lines: {status.rejected}")
    if memory.unsettled:
        lines.append(f"- not settled: {len(memory.unsettled)} batches go on at the provider")
    if status.reason:
        lines += ["", f"Why: {status.reason}"]
    if status.next_step:
        lines += ["", f"Next: {status.next_step}"]
    return "\n".join(lines)


def without_price(status: JobStatus) -> str:
    """What the sums leave out; empty if nothing."""
    models = ", ".join(status.unpriced)
    return f", without {sum(status.unpriced.values())} requests to {models}: no price is known" if models else ""


def summary_without_input(spec: JobSpec, memory: JobMemory, now: datetime) -> Summary:
    """Of a job that was cancelled before its requests had been read."""
    return Summary(
        tenant=spec.tenant,
        key=spec.key,
        fingerprint=spec.fingerprint or "",
        state=final_job_state({}, cancelled=True, failed=False),
        reason=f"{reason(memory)}, before its requests had been read",
        provider=spec.provider,
        requests=0,
        outcomes={},
        accepted_at=memory.accepted_at,
        deadline_at=memory.deadline_at,
        finished_at=now,
    )
