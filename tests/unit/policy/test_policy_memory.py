"""A job's memory: reports count once, and it stays small however large the job is."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from groupage.schemas import (
    BatchError,
    BatchPhase,
    ErrorClass,
    FailureAction,
    Health,
    JobPolicy,
    JobRef,
    JobSpec,
    JobState,
    Outcome,
    Route,
    ShardReport,
)
from groupage.schemas.activity_calls import PreparedJob
from groupage.schemas.batches import ShardRef
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from groupage.schemas.signals import ShardTrouble
from groupage.workflows.between_rounds import finish_round
from groupage.workflows.memory import (
    LEFT_BEHIND_NAMED,
    JobArgument,
    JobMemory,
    RoundMemory,
    absorb,
    count_sync,
    left_behind_named,
    note_trouble,
)
from groupage.workflows.policy.questions import Question
from groupage.workflows.policy.reasons import REASONS_MAX, Reason
from groupage.workflows.shard_reports import unsettled
from groupage.workflows.steps import ask_about_shards
from groupage.workflows.view import health, next_step, reason
from pydantic_core import to_json

NOW = datetime(2026, 11, 29, tzinfo=UTC)
JOB = JobRef(tenant="t", key="k", token="gabcdef-abcdefghijklm", provider="openai")
SPEC = JobSpec(key="k", provider="openai")


def memory(**changes) -> JobMemory:
    prepared = PreparedJob(job=JOB, fingerprint="f" * 64, requests=100, rejected=0)
    return JobMemory(accepted_at=NOW, deadline_at=NOW + timedelta(hours=24), prepared=prepared, **changes)


def a_round(**changes) -> RoundMemory:
    fields = {"round": 0, "batch_shards": 10, "sync_shards": 0, "requests": 100, "started_at": NOW} | changes
    return RoundMemory(**fields)


def report(shard: int = 3, **changes) -> ShardReport:
    fields = {
        "round": 0,
        "shard": shard,
        "route": Route.batch,
        "phase": "completed",
        "requests": 10,
        "outcomes": {Outcome.succeeded: 9, Outcome.failed: 1},
        "unanswered": {ErrorClass.expired: 1},
        "cost_usd": Decimal("0.5"),
        "latency_s": 60.0,
    } | changes
    return ShardReport(**fields)


def test_a_report_counts_once_and_a_strangers_not_at_all():
    m = memory(current=a_round(running=[3, 4], next_batch=5))
    assert absorb(m, report())
    assert not absorb(m, report())
    assert not absorb(m, report(shard=9))
    assert not absorb(m, report(round=4))
    assert m.answered == 9
    assert m.cost_usd == Decimal("0.5")
    assert m.current is not None
    assert m.current.running == [4]


def test_a_late_harvest_replaces_the_provisional_report_and_its_cost_is_waste():
    m = memory(current=a_round(running=[3], next_batch=10))
    provisional = unsettled(ShardRef(job=JOB, round=0, shard=3), 10, "batch-1", "escalation")
    assert absorb(m, provisional)
    assert not absorb(m, provisional)
    assert "batch batch-1 of shard 0-3 had not ended" in left_behind_named(m)
    assert absorb(m, report())
    assert not absorb(m, report())
    assert m.waste_usd == Decimal("0.5")
    assert m.answered == 0
    assert left_behind_named(m) == []


def test_a_batch_that_nobody_could_see_is_named_once_it_shows():
    m = memory(current=a_round(running=[3], next_batch=10))
    shard = ShardRef(job=JOB, round=0, shard=3)
    assert absorb(m, unsettled(shard, 10, "", "escalation"))
    assert left_behind_named(m) == ["batch (unknown) of shard 0-3 had not ended"]
    absorb(m, unsettled(shard, 10, "batch-1", "escalation"))
    assert left_behind_named(m) == ["batch batch-1 of shard 0-3 had not ended"]


def test_files_left_behind_are_named_once_and_bounded():
    m = memory(current=a_round())
    for n in range(200):
        absorb(m, report(left_behind=[f"file-{n}", "file-0"]))
    named = left_behind_named(m)
    assert len(named) == LEFT_BEHIND_NAMED + 1
    assert named[-1] == f"and {200 - LEFT_BEHIND_NAMED} more"


def test_members_of_unsettled_shards_are_planned_as_not_sent():
    m = memory(current=a_round(batch_shards=1, running=[0], next_batch=1), rounds_planned=1, escalated=True)
    absorb(m, unsettled(ShardRef(job=JOB, round=0, shard=0), 100, "b", "escalation"))
    finish_round(m, JobPolicy(), NOW + timedelta(hours=20))
    assert m.actions[ErrorClass.not_sent] is FailureAction.sync
    assert m.ending is None


def a_sync_report(**more):
    return ShardReport(
        round=0, shard=0, route=Route.sync, phase=BatchPhase.failed, requests=405,
        outcomes={Outcome.succeeded: 400, Outcome.failed: 5}, **more,
    )  # fmt: skip


def test_calls_that_were_stopped_at_a_row_of_403s_are_asked_about_whatever_was_answered_before():
    m = memory(current=a_round(batch_shards=0, sync_shards=2, next_sync=2), rounds_planned=1)
    error = BatchError(error_class=ErrorClass.forbidden, code="permission_denied", message="not for you")
    count_sync(m, a_sync_report(unanswered={ErrorClass.forbidden: 5}, error=error))
    ask_about_shards(m, SPEC)
    assert m.question is Question.denied
    assert m.question_text.endswith(
        "refuses 5 requests for lack of a permission and answers none beside them: not for you"
    )


def test_403s_among_answers_are_asked_about_by_nobody():
    m = memory(current=a_round(batch_shards=0, sync_shards=1, next_sync=1), rounds_planned=1)
    count_sync(m, a_sync_report(unanswered={ErrorClass.forbidden: 5}, account_said="not for you"))
    ask_about_shards(m, SPEC)
    assert m.question is None


def test_the_question_about_the_account_says_what_its_lines_say():
    m = memory(current=a_round(batch_shards=0, sync_shards=1, next_sync=1), rounds_planned=1)
    told = {"top_errors": [("account/invalid_request_error", 5)], "account_said": "Your credit balance is too low"}
    count_sync(m, a_sync_report(unanswered={ErrorClass.account: 5}, **told))
    ask_about_shards(m, SPEC)
    assert m.question is Question.account
    assert m.question_text.endswith(": Your credit balance is too low")


def test_what_is_carried_stays_within_a_payload_with_every_list_at_its_bound():
    current = a_round(
        batch_shards=999_999,
        next_batch=999_000,
        running=list(range(998_800, 999_000)),
        restarts=dict.fromkeys(range(998_800, 999_000), 3),
        first_error="x" * 500,
        account_said="y" * 500,
        denial="z" * 500,
        unanswered=dict.fromkeys(ErrorClass, 10**9),
        outcomes=dict.fromkeys(Outcome, 10**9),
        refused=dict.fromkeys(ErrorClass, 10**6),
        refusal="w" * 500,
        reasons=[Reason(text="x" * 300, shards=10**6, requests=10**9) for _ in range(REASONS_MAX + 1)],
    )
    m = memory(
        current=current,
        reason="r" * 500,
        question_text="q" * 700,
        turnarounds=[123456.7] * 32,
        unsettled={f"12-{n:06}": f"batch_{n:032}" for n in range(200)},
        left_behind=["f" * 64] * LEFT_BEHIND_NAMED,
        actions=dict.fromkeys(ErrorClass, FailureAction.resubmit),
        insist=list(ErrorClass),
    )
    argument = JobArgument(key="k" * 128, labels={f"label{n}": "v" * 100 for n in range(20)}, carried=m)
    assert len(to_json(argument)) <= PAYLOAD_MAX_BYTES


def test_a_shard_that_settles_just_before_the_planning_has_an_action_for_every_class():
    m = memory(current=a_round(batch_shards=1, running=[0], next_batch=1), rounds_planned=1, escalated=True)
    absorb(m, unsettled(ShardRef(job=JOB, round=0, shard=0), 100, "b", "escalation"))
    finish_round(m, JobPolicy(), NOW + timedelta(hours=20))
    for error_class in (ErrorClass.rate_limit, ErrorClass.transient, ErrorClass.unreadable, ErrorClass.cancelled):
        assert m.actions[error_class] is FailureAction.sync
    assert m.actions.get(ErrorClass.invalid) is not FailureAction.sync
    assert m.ending is None


def test_a_shards_trouble_is_forgotten_when_it_is_over_or_the_shard_has_ended():
    m = memory(current=a_round(running=[3, 4], next_batch=5))
    refusal = BatchError(error_class=ErrorClass.account, message="wrong key " + "x" * 5000)
    for _ in range(2):
        note_trouble(m, ShardTrouble(round=0, shard=3, error=refusal))
    assert m.current is not None
    assert (m.current.troubled, health(m)) == ([3], Health.at_risk)
    assert "1 of 2 running batches" in reason(m)
    note_trouble(m, ShardTrouble(round=0, shard=4, error=refusal))
    note_trouble(m, ShardTrouble(round=0, shard=9, error=refusal))
    note_trouble(m, ShardTrouble(round=1, shard=3, error=refusal))
    assert (m.current.troubled, health(m)) == ([3, 4], Health.stuck)
    assert m.current.trouble is not None
    assert len(m.current.trouble.message) <= 500
    absorb(m, report())
    note_trouble(m, ShardTrouble(round=0, shard=4))
    assert (m.current.troubled, m.current.trouble, health(m)) == ([], None, Health.on_track)


def test_a_cancelled_job_tells_why_whatever_it_asks():
    m = memory(state=JobState.needs_decision, cancel_reason="by hand")
    m.question, m.question_text = Question.account, "openai refuses the account"
    assert reason(m) == "cancelled: by hand"
    assert "decide" not in next_step(m, "job/t/k")
    m.cancel_reason = None
    assert reason(m) == "openai refuses the account"
    assert "decide" in next_step(m, "job/t/k")
