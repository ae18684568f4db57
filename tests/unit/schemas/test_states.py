"""The tables of states are closed, reachable and end where the design says."""

from itertools import product

from groupage.schemas import BatchPhase, JobState, Outcome, final_job_state
from groupage.schemas.states import ENDED_JOB_STATES, JOB_TRANSITIONS
from hypothesis import given
from hypothesis import strategies as st


def test_every_job_state_is_reachable_and_only_the_ended_ones_are_final():
    assert set(JOB_TRANSITIONS) == set(JobState)
    reached = {JobState.accepted}
    for _ in JobState:
        reached |= {to for state in reached for to in JOB_TRANSITIONS[state]}
    assert reached == set(JobState)
    assert {state for state, to in JOB_TRANSITIONS.items() if not to} == ENDED_JOB_STATES


def test_an_unknown_batch_phase_is_not_an_end():
    assert not BatchPhase.unknown.ended
    assert {p for p in BatchPhase if p.ended} == {
        BatchPhase.completed,
        BatchPhase.failed,
        BatchPhase.expired,
        BatchPhase.cancelled,
    }


counts = st.dictionaries(st.sampled_from(Outcome), st.integers(0, 1000))


@given(counts, st.booleans(), st.booleans())
def test_a_job_always_ends_in_an_ended_state_and_completed_means_all_succeeded(outcomes, cancelled, failed):
    state = final_job_state(outcomes, cancelled=cancelled, failed=failed)
    assert state.ended
    if state is JobState.completed:
        assert sum(outcomes.values()) == outcomes.get(Outcome.succeeded, 0)
        assert not cancelled
        assert not failed


def test_PF_01_a_job_without_any_answer_has_failed_whatever_the_status_word_says():
    assert final_job_state({Outcome.failed: 9}, cancelled=False, failed=False) is JobState.failed


def test_IV_24_an_empty_job_is_completed():
    assert final_job_state({}, cancelled=False, failed=False) is JobState.completed


def test_answers_are_exactly_the_outcomes_that_are_paid_for():
    assert {o for o, _ in product(Outcome, [0]) if o.answered} == {
        Outcome.succeeded,
        Outcome.truncated,
        Outcome.refused,
    }
