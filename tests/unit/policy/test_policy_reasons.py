"""Reasons for refused batches: told apart, counted, bounded."""

from groupage.workflows.policy.reasons import REASONS_MAX, TEXT_MAX, Reason, count_reason, tell_reasons

WINDOW = "HTTP 400 Invalid value: '1h'."
ENDPOINT = "HTTP 400 Invalid value: '/v1/embeddings'."


def counted(*said: tuple[str, int]) -> list[Reason]:
    reasons: list[Reason] = []
    for message, requests in said:
        reasons = count_reason(reasons, message, requests)
    return reasons


def test_the_same_words_about_several_batches_are_one_reason():
    reasons = counted(*((f"create of gabcdef-abcdefghijklm-r0-s{n}: {WINDOW}", 10) for n in range(3)))
    assert reasons == [Reason(text=f"create of the batch: {WINDOW}", shards=3, requests=30)]
    assert tell_reasons(reasons) == f"create of the batch: {WINDOW}"


def test_each_distinct_reason_is_told_with_what_it_holds_for_the_widest_first():
    reasons = counted((ENDPOINT, 2), (WINDOW, 40), (WINDOW, 8))
    assert tell_reasons(reasons) == f"{WINDOW} (2 batches, 48 requests); {ENDPOINT} (1 batch, 2 requests)"


def test_reasons_are_bounded_and_what_goes_beyond_is_counted():
    reasons = counted(*((f"reason {n} " + "x" * 1000, 1 + n % 2) for n in range(20)))
    assert len(reasons) == REASONS_MAX + 1
    assert sum(one.shards for one in reasons) == 20
    assert sum(one.requests for one in reasons) == 30
    assert max(len(one.text) for one in reasons) == TEXT_MAX
    assert tell_reasons(reasons).endswith("other reasons (15 batches, 23 requests)")


def test_no_reason_is_no_words():
    assert not tell_reasons([])
