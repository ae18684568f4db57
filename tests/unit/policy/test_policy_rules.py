"""Failure policy, pace, quota pauses, questions, health."""

from decimal import Decimal
from itertools import pairwise

import pytest
from groupage.schemas import Decision, ErrorClass, FailureAction, Health, JobPolicy, Route, ShardReport
from groupage.schemas.states import UNEXPLAINED
from groupage.workflows.policy.escalation import Clock, Evidence, Work
from groupage.workflows.policy.failures import (
    PERMANENT,
    SYNC_ROUNDS,
    decide_actions,
    once_more,
    takes_none,
    unexplained_by_rounds,
)
from groupage.workflows.policy.health import job_health
from groupage.workflows.policy.pace import (
    SYNC_SHARD_REQUESTS,
    lane_pace,
    poll_s,
    shard_requests,
    sync_lanes,
    sync_rate,
    sync_shard_requests,
    sync_time_s,
)
from groupage.workflows.policy.questions import (
    MEANING,
    SUITABLE,
    Question,
    cost_question,
    how_to_decide,
    mostly_failed_question,
    permanent_failures,
)
from groupage.workflows.policy.quota import ATTEMPTS, pause_s
from hypothesis import given
from hypothesis import strategies as st

counts = st.dictionaries(st.sampled_from(list(ErrorClass)), st.integers(0, 1000))
policies = st.builds(JobPolicy, sync_rpm=st.integers(1, 10_000), sync_concurrency=st.integers(1, 1000))


def decide(unanswered, **changes):
    arguments = {
        "route": Route.batch,
        "rounds_sent": 1,
        "rounds_planned": 1,
        "sync_rounds": 0,
        "max_rounds": 3,
        "escalate": True,
    }
    return decide_actions(unanswered, **(arguments | changes))


@given(
    counts,
    st.integers(0, 60),
    st.integers(0, 3),
    st.integers(1, 50),
    st.booleans(),
    st.sampled_from([Route.batch, Route.sync]),
)
def test_every_class_gets_an_action_and_the_bounds_hold(unanswered, rounds, sync_rounds, most, escalate, route):
    actions = decide(
        unanswered,
        route=route,
        rounds_sent=rounds,
        rounds_planned=rounds,
        sync_rounds=sync_rounds,
        max_rounds=most,
        escalate=escalate,
    )
    assert set(actions) == {c for c, n in unanswered.items() if n > 0}
    for error_class, action in actions.items():
        if error_class in PERMANENT:
            assert action is FailureAction.give_up
        if action is FailureAction.resubmit:
            assert rounds < most
            assert route is Route.batch
        if action is FailureAction.sync:
            assert escalate
            assert sync_rounds < SYNC_ROUNDS
        if error_class is ErrorClass.account:
            assert action is FailureAction.ask


ENDINGS = sorted(set(ErrorClass) - PERMANENT - {ErrorClass.account, ErrorClass.not_sent})
"""In which a request ends that was sent, is not at fault, and may go again."""


@given(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=8), st.integers(1, 8), st.booleans())
def test_PF_08_a_request_gets_one_try_after_its_first_unexplained_end_whatever_came_before(endings, most, escalate):
    by_batch = by_sync = unexplained = 0
    action = FailureAction.resubmit
    for ending in endings:
        by_batch, by_sync = by_batch + (action is FailureAction.resubmit), by_sync + (action is FailureAction.sync)
        rounds = {"rounds_sent": by_batch, "rounds_planned": by_batch, "sync_rounds": by_sync}
        route = Route.sync if by_sync else Route.batch
        bounds = {**rounds, "max_rounds": most, "escalate": escalate, "route": route}
        action = decide({ending: 1}, **bounds)[ending]
        assert action is decide({ErrorClass.transient: 1}, **bounds)[ErrorClass.transient], "bounded as all others are"
        if ending in once_more() and unexplained:
            action = FailureAction.give_up
        unexplained += ending in UNEXPLAINED
        if action is FailureAction.give_up:
            break
    assert unexplained <= 2


@given(st.sets(st.sampled_from(list(ErrorClass))))
def test_a_person_can_insist_on_what_nobody_can_explain(insist):
    assert once_more(frozenset(insist)) == UNEXPLAINED - insist


@given(counts, st.integers(0, 5), st.sets(st.sampled_from(sorted(UNEXPLAINED))))
def test_where_requests_are_not_told_apart_the_third_try_of_all_ends(unanswered, rounds, insist):
    actions = decide(unanswered)
    changed = unexplained_by_rounds(actions, rounds, frozenset(insist))
    assert changed.keys() == actions.keys()
    for error_class, action in changed.items():
        ends = rounds >= 2 and error_class in UNEXPLAINED - insist
        assert action is (FailureAction.give_up if ends else actions[error_class])


def test_a_person_can_insist_on_a_permanent_class():
    insist = frozenset({ErrorClass.invalid})
    assert decide({ErrorClass.invalid: 1}, insist=insist)[ErrorClass.invalid] is FailureAction.resubmit
    assert (
        decide({ErrorClass.invalid: 1}, insist=insist, rounds_sent=3, escalate=False)[ErrorClass.invalid]
        is FailureAction.give_up
    )


def test_what_was_never_sent_is_not_bounded_by_the_rounds_of_the_others():
    actions = decide({ErrorClass.not_sent: 1, ErrorClass.expired: 1}, rounds_sent=3, rounds_planned=1)
    assert actions == {ErrorClass.not_sent: FailureAction.resubmit, ErrorClass.expired: FailureAction.sync}


@given(policies, st.integers(1, 100_000))
def test_the_lanes_share_exactly_what_there_is(policy, shards):
    lanes = sync_lanes(policy, shards)
    paces = [lane_pace(policy, lanes, lane) for lane in range(lanes)]
    assert 1 <= lanes <= shards
    assert sum(p.rpm for p in paces) == policy.sync_rpm
    assert sum(p.concurrency for p in paces) == policy.sync_concurrency
    assert all(p.rpm >= 1 and p.concurrency >= 1 for p in paces)


@given(policies, st.integers(1, 2_000_000))
def test_sync_shards_are_bounded_and_end_together(policy, remainder):
    size = sync_shard_requests(policy, remainder)
    shards = -(-remainder // size)
    lanes = sync_lanes(policy, shards)
    assert 1 <= size <= SYNC_SHARD_REQUESTS
    # The busiest lane has no more than what an even share and one rounding up per wave give it.
    waves = -(-shards // lanes)
    assert waves * size <= remainder / lanes + waves * 2 + size * (lanes > remainder)


@given(policies, st.integers(0, 10**6), st.integers(0, 10**6))
def test_sync_time_grows_with_the_remainder(policy, a, b):
    few, many = sorted((a, b))
    assert sync_time_s(policy, few) <= sync_time_s(policy, many)
    assert sync_rate(policy) <= policy.sync_rpm / 60


@given(st.floats(1, 1e7))
def test_a_job_is_polled_twenty_times_in_its_span_unless_that_is_five_times_a_second(span_s):
    pause = poll_s(JobPolicy(), span_s)
    assert pause <= max(0.2, span_s / 20)
    assert pause <= 30.0


@given(st.integers(0, 10**7), st.integers(0, 10**4))
def test_shards_hold_all_requests(requests, shards):
    assert shard_requests(requests, shards) * shards >= requests * bool(shards)


def test_quota_pauses_double_to_an_hour_and_are_spread():
    pauses = [pause_s(n, 30.0, "tag") for n in range(1, 9)]
    assert 270 <= pauses[0] <= 330
    assert all(b > a for a, b in pairwise(pauses[:4]))
    assert all(3240 <= p <= 3960 for p in pauses[4:])
    assert pause_s(1, 30.0, "tag") == pause_s(1, 30.0, "tag") != pause_s(1, 30.0, "other")


def test_a_quota_pause_is_short_where_polls_are_and_never_shorter_than_asked_for():
    assert pause_s(1, 1.0, "tag") < 12
    assert pause_s(1, 1.0, "tag", retry_after_s=500) == 500


@pytest.mark.parametrize("poll_s", [1.0, 5.0, 30.0, 3600.0])
def test_all_pauses_together_last_a_week_however_fast_the_job_polls(poll_s):
    assert sum(pause_s(n, poll_s, "tag") for n in range(1, ATTEMPTS + 1)) > 7 * 86_400


@pytest.mark.parametrize(
    ("most", "estimate", "asks"),
    [(None, "99", False), ("5", "4", False), ("5", "5", False), ("5", "6", True), ("5", None, True)],
)
def test_cost_asks_only_above_the_budget_or_where_it_is_unknown(most, estimate, asks):
    policy = JobPolicy(max_cost_usd=Decimal(most) if most else None)
    assert bool(cost_question(policy, Decimal(estimate) if estimate else None)) is asks


def test_an_estimate_that_leaves_requests_out_is_within_no_budget():
    policy = JobPolicy(max_cost_usd=Decimal(5))
    assert "49 requests to x" in cost_question(policy, Decimal(1), unpriced=49, models=["x"])
    assert "49 requests to x" in cost_question(policy, Decimal(6), unpriced=49, models=["x"])
    assert not cost_question(JobPolicy(), Decimal(1), unpriced=49, models=["x"])


def test_every_question_says_how_to_answer_it_and_what_each_answer_means():
    for question in Question:
        assert set(MEANING[question]) == set(SUITABLE[question])
        text = how_to_decide(question, "job/t/k")
        assert "groupage decide t/k" in text
        assert all(f"`{decision}`" in text for decision in SUITABLE[question])
    assert Decision.go_on in SUITABLE[Question.cost]


@pytest.mark.parametrize(
    ("at_create", "done", "running", "asks"),
    [
        (0, 0, 3, False),
        (1, 1, 0, True),
        (1, 1, 2, False),  # the others may get through yet
        (1, 2, 0, False),  # one did
        (8, 8, 5, True),  # not a thousand files uploaded to learn it
        (8, 9, 5, False),
    ],
)
def test_a_provider_that_takes_no_batch_at_all_is_told_from_one_that_refuses_some(at_create, done, running, asks):
    assert takes_none(at_create, done, running) is asks


def test_the_first_shard_is_judged_by_permanent_and_unreadable_failures():
    report = ShardReport(
        round=0,
        shard=0,
        route=Route.batch,
        phase="completed",
        requests=10,
        unanswered={ErrorClass.invalid: 3, ErrorClass.unreadable: 3, ErrorClass.expired: 4},
    )
    assert permanent_failures(report) == 6
    assert mostly_failed_question(JobPolicy(), 6, 10, "invalid/x")
    assert not mostly_failed_question(JobPolicy(), 5, 10, "")
    assert not mostly_failed_question(JobPolicy(), 0, 0, "")


def health(now_s=10_000.0, remainder=100, evidence=None, **changes):
    arguments = {"escalate_at_s": 80_000.0, "enough": True, "unmoved_s": 0.0, "typical_s": 3600.0}
    clock, work = Clock(86_400.0, now_s), Work(100, remainder)
    return job_health(clock, work, evidence or Evidence((), now_s, 0.5), **(arguments | changes))[0]


def test_health_is_one_word():
    assert health() is Health.on_track
    assert health(remainder=0, enough=False) is Health.on_track
    assert health(enough=False) is Health.at_risk
    assert health(now_s=79_000.0, evidence=Evidence((), 79_000.0, 0.01)) is Health.at_risk
    assert health(unmoved_s=30_000.0) is Health.stuck


@pytest.mark.parametrize(
    ("limit", "estimate", "shown"),
    [
        ("0.00001", "0.000231", "0.0002"),
        ("5", "7.4", "7.40"),
        ("5.00", "5.001", "5.001"),
        ("0", "0.0000001", "0.0000001"),
    ],
)
def test_an_estimate_is_shown_with_the_digits_that_put_it_above_the_limit(
    limit: str, estimate: str, shown: str
) -> None:
    asked = cost_question(JobPolicy(max_cost_usd=Decimal(limit)), Decimal(estimate))
    assert f"the estimate of {shown} USD is above" in asked
