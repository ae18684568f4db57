"""Sync calls start no faster than allowed, and slow down when the provider asks for it."""

import pytest
from groupage.activities.pacing import Denials, Latency, Pace, backoff_s, pause_s
from groupage.schemas import ErrorClass
from groupage.schemas.limits import FORBIDDEN_IN_A_ROW
from hypothesis import given
from hypothesis import strategies as st


def test_no_more_calls_start_than_the_rate_allows():
    pace = Pace(rpm=120, concurrency=1000, now=0.0)
    started, now = 0, 0.0
    while now < 60.0:
        wait = pace.wait_s(now)
        if wait == 0.0:
            pace.start(now)
            pace.end(now, now, None, None)
            started += 1
        else:
            assert wait is not None
            now += max(wait, 1e-6)
    assert 120 <= started <= 123


def test_no_more_calls_are_in_flight_than_allowed():
    pace = Pace(rpm=60_000, concurrency=3, now=0.0)
    for _ in range(3):
        assert pace.wait_s(0.0) == 0.0
        pace.start(0.0)
    assert pace.wait_s(0.0) is None
    pace.end(0.1, 0.0, None, None)
    assert pace.wait_s(0.1) == 0.0


def test_SDK_06_a_retry_after_pauses_all_calls():
    pace = Pace(rpm=60_000, concurrency=10, now=0.0)
    pace.start(0.0)
    pace.end(1.0, 0.0, ErrorClass.rate_limit, 5.0)
    assert pace.wait_s(1.0) == 5.0
    assert pace.wait_s(5.9) > 0.0
    assert pace.wait_s(6.0) == 0.0


@given(st.floats(0.001, 10_000), st.floats(-10, 10_000))
def test_a_retry_after_is_heeded_up_to_half_of_the_time_that_is_left(wish, left):
    pause = pause_s(wish, left)
    assert 0 <= pause <= wish
    assert pause == wish or pause == max(0.0, left) / 2
    pace = Pace(rpm=60_000, concurrency=10, now=0.0)
    pace.start(0.0)
    pace.end(1.0, 0.0, ErrorClass.rate_limit, wish, left)
    assert pace.paused_s(1.0) == pytest.approx(pause)
    if pause < wish:
        assert pace.limit == 1.0, "one call asks whether it passed"


def test_one_burst_of_429_halves_the_limit_once():
    pace = Pace(rpm=60_000, concurrency=32, now=0.0)
    for _ in range(32):
        pace.start(0.0)
    for _ in range(32):
        pace.end(1.0, 0.0, ErrorClass.rate_limit, None)
    assert pace.limit == 16.0
    pace.start(2.0)
    pace.end(3.0, 2.0, ErrorClass.transient, None)
    assert pace.limit == 8.0


def test_the_limit_never_falls_below_one_and_grows_back_with_answers():
    pace = Pace(rpm=60_000, concurrency=8, now=0.0)
    for second in range(10):
        pace.start(float(second))
        pace.end(second + 0.5, float(second), ErrorClass.rate_limit, None)
    assert pace.limit == 1.0
    for second in range(10, 200):
        pace.start(float(second))
        pace.end(second + 0.5, float(second), None, None)
    assert pace.limit == 8.0


def test_a_permanent_error_slows_nothing_down():
    pace = Pace(rpm=60_000, concurrency=8, now=0.0)
    pace.start(0.0)
    pace.end(1.0, 0.0, ErrorClass.invalid, None)
    assert pace.limit == 8.0


@given(attempt=st.integers(1, 100), jitter=st.floats(0, 1), wish=st.none() | st.floats(0, 600))
def test_the_pause_before_another_attempt_grows_is_bounded_and_honours_the_server(attempt, jitter, wish):
    pause = backoff_s(attempt, wish, jitter)
    assert pause >= (wish or 0.0)
    assert 0.5 <= pause <= max(60.0, wish or 0.0)


def test_the_expected_latency_covers_what_was_seen():
    latency = Latency()
    assert latency.expected_s == 0.0
    for seconds in [1.0, 1.2, 0.9, 1.1] * 20:
        latency.add(seconds)
    assert 1.0 < latency.expected_s < 2.0


ENDS = st.sampled_from([None, *ErrorClass])


@given(st.lists(ENDS, max_size=60))
def test_calls_are_doubted_after_a_row_of_403s_and_by_nothing_else(ends):
    denials, row = Denials(), 0
    for end in ends:
        bound = denials.bound
        denials.add(end)
        row = 0 if end is None else row + (end is ErrorClass.forbidden)
        assert denials.doubtful == (row >= denials.bound)
        assert denials.bound in {bound, 2 * bound}
        assert denials.bound == bound or end is None


def test_an_account_that_answers_among_403s_is_doubted_more_seldom():
    denials = Denials()
    for bound in (FORBIDDEN_IN_A_ROW, 2 * FORBIDDEN_IN_A_ROW, 4 * FORBIDDEN_IN_A_ROW):
        for _ in range(bound):
            assert not denials.doubtful
            denials.add(ErrorClass.forbidden)
        assert denials.doubtful
        denials.add(None)
        assert not denials.doubtful
