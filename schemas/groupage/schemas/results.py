"""What a reader gets: one result per request, one summary per job."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from groupage.schemas._base import Message
from groupage.schemas.states import ErrorClass, JobState, Outcome, Route
from pydantic import Field


class Usage(Message):
    """Tokens as the provider billed them. `cached_tokens` are part of `input_tokens`,
    `reasoning_tokens` of `output_tokens`.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class BilledUsage(Usage):
    """With what is billed otherwise than as tokens; a result line has these fields only where one is not 0.

    `cache_write_1h_tokens` are part of `cache_write_tokens`.
    """

    cache_write_1h_tokens: int = 0
    web_searches: int = 0


class ResultError(Message):
    error_class: ErrorClass = Field(alias="class", serialization_alias="class")
    code: str
    message: str

    model_config = Message.model_config | {"populate_by_name": True}


class Result(Message):
    """One line of results/{part}.jsonl.zst and of the command's output file, field for field.

    `body` is the provider's answer as it came, but for what strict readers of JSON refuse (null if
    there is none), `text` what it says, `rounds` how often the request was sent. `cost_usd` is for
    this answer alone; money spent without an answer is waste, a column of the ledger.
    """

    id: str | None
    outcome: Outcome
    text: str | None = None
    body: Any = None
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    sync_cost_usd: Decimal | None = None
    provider: str
    model: str | None = None
    route: Route
    rounds: int
    produced_at: datetime
    effective_until: datetime | None = None
    error: ResultError | None = None
    tool_calls: list[Any] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    provider_ids: dict[str, str] = Field(default_factory=dict)


class Summary(Message):
    """`summary.json`: written last. A job with a summary is finished, whatever Temporal still knows of it."""

    tenant: str
    key: str
    fingerprint: str
    state: JobState
    reason: str = ""
    provider: str
    requests: int
    outcomes: dict[Outcome, int]
    error_classes: dict[ErrorClass, int] = Field(default_factory=dict)
    top_errors: list[tuple[str, int]] = Field(default_factory=list)
    """"class/code" and how many requests have it, most frequent first, at most 5."""
    error_messages: list[tuple[str, int]] = Field(default_factory=list)
    """The same with the words, "class/code: message", of the first 100,000 requests without an answer."""
    routes: dict[Route, int] = Field(default_factory=dict)
    rounds: int = 0
    usage: Usage = Field(default_factory=Usage)
    cost_usd: Decimal = Decimal(0)
    """Paid for delivered answers."""
    waste_usd: Decimal = Decimal(0)
    """Paid without a delivered answer: duplicates, late results, billed failures."""
    sync_cost_usd: Decimal = Decimal(0)
    """What the delivered answers would have cost through the sync API."""
    cost_estimated: bool = False
    """True where a price was missing and a guess stands in for it."""
    unpriced: dict[str, int] = Field(default_factory=dict)
    """Answers by model of which no price is known: the sums above are without them."""
    maybe_paid_twice: int = 0
    """Requests that may be billed beyond what was delivered: of sync calls in flight when a worker died, and of batches
    that had not ended when the job did."""
    unsettled: dict[str, int] = Field(default_factory=dict)
    """Those of the batches, by "round-shard"; a summary that is read after such a batch has ended tells its waste."""
    quarantined: int = 0
    unreadable: int = 0
    """Result lines of all rounds that could not be read: if they were billed, no sum here has it."""
    count_mismatches: list[str] = Field(default_factory=list)
    left_behind: list[str] = Field(default_factory=list)
    result_parts: int = 0
    accepted_at: datetime | None = None
    deadline_at: datetime | None = None
    finished_at: datetime | None = None
