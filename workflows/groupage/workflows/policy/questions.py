"""When a job stops and asks a person, what it asks, and which answers fit."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from groupage.schemas import Decision, ErrorClass, JobPolicy, ShardReport
from groupage.workflows.policy.failures import PERMANENT


class Question(StrEnum):
    """Why a job is in needs_decision."""

    cost = "cost"
    mostly_failed = "mostly_failed"
    account = "account"
    denied = "denied"
    none_taken = "none_taken"


SUITABLE: dict[Question, tuple[Decision, ...]] = {
    Question.cost: (Decision.go_on, Decision.abort),
    Question.mostly_failed: (Decision.go_on, Decision.retry, Decision.accept, Decision.abort),
    Question.account: (Decision.go_on, Decision.retry, Decision.accept, Decision.abort),
    Question.denied: (Decision.retry, Decision.go_on, Decision.accept, Decision.abort),
    Question.none_taken: (Decision.retry, Decision.go_on, Decision.accept, Decision.abort),
}

MEANING: dict[Question, dict[Decision, str]] = {
    Question.cost: {
        Decision.go_on: "send everything, whatever it costs",
        Decision.abort: "send nothing and end as cancelled",
    },
    Question.mostly_failed: {
        Decision.go_on: "send the rest; what failed for good stays failed",
        Decision.retry: "send the rest, and what failed once more",
        Decision.accept: "send nothing more and finish with what is there",
        Decision.abort: "stop what runs, keep what is there, end as cancelled",
    },
    Question.account: {
        Decision.go_on: "the account works again: send the rest and what was refused",
        Decision.retry: "the same as go_on",
        Decision.accept: "send nothing more and finish with what is there",
        Decision.abort: "stop what runs, keep what is there, end as cancelled",
    },
    Question.denied: {
        Decision.retry: "the permission is there now: send the rest and what was refused",
        Decision.go_on: "it is about those requests alone: they have failed, as will others that are refused so; send the rest",
        Decision.accept: "send nothing more and finish with what is there",
        Decision.abort: "stop what runs, keep what is there, end as cancelled",
    },
    Question.none_taken: {
        Decision.retry: "the cause is mended: send the same batches again",
        Decision.go_on: "some requests are at fault: send them in halves until it is known which",
        Decision.accept: "send nothing more and finish with what is there",
        Decision.abort: "stop what runs, keep what is there, end as cancelled",
    },
}


def cost_question(policy: JobPolicy, estimate: Decimal | None, *, unpriced: int = 0, models: Sequence[str] = ()) -> str:
    """Why the cost needs a decision; empty if it does not. An unknown price cannot be said to be within a budget.

    `estimate` leaves out `unpriced` requests, of `models` without a known price.
    """
    if policy.max_cost_usd is None:
        return ""
    if estimate is None:
        return f"the policy allows {policy.max_cost_usd} USD, and no price is known for this job's models"
    without_price = f"{unpriced} requests to {', '.join(models) or 'some models'}, for which no price is known"
    more = f", without {without_price}" if unpriced else ""
    if estimate > policy.max_cost_usd:
        return f"the estimate of {_above(estimate, policy.max_cost_usd)} USD is above the policy's {policy.max_cost_usd} USD{more}"
    if unpriced:
        return f"the policy allows {policy.max_cost_usd} USD, and the estimate of {estimate:.2f} USD leaves out {without_price}"
    return ""


def _above(estimate: Decimal, limit: Decimal) -> str:
    """With as many digits, two or more, as show that it is above the limit."""
    digits = next((n for n in range(2, 12) if Decimal(f"{estimate:.{n}f}") > limit), 12)
    return f"{estimate:.{digits}f}"


def permanent_failures(report: ShardReport) -> int:
    """Requests of the shard whose failure sending the same bytes again cannot mend, or that nobody could read."""
    return sum(report.unanswered.get(c, 0) for c in (*sorted(PERMANENT), ErrorClass.unreadable))


def mostly_failed_question(policy: JobPolicy, failed: int, requests: int, first_error: str) -> str:
    """Why the first shard's outcome needs a decision; empty if it does not."""
    if requests <= 0 or failed / requests <= policy.max_failed_share:
        return ""
    shown = f", mostly {first_error}" if first_error else ""
    return f"{failed} of the first {requests} requests failed for good{shown}; no further shard is started"


def account_question(provider: str, message: str) -> str:
    shown = f": {message}" if message else ""
    return f"{provider} refuses the account (key, permission or credit), no request is at fault{shown}"


def denied_question(provider: str, requests: int, message: str) -> str:
    """Every one of them was refused a permission, and nothing was answered meanwhile."""
    shown = f": {message}" if message else ""
    return f"{provider} refuses {requests} requests for lack of a permission and answers none beside them{shown}"


def none_taken_question(provider: str, message: str) -> str:
    """No batch was made: what a provider says of all requests alike is more likely about the account or a setting."""
    return f"{provider} takes no batch of this job and names no request that is at fault: {message}"


def all_failed_question(provider: str, message: str) -> str:
    """Batches were made, and all of them failed as a whole, more than once: as above."""
    return f"{provider} fails every batch of this job as a whole and names no request that is at fault: {message}"


def how_to_decide(question: Question, workflow_id: str) -> str:
    """What a person has to do, in one paragraph of Markdown."""
    answers = "; ".join(f"`{decision}`: {meaning}" for decision, meaning in MEANING[question].items())
    first = SUITABLE[question][0]
    return (
        f"`groupage decide {workflow_id.removeprefix('job/')} {first}`, or "
        f"`temporal workflow update execute -w {workflow_id} --name decide --input "
        f'\'{{"decision": "{first}"}}\'`. Answers: {answers}'
    )
