"""Shards, provider batches and what became of them."""

from datetime import datetime
from decimal import Decimal

from groupage.schemas._base import Message
from groupage.schemas.ids import submission_tag
from groupage.schemas.jobs import JobRef
from groupage.schemas.states import BatchPhase, ErrorClass, Outcome, Route
from pydantic import Field


class ShardRef(Message):
    """One shard. Its members (indices of requests) lie in the store, not here."""

    job: JobRef
    round: int
    shard: int

    @property
    def tag(self) -> str:
        return submission_tag(self.job.token, self.round, self.shard)


class ShardPlan(Message):
    """`shards/{round}-{shard}/plan.json`: what the shard holds and where it goes."""

    round: int
    shard: int
    route: Route
    endpoint: str
    model: str
    requests: int
    bytes: int
    """Size of the rendered input file, estimated from above."""
    tokens: int
    first_index: int
    last_index: int


class RoundPlan(Message):
    """`rounds/{round}.json`, and what planning answers. Batch shards are numbered first, then sync ones."""

    round: int
    batch_shards: int
    sync_shards: int
    requests: int
    tokens: int = 0
    given_up: int = 0
    ended_again: int = 0
    """Of them: requests that were given up for `PlanRound.once_more` alone, so that planning is the first to know."""
    limits_factor: float = 1.0
    max_requests: int | None = None
    """Half of the largest shard that was refused as too large in an earlier round: a ceiling for this and all later ones."""
    max_bytes: int | None = None


class BadLines(Message):
    """Lines for which a provider refused a whole batch; 1 is the first one of the input as it was sent."""

    lines: list[int]
    code: str = ""
    message: str = ""


class BatchError(Message):
    """Why a whole batch or submission failed."""

    error_class: ErrorClass
    code: str = ""
    message: str = ""
    retry_after_s: float | None = None
    bad_lines: list[BadLines] = Field(default_factory=list)
    """Where the provider names the lines at fault: the other ones are not, and none has run."""
    of_all_lines: bool = False
    """The reason holds for every line: leaving some out would not help."""


class BatchStatus(Message):
    """One look at a provider batch. Counts are hints: the lines decide. -1: not told.

    `raw_state` is the provider's own word, kept even if we do not know it.
    """

    batch_id: str
    tag: str = ""
    phase: BatchPhase
    raw_state: str
    total: int = -1
    completed: int = -1
    failed: int = -1
    input_files: list[str] = Field(default_factory=list)
    output_files: list[str] = Field(default_factory=list)
    error_files: list[str] = Field(default_factory=list)
    settles_as: BatchPhase | None = None
    """Set while `phase` is finalizing: the provider says that the batch has ended so, but does not name the
    result files that it must have (docs/cases.md PO-08)."""
    error: BatchError | None = None
    warning: str = ""
    created_at: datetime | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None


NOT_TO_BE_SENT = "not_to_be_sent"
"""Code of a shard that an earlier run of the job planned, and that is not sent any more: the next round takes up
what of it has no answer yet."""


class ShardReport(Message):
    """What a shard brought. `outcomes` add up to `requests`; `unanswered` splits what has no answer."""

    round: int
    shard: int
    route: Route
    phase: BatchPhase
    batch_id: str = ""
    requests: int
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    unanswered: dict[ErrorClass, int] = Field(default_factory=dict)
    top_errors: list[tuple[str, int]] = Field(default_factory=list)
    """"class/code" and how many lines had it, most frequent first, at most 5."""
    account_said: str = ""
    """The first text of a line's error that may be the account's trouble: a person is asked with it."""
    cost_usd: Decimal = Decimal(0)
    waste_usd: Decimal = Decimal(0)
    cost_estimated: bool = False
    maybe_paid_twice: int = 0
    quarantined: int = 0
    count_mismatch: str = ""
    error: BatchError | None = None
    left_behind: list[str] = Field(default_factory=list)
    unsettled: bool = False
    """The batch was told to stop and had not ended in time: the job goes on without it, and its late
    answers are waste. A later report of the same shard replaces this one."""
    duplicate: bool = False
    """Of a second batch of the shard's: all that it cost is waste."""
    latency_s: float = 0.0
    """From submission to the end of the provider batch."""

    @property
    def answered(self) -> int:
        return sum(n for outcome, n in self.outcomes.items() if outcome.answered)
