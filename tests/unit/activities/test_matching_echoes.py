"""Lines without an id that repeat their request: joined by it as a multiset, or not at all."""

import pytest
from groupage.activities.matching import Echoes, Later
from groupage.activities.providers.base import Answer, Echo
from groupage.schemas import ErrorClass, Outcome


def echo(exact: str, loose: str = "") -> Echo:
    return Echo(exact.encode(), (loose or exact.lower()).encode())


def test_a_line_finds_the_request_that_it_repeats_whatever_the_order():
    echoes = Echoes([(3, echo("A")), (5, echo("B")), (8, echo("C"))], [3, 5, 8])
    assert [echoes.take(echo(one))[0] for one in "CAB"] == [8, 3, 5]


def test_identical_requests_take_one_line_each_and_no_line_more():
    echoes = Echoes([(n, echo("A")) for n in (1, 2, 9)], [1, 2, 9])
    assert sorted(echoes.take(echo("A"))[0] for _ in range(3)) == [1, 2, 9]
    assert echoes.take(echo("A")) == (None, "like_an_answered_request")


def test_a_request_that_has_a_line_already_takes_no_second_one():
    echoes = Echoes([(1, echo("A")), (2, echo("A")), (3, echo("B"))], [2])
    assert echoes.take(echo("A")) == (2, "")
    assert echoes.take(echo("A")) == (None, "like_an_answered_request")
    assert echoes.take(echo("B")) == (None, "like_an_answered_request")


def test_what_a_server_wrote_otherwise_is_found_by_the_loose_digest():
    echoes = Echoes([(1, echo("Ax", "a")), (2, echo("B"))], [1, 2])
    assert echoes.take(echo("A-as-rewritten", "a")) == (1, "")
    assert echoes.take(echo("A-as-rewritten", "a")) == (None, "like_an_answered_request")


def test_a_line_like_two_different_requests_is_nobodys_even_if_one_has_its_line():
    for waiting in ([1, 2], [2]):
        echoes = Echoes([(1, echo("Ax", "a")), (2, echo("Ay", "a"))], waiting)
        assert echoes.take(echo("Az", "a")) == (None, "like_several_requests")
    # An exact match still counts.
    assert echoes.take(echo("Ay", "a")) == (2, "")


@pytest.mark.parametrize("given", [None, Echo(b"?", b"?")])
def test_a_line_like_no_request_is_nobodys(given):
    index, why = Echoes([(1, echo("A"))], [1]).take(given)
    assert index is None
    assert why in {"no_request", "like_no_request"}


def test_answered_lines_are_read_before_failed_ones_and_keep_their_places():
    later = Later()
    failed = Answer(None, Outcome.failed, ErrorClass.transient)
    answered = Answer(None, Outcome.succeeded)
    later.add(failed, 0, 0, 1)
    later.add(answered, 300, 2**45, 7)
    later.add(answered, 0, 512, 2)
    assert list(later) == [(0, 512, 2), (300, 2**45, 7), (0, 0, 1)]
