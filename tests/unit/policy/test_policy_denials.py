"""Requests that are refused with a 403: their own trouble, or the account's."""

from groupage.schemas.limits import FORBIDDEN_IN_A_ROW
from groupage.workflows.policy.denials import is_the_accounts, standing_after
from hypothesis import given
from hypothesis import strategies as st

few = st.integers(0, 20)
shards = st.lists(st.tuples(few, few), max_size=20)
"""(refused, answered) of each."""


def after(reports):
    standing = 0
    for forbidden, answered in reports:
        standing = standing_after(standing, forbidden, answered)
    return standing


@given(shards)
def test_nothing_but_refusals_stands_and_never_more_than_there_are(reports):
    assert 0 <= after(reports) <= sum(forbidden for forbidden, _ in reports)


@given(st.lists(few, min_size=1, max_size=20))
def test_an_account_that_answers_nothing_is_asked_about_whatever_the_shards_hold(refused):
    standing = after([(forbidden, 0) for forbidden in refused])
    assert standing == sum(refused)
    assert is_the_accounts(standing, 0, idle=True) == (standing > 0)
    assert is_the_accounts(standing, 0, idle=False) == (standing >= FORBIDDEN_IN_A_ROW)


@given(shards, st.integers(1, 1000), st.booleans())
def test_a_shard_that_is_answered_as_often_as_it_is_refused_speaks_for_the_account(reports, refused, idle):
    standing = after([*reports, (refused, refused)])
    assert standing == 0
    assert not is_the_accounts(standing, 0, idle=idle)


@given(shards, st.integers(FORBIDDEN_IN_A_ROW, 1000))
def test_an_account_that_dies_after_much_was_answered_is_asked_about(reports, refused):
    answered = sum(number for _, number in reports) + 1000
    assert is_the_accounts(after([*reports, (refused, 0)]), answered, idle=False)


@given(st.integers(1, FORBIDDEN_IN_A_ROW - 1), st.integers(0, 100))
def test_a_few_refusals_wait_for_what_else_is_under_way(refused, answered):
    assert not is_the_accounts(refused, answered, idle=False)
    assert is_the_accounts(refused, answered, idle=True) == (refused > answered)
