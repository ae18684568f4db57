"""The conditional estimate: how long given how long already."""

import pytest
from groupage.schemas import JobPolicy
from groupage.workflows.policy.estimate import (
    TURNAROUNDS_KEPT,
    cdf,
    finish_probability,
    remember,
    settle_probability,
    typical_s,
)
from hypothesis import given
from hypothesis import strategies as st

WEEK_S = 604_800.0
turnarounds = st.lists(st.floats(0.1, WEEK_S), max_size=40)
seconds = st.floats(0.0, 2 * WEEK_S)
share = st.floats(0.0, 1.0)


@given(turnarounds, seconds, seconds, share)
def test_a_probability_is_one(past, elapsed, within, completed):
    assert 0.0 <= finish_probability(past, elapsed_s=elapsed, within_s=within, completed_share=completed) <= 1.0


@given(turnarounds, seconds, seconds, seconds, share)
def test_more_time_is_never_less_likely_to_do(past, elapsed, a, b, completed):
    short, long = sorted((a, b))
    less = finish_probability(past, elapsed_s=elapsed, within_s=short, completed_share=completed)
    more = finish_probability(past, elapsed_s=elapsed, within_s=long, completed_share=completed)
    assert less <= more + 1e-9


@given(turnarounds, seconds, seconds)
def test_the_distribution_never_falls(past, a, b):
    early, late = sorted((a, b))
    assert cdf(early, past) <= cdf(late, past) + 1e-12
    assert settle_probability(early) <= settle_probability(late) + 1e-12


def test_a_batch_that_has_run_for_long_needs_longer_than_a_young_one():
    young, old = (finish_probability((), elapsed_s=hours * 3600, within_s=3600) for hours in (0, 12))
    assert old < young


def test_past_turnarounds_outweigh_the_prior():
    quick = [300.0] * 20
    assert finish_probability(quick, elapsed_s=0, within_s=301) > 0.8


def test_counts_speak_for_a_batch_that_is_nearly_done():
    slow = finish_probability((), elapsed_s=36_000, within_s=1800, completed_share=0.1)
    nearly = finish_probability((), elapsed_s=36_000, within_s=1800, completed_share=0.97)
    assert nearly > slow
    assert finish_probability((), elapsed_s=36_000, within_s=1, completed_share=1.0) == 1.0


@given(turnarounds, st.floats(0.1, 1e6))
def test_what_is_remembered_is_bounded_and_ends_with_the_newest(past, newest):
    kept = remember(past, newest)
    assert len(kept) <= TURNAROUNDS_KEPT
    assert kept[-1] == round(newest, 1)


@pytest.mark.parametrize(
    ("policy", "expected"), [({}, 3600), ({"poll": "1s"}, 120), ({"poll": "1s", "turnaround": "2h"}, 7200)]
)
def test_the_usual_turnaround_is_told_or_follows_from_the_polling(policy, expected):
    assert typical_s(JobPolicy.model_validate(policy)) == expected
