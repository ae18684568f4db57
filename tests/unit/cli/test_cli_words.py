"""What the commands tell of costs and errors."""

from decimal import Decimal

import pytest
from groupage.cli.console import cost, money
from groupage.cli.progress import estimate_line, status_line, summary_lines
from groupage.schemas import JobState, JobStatus, Outcome, Summary


def summary(**changes) -> Summary:
    fields = {
        "tenant": "t",
        "key": "k",
        "fingerprint": "f",
        "state": JobState.completed,
        "provider": "openai",
        "requests": 3,
        "outcomes": {Outcome.succeeded: 3},
    } | changes
    return Summary(**fields)


def status(**changes) -> JobStatus:
    return JobStatus(**({"tenant": "t", "key": "k", "provider": "openai", "state": JobState.running} | changes))


@pytest.mark.parametrize(
    ("value", "told"), [(None, "unknown"), (0, "$0.0000"), ("0.00000002", "under $0.0001"), ("0.0013", "$0.0013"), (2, "$2.00")]
)  # fmt: skip
def test_money_that_was_spent_is_never_shown_as_nothing(value, told):
    assert money(None if value is None else Decimal(value)) == told


def test_a_cost_that_nobody_knows_is_not_nothing():
    told = summary_lines(summary(unpriced={"m": 3}, cost_estimated=True))[1]
    assert told == "cost not known (no price for m: 3 of 3 requests)"
    assert "$" not in told


def test_a_sum_that_leaves_answers_out_says_so():
    told = summary_lines(summary(unpriced={"m": 1, "n": 1}, cost_usd=Decimal("0.5"), sync_cost_usd=Decimal(1)))[1]
    assert told.startswith("cost $0.5000 and what is not known (no price for m, n: 2 of 3 requests)")
    assert "by sync it would have been $1.00" in told


def test_what_is_free_costs_nothing_and_says_so():
    assert cost(Decimal(0), {}, 3) == "$0.0000"


def test_the_progress_of_a_job_without_a_price_tells_no_sum():
    assert status_line(status(requests=3, unpriced={"m": 3})) == (
        "running: 0 of 3 answered, cost not known (no price for m: 3 of 3 requests)"
    )


def test_the_estimate_is_told_once_the_requests_are_read():
    assert not estimate_line(status(state=JobState.preparing))
    told = estimate_line(status(requests=3, estimated_cost_usd=Decimal("0.02")))
    assert told == "estimate by batch: $0.0200, if every request uses its whole output limit"
    without = estimate_line(status(requests=3, unpriced={"m": 3}))
    assert without == "estimate by batch: not known (no price for m: 3 of 3 requests)"


def test_before_the_requests_are_counted_no_number_is_told():
    assert status_line(status(state=JobState.preparing)) == "preparing"


def test_errors_are_told_with_the_providers_words_where_they_are_known():
    told = {"top_errors": [("invalid/bad", 3)], "error_messages": [("invalid/bad: no such window", 2)]}
    assert "2 × invalid/bad: no such window" in summary_lines(summary(**told))
    assert "3 × invalid/bad" not in summary_lines(summary(**told))
    assert "3 × invalid/bad" in summary_lines(summary(top_errors=told["top_errors"]))
