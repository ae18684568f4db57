"""Escalation: never later than the deadline allows, whatever the numbers."""

from datetime import timedelta

import pytest
from groupage.schemas import JobPolicy, Route
from groupage.workflows.policy.escalation import (
    LEAST_GAIN,
    Clock,
    Evidence,
    Work,
    batch_gain,
    choose_route,
    last_stop_s,
    latest_escalation_s,
    plan_escalation,
    reserves,
    settle_s,
    sync_share,
    sync_until_s,
)
from groupage.workflows.policy.pace import sync_time_s
from hypothesis import example, given
from hypothesis import strategies as st

policies = st.builds(
    JobPolicy,
    sync_rpm=st.integers(1, 100_000),
    sync_concurrency=st.integers(1, 1000),
    sync_latency=st.timedeltas(timedelta(milliseconds=10), timedelta(seconds=120)),
    settle=st.timedeltas(timedelta(seconds=1), timedelta(hours=3)),
    safety_factor=st.floats(1.0, 10.0),
    poll=st.timedeltas(timedelta(milliseconds=100), timedelta(minutes=10)),
)
spans = st.floats(1.0, 30 * 86_400.0)
requests = st.integers(0, 20_000_000)
shares = st.floats(0.0, 1.0)


@given(policies, spans, requests, shares)
# A month of work within a second: the difference of two large numbers is not exact to a billionth of a second.
@example(JobPolicy(sync_rpm=1, safety_factor=1.0), 1.0, 2_236_963, 1.0)
def test_the_moment_leaves_time_for_everything_that_follows(policy, span_s, total, left):
    work = Work(total, int(total * left))
    r = reserves(policy, span_s, total)
    at = latest_escalation_s(policy, span_s, work)
    needed = r.settle_s + r.harvest_s + r.plan_s + sync_time_s(policy, work.remainder) + r.finalize_s
    assert at + needed <= span_s + 1e-9 * max(span_s, needed)


@given(policies, spans, requests, shares, shares)
def test_the_moment_comes_no_earlier_for_a_smaller_remainder(policy, span_s, total, a, b):
    few, many = sorted((int(total * a), int(total * b)))
    assert latest_escalation_s(policy, span_s, Work(total, few)) >= latest_escalation_s(
        policy, span_s, Work(total, many)
    )


@given(policies, spans, requests, st.floats(1.0, 4.0))
def test_a_later_deadline_never_escalates_earlier(policy, span_s, total, longer):
    work = Work(total, total)
    assert latest_escalation_s(policy, span_s * longer, work) >= latest_escalation_s(policy, span_s, work) - 1e-6


@given(policies, spans, requests)
def test_reserves_take_a_third_of_the_span_at_most(policy, span_s, total):
    assert reserves(policy, span_s, total).total_s <= 0.33 * span_s
    assert settle_s(policy, span_s) <= 0.15 * span_s + 1e-9


@given(policies, spans, requests, shares, shares, st.floats(0, 1), st.lists(st.floats(1, 1e6), max_size=32))
def test_waiting_never_passes_the_moment_while_sync_can_still_take_the_rest(
    policy, span_s, total, left, when, completed, turnarounds
):
    clock, work = Clock(span_s, span_s * when), Work(total, int(total * left))
    plan = plan_escalation(policy, clock, work, Evidence(turnarounds, clock.now_s, completed))
    stop_s = last_stop_s(policy, span_s, total)
    if plan.escalate:
        return
    assert plan.look_at_s >= clock.now_s
    assert plan.look_at_s <= stop_s + 1e-6
    if sync_share(policy, clock, work, running=True) >= 1.0:
        assert plan.look_at_s <= latest_escalation_s(policy, span_s, work) + 1e-6


@given(policies, spans, requests, shares)
def test_at_the_last_moment_every_batch_is_stopped(policy, span_s, total, left):
    stop_s = last_stop_s(policy, span_s, total)
    work = Work(total, int(total * left))
    assert plan_escalation(policy, Clock(span_s, stop_s), work, Evidence()).escalate


@given(policies, spans, requests, shares, shares, st.floats(0, 1))
def test_counts_of_the_provider_do_not_postpone_a_moment_that_binds(policy, span_s, total, left, when, completed):
    clock, work = Clock(span_s, span_s * when), Work(total, int(total * left))
    without = plan_escalation(policy, clock, work, Evidence())
    with_counts = plan_escalation(policy, clock, work, Evidence((), clock.now_s, completed))
    if without.escalate and without.enough:
        assert with_counts.escalate


@given(policies, spans, requests, shares)
def test_a_batch_is_tried_only_where_sync_can_take_all_afterwards_or_could_not_anyway(policy, span_s, total, when):
    clock, work = Clock(span_s, span_s * when), Work(total, total)
    route = choose_route(policy, clock, work, ())
    if route is Route.batch and sync_share(policy, clock, work, running=False) >= 1.0:
        assert clock.now_s <= latest_escalation_s(policy, span_s, work)
    if route is None:
        assert clock.now_s >= sync_until_s(policy, span_s, total)


@pytest.mark.parametrize(
    ("span_s", "total", "policy", "expected"),
    [
        (86_400, 1000, JobPolicy(), Route.batch),
        (6 * 3600, 10_000, JobPolicy(), Route.batch),
        (20, 10, JobPolicy(), Route.sync),
        (60, 20, JobPolicy(turnaround="10s"), Route.batch),
        (60, 20, JobPolicy(poll="200ms"), Route.batch),
        # Sync can do a sixth of it, a batch nothing at all.
        (1, 12, JobPolicy(), Route.sync),
        # Sync could do 0.7 % of it: only the batches can.
        (86_400, 10_000_000, JobPolicy(sync_rpm=60), Route.batch),
        (86_400, 1000, JobPolicy(escalate=False), Route.batch),
    ],
)
def test_where_a_new_job_goes(span_s, total, policy, expected):
    assert choose_route(policy, Clock(span_s, 0.0), Work(total, total), ()) is expected


def test_no_batch_is_tried_where_nothing_could_be_harvested_any_more():
    policy, work = JobPolicy(sync_rpm=1), Work(10_000, 10_000)
    clock = Clock(86_400, last_stop_s(policy, 86_400, work.requests) + 1.0)
    assert choose_route(policy, clock, work, ()) is Route.sync


def test_nothing_goes_anywhere_after_the_deadline():
    for escalate in (True, False):
        assert choose_route(JobPolicy(escalate=escalate), Clock(3600, 3601), Work(10, 10), ()) is None


def test_trying_by_batch_gains_more_with_more_time():
    gains = [batch_gain(JobPolicy(), 2.0 * w, w, ()) for w in (60, 600, 3600, 6 * 3600, 86_400)]
    assert gains == sorted(gains)
    assert gains[0] < LEAST_GAIN < gains[-1]
