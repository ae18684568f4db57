"""Lines without an id that repeat their request: joined by it as a multiset, or not at all."""

import pytest
from groupage.activities.matching import Echoes, Later
from groupage.activities.providers.base import Answer, Echo
from groupage.schemas import ErrorClass, Outcome


def echo(exact: str, loose: str = "") -> Echo:
    return Echo(exact.encode().ljust(16), (loose or exact.lower()).encode().ljust(16))


def joined(requests: dict[int, Echo], lines: list[Echo], waiting: list[int] | None = None) -> list[int | str]:
    """What each line got: an index, or why it got none."""
    echoes = Echoes(requests.items(), list(requests) if waiting is None else waiting, lines)
    taken = [echoes.take(line) for line in lines]
    return [why if index is None else index for index, why in taken]


def test_a_line_finds_the_request_that_it_repeats_whatever_the_order():
    requests = {3: echo("A"), 5: echo("B"), 8: echo("C")}
    assert joined(requests, [echo(one) for one in "CAB"]) == [8, 3, 5]


def test_identical_requests_take_one_line_each_and_no_line_more():
    found = joined({n: echo("A") for n in (1, 2, 9)}, [echo("A")] * 4)
    assert sorted(found[:3]) == [1, 2, 9]
    assert found[3] == "like_an_answered_request"


def test_a_request_that_has_a_line_already_takes_no_second_one():
    requests = {1: echo("A"), 2: echo("A"), 3: echo("B")}
    found = joined(requests, [echo("A"), echo("A"), echo("B")], [2])
    assert found == [2, "like_an_answered_request", "like_an_answered_request"]


def test_what_a_server_wrote_otherwise_is_found_by_the_loose_digest():
    requests = {1: echo("Ax", "a"), 2: echo("B")}
    assert joined(requests, [echo("As", "a"), echo("As", "a")]) == [1, "like_an_answered_request"]


def test_requests_that_are_nearly_alike_are_told_apart_where_every_line_is_exact():
    requests = {1: echo("Ax", "a"), 2: echo("Ay", "a"), 3: echo("Ay", "a")}
    assert joined(requests, [echo("Ay", "a"), echo("Ax", "a"), echo("Ay", "a")]) == [3, 1, 2]


@pytest.mark.parametrize(
    "lines",
    [["As"], ["Ax", "Ax"], ["Ax", "As"], ["Ax"], ["Ay"]],
    ids=["one rewritten", "both as the first", "one rewritten to neither", "one missing", "the other missing"],
)
def test_where_nearly_alike_requests_and_lines_do_not_match_one_to_one_nothing_is_guessed(lines):
    """A row that repeats Ax may be of Ay, rewritten, where the row of Ax is missing."""
    requests = {1: echo("Ax", "a"), 2: echo("Ay", "a"), 3: echo("B")}
    found = joined(requests, [*(echo(line, "a") for line in lines), echo("B")])
    assert found == ["like_several_requests"] * len(lines) + [3]


def test_requests_whose_lines_came_but_may_be_of_others_are_named():
    requests = {1: echo("Ax", "a"), 2: echo("Ay", "a"), 3: echo("Ay", "a"), 4: echo("B"), 5: echo("Cx", "c")}
    requests[6] = echo("Cy", "c")
    lines = [echo("Ax", "a"), echo("Ax", "a"), echo("B")]
    echoes = Echoes(requests.items(), [1, 2, 4, 5, 6], lines)
    assert [echoes.take(line)[0] for line in lines] == [None, None, 4]
    # Of 5 and 6 no line came at all: they are missing like any other.
    assert sorted(echoes.untold()) == [1, 2]


def test_a_nearly_alike_request_that_has_its_line_by_id_is_reckoned_with():
    requests = {1: echo("Ax", "a"), 2: echo("Ay", "a")}
    assert joined(requests, [echo("As", "a")], [2]) == ["like_several_requests"]
    assert joined(requests, [echo("Ay", "a")], [2]) == [2]


def test_a_line_like_no_request_is_nobodys():
    echoes = Echoes([(1, echo("A"))], [1], [])
    assert echoes.take(None) == (None, "like_no_request")
    assert echoes.take(echo("?")) == (None, "like_no_request")


def test_answered_lines_are_read_before_failed_ones_and_keep_their_places():
    later = Later()
    failed = Answer(None, Outcome.failed, ErrorClass.transient, echo=echo("A"))
    answered = Answer(None, Outcome.succeeded, echo=echo("B"))
    later.add(failed, 0, 0, 1)
    later.add(answered, 300, 2**45, 7)
    later.add(answered, 0, 512, 2)
    assert list(later) == [(0, 512, 2), (300, 2**45, 7), (0, 0, 1)]
    assert list(later.echoes()) == [echo("A"), echo("B"), echo("B")]
