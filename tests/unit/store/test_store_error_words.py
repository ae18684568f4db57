"""Errors' words in the merge: counted, bounded, the same after an interruption."""

from pathlib import Path

import pytest
from groupage.store import error_words
from groupage.store.error_words import ErrorWords
from groupage.store.objects import Store
from groupage.store.results import ResultLine, encode_fragment
from store_builders import accept, answer, batch_line, failure, merge, spool, write_results

ALL = [batch_line(f"id-{n}", f"text {n}") for n in range(20)]


def counted(lines: list[ResultLine], room: int = 100) -> ErrorWords:
    words = ErrorWords(room)
    for line in lines:
        words.add(encode_fragment(line))
    return words


def test_each_distinct_message_is_counted_over_all_parts_the_most_frequent_first(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool(ALL, segment_requests=7))
    results = [failure(n, code="bad", message="no such window" if n % 4 else "no such url") for n in range(19)]
    write_results(store, tmp_path, 0, 0, [*results, answer(19)])
    first = merge(store, manifest, [(0, 0)], tmp_path)
    assert first.error_messages == [("expired/bad: no such window", 14), ("expired/bad: no such url", 5)]
    again = merge(store, manifest, [(0, 0)], tmp_path)
    assert again.resumed_parts == 3
    assert again.error_messages == first.error_messages


def test_what_our_own_words_put_before_a_message_does_not_tell_it_apart() -> None:
    words = counted([failure(n, message=f"input line {n}: create of gabc-def-r0-s{n}: no") for n in range(5)])
    assert words.top() == [("expired/batch_expired: create of the batch: no", 5)]


def test_words_in_a_body_are_not_taken_for_the_error() -> None:
    assert counted([failure(0, body={"error": {"class": "x", "code": "y", "message": "z"}}, message="true")]).top() == [
        ("expired/batch_expired: true", 1)
    ]


def test_an_error_without_words_is_left_to_its_code() -> None:
    assert not counted([failure(0, message="")]).top()


def test_no_more_results_are_read_than_there_is_room_for_and_no_more_messages_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(error_words, "DISTINCT_MAX", 3)
    words = counted([failure(n, message=f"message {n}") for n in range(10)], room=4)
    assert (len(words.counts), words.room) == (3, 0)
