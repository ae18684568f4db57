"""A batch's life is a function of its record and the clock."""

import math
from dataclasses import replace

import pytest
from groupage.emulator.life import Batch, Checked, Done, course_of, finished_count, next_change, view
from hypothesis import given
from hypothesis import strategies as st

START = 1_000_000.0


def batch(**changes):
    plain = Batch(
        id="batch_1",
        number=1,
        account="a",
        created_at=START,
        endpoint="/v1/chat/completions",
        input_file_id="file-1",
        turnaround=100.0,
        cancel_s=10.0,
        visible_from=START,
        checked=Checked(total=1000, tokens=5000, model="m"),
    )
    return replace(plain, **changes)


def effect(name, **values):
    return {"effect": name, "at": 0.5, "seconds": None} | values


def done():
    return Done(completed=990, failed=10, output_file_id="file-o", error_file_id="file-e")


def test_a_batch_goes_through_all_states_and_its_counts_only_grow():
    one = batch()
    seen = [view(one, START + at) for at in (0, 9.9, 10, 50, 94.9, 95, 99.9)]
    assert [look.status for look in seen] == [
        "validating",
        "validating",
        "in_progress",
        "in_progress",
        "in_progress",
        "finalizing",
        "finalizing",
    ]
    counts = [look.completed for look in seen]
    assert counts == sorted(counts)
    assert counts[-1] == 1000
    assert not any(look.ended for look in seen)
    finished = replace(one, done=done())
    assert view(finished, START + 100).status == "completed"
    assert view(finished, START + 100).failed == 10


def test_no_batch_is_completed_before_its_files_are_written():
    assert view(batch(), START + 1e6).status == "finalizing"
    assert view(batch(done=done()), START + 1e6).ended_at == START + 100


def test_no_batch_is_in_progress_before_its_input_is_checked():
    assert view(batch(checked=None), START + 1e6).status == "validating"
    assert view(batch(checked=None, cancel_at=START + 1), START + 1e6).status == "cancelling"


def test_a_refused_input_ends_as_failed_without_counts():
    refused = batch(checked=Checked(errors=[{"code": "empty_file"}]))
    assert view(refused, START + 9).status == "validating"
    look = view(refused, START + 10)
    assert (look.status, look.total, look.ended_at) == ("failed", 0, START + 10)
    assert next_change(refused) == math.inf


def test_PO_15_lines_go_on_finishing_while_cancelling():
    asked = batch(cancel_at=START + 52.5)
    assert view(asked, START + 52).status == "in_progress"
    assert view(asked, START + 53).status == "cancelling"
    course = course_of(asked)
    assert (course.ending, course.settled_at) == ("cancelled", START + 62.5)
    at_cancel = int(course.progress(START + 52.5) * 1000)
    assert at_cancel == 500
    assert at_cancel < finished_count(1000, course) < int(course.progress(START + 62.5) * 1000)


def test_cancel_while_validating_finishes_nothing():
    assert finished_count(1000, course_of(batch(cancel_at=START + 5))) == 0


def test_cancel_while_finalizing_comes_too_late():
    late = batch(cancel_at=START + 96, done=done())
    assert view(late, START + 97).status == "cancelling"
    assert view(late, START + 100).status == "completed"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.29, 0.58, 0.6, 1 / 3, 0.999])
def test_an_expired_batch_has_finished_exactly_the_share_of_the_plan(share):
    course = course_of(batch(effects=[effect("expire", at=share)]))
    assert course.ending == "expired"
    assert finished_count(1000, course) == int(share * 1000 + 1e-6)


def test_effects_hold_even_for_batches_that_take_no_time():
    course = course_of(batch(turnaround=0.0, effects=[effect("expire", at=0.6)]))
    assert (course.ending, finished_count(1000, course)) == ("expired", 600)
    stalled = batch(turnaround=0.0, effects=[effect("stall", at=0.4)])
    assert (view(stalled, START + 99).status, view(stalled, START + 99).completed) == ("in_progress", 400)


def test_PO_19_a_stalled_batch_stands_still_until_the_window_ends():
    stalled = batch(effects=[effect("stall", at=0.4)])
    assert view(stalled, START + 1000).completed == view(stalled, START + 80_000).completed == 400
    assert view(stalled, START + 80_000).status == "in_progress"
    course = course_of(stalled)
    assert (course.ending, course.settled_at) == ("expired", START + 86_400)
    assert finished_count(1000, course) == 400


def test_a_stall_with_an_end_only_delays():
    course = course_of(batch(effects=[effect("stall", at=0.4, seconds=50.0)]))
    assert course.ending == "completed"
    assert course.settled_at == START + 95 + 50
    assert course.progress(START + 10 + 0.4 * 85 + 25) == pytest.approx(0.4)


def test_EX_04_a_batch_that_never_expires_runs_past_its_window():
    stuck = batch(effects=[effect("stall"), effect("never_expires")])
    assert course_of(stuck).settled_at == math.inf
    assert view(stuck, START + 10 * 86_400).status == "in_progress"


def test_a_cancel_may_never_end():
    stuck = batch(effects=[effect("slow_cancel")], cancel_at=START + 50)
    assert view(stuck, START + 1e9).status == "cancelling"


@given(
    turnaround=st.floats(0, 1e5),
    cancel_after=st.one_of(st.none(), st.floats(0, 2e5)),
    stall=st.one_of(st.none(), st.tuples(st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e5)))),
    expire=st.one_of(st.none(), st.floats(0, 1)),
    looks=st.lists(st.floats(0, 3e5), min_size=2, max_size=20),
)
def test_counts_never_shrink_and_never_pass_what_is_finished_at_the_end(turnaround, cancel_after, stall, expire, looks):
    effects = []
    if stall:
        effects.append(effect("stall", at=stall[0], seconds=stall[1]))
    if expire is not None:
        effects.append(effect("expire", at=expire))
    one = batch(
        turnaround=turnaround,
        checked=Checked(total=777),
        cancel_at=None if cancel_after is None else START + cancel_after,
        effects=effects,
    )
    counts = [view(one, START + at).completed for at in sorted(looks)]
    assert counts == sorted(counts)
    assert counts[-1] <= finished_count(777, course_of(one))
