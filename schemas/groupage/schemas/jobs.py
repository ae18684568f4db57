"""What starts a job and what can be asked of it."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from groupage.schemas._base import Duration, Message
from groupage.schemas.ids import check_key, check_tenant
from groupage.schemas.requests import DEFAULT_ENDPOINT
from groupage.schemas.states import Decision, Health, JobState, Outcome
from groupage.schemas.written import Written
from pydantic import Field, field_validator


class JobPolicy(Written):
    """How a job is run. Durations are written 90s, 30m, 6h or ISO 8601."""

    max_rounds: int = Field(3, ge=1, le=50)
    """How often a request is sent by batch at most; the sync round comes on top."""
    max_cost_usd: Decimal | None = Field(None, ge=0)
    """An estimate above it makes the job wait in needs_decision before anything is sent."""
    on_invalid: Literal["refuse", "skip"] = "refuse"
    sync_rpm: int = Field(600, ge=1)
    """Requests a minute to the sync API, all of the job's sync calls together."""
    sync_concurrency: int = Field(32, ge=1, le=1000)
    sync_attempts: int = Field(5, ge=1, le=50)
    sync_timeout: Duration = timedelta(seconds=120)
    sync_latency: Duration = timedelta(seconds=5)
    """How long one sync request is reckoned to take; with sync_concurrency it bounds the sync throughput."""
    poll: Duration = timedelta(seconds=30)
    """Shortest time between two polls of one provider batch."""
    turnaround: Duration | None = None
    """How long a batch usually takes here; None: 120 times `poll`, an hour by default. A first guess, replaced by
    what the job sees: it decides whether a near deadline is worth trying by batch."""
    window: int = Field(20, ge=1, le=200)
    """Provider batches of the job that run at once."""
    canary_requests: int = Field(0, ge=0)
    """If not 0: so many requests run first, alone; if most fail, the job asks before it sends the rest."""
    max_failed_share: float = Field(0.5, gt=0, le=1, allow_inf_nan=False)
    """Share of permanent failures in the first shard above which the job asks."""
    settle: Duration = timedelta(minutes=30)
    """How long a cancelled batch may take to end (25 minutes were seen, docs/cases.md PO-15)."""
    safety_factor: float = Field(1.5, ge=1, le=10, allow_inf_nan=False)
    """Escalation reckons sync work to take this times as long as computed."""
    escalate: bool = True
    """False: never send by sync; what the batches leave unanswered at the deadline ends expired."""
    clean_up: Literal["delete", "keep"] = "delete"
    max_shard_requests: int | None = Field(None, ge=1)
    """Below the provider's own limit; None: the provider's."""
    max_shard_bytes: int | None = Field(None, ge=1)
    max_shard_tokens: int | None = Field(None, ge=1)
    effective_for: Duration = timedelta(days=30)


class JobSpec(Written):
    """The argument of the workflow `BatchJob`; plain JSON works too::

        {"key": "labels-1", "provider": "openai", "input_url": "file:///data/in.jsonl", "deadline": "6h"}

    `input_url` is a JSONL object that the worker can read, or None where the client has put the
    requests into the store already (a manifest stands at the job's key) and names their `fingerprint`.
    The workflow's id must be `job/{tenant}/{key}`. `profile` names a credential profile of the worker's;
    no secret goes here.
    """

    tenant: str = "default"
    key: str
    provider: str = "openai"
    profile: str = "default"
    input_url: str | None = None
    endpoint: str = DEFAULT_ENDPOINT
    model: str | None = None
    deadline: Duration = timedelta(hours=24)
    """From acceptance."""
    labels: dict[str, str] = Field(default_factory=dict)
    policy: JobPolicy = Field(default_factory=JobPolicy)
    fingerprint: str | None = None

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return check_tenant(value)

    @field_validator("key")
    @classmethod
    def _key(cls, value: str) -> str:
        return check_key(value)

    @field_validator("deadline")
    @classmethod
    def _deadline(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            raise ValueError("the deadline must lie in the future: write 6h, 30m, 1d")
        return value


class JobRef(Message):
    """Which job: enough to find all its objects in the store and to make its tags."""

    tenant: str
    key: str
    token: str
    provider: str
    profile: str = "default"


class JobStatus(Message):
    """Answer of the query `status`. Counts cover rounds that have been harvested so far."""

    tenant: str
    key: str
    provider: str
    state: JobState
    health: Health = Health.on_track
    reason: str = ""
    next_step: str = ""
    requests: int = 0
    rejected: int = 0
    answered: int = 0
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    round: int = 0
    shards: int = 0
    shards_done: int = 0
    shards_running: int = 0
    estimated_cost_usd: Decimal | None = None
    cost_usd: Decimal = Decimal(0)
    waste_usd: Decimal = Decimal(0)
    unpriced: dict[str, int] = Field(default_factory=dict)
    """Requests by model of which no price is known: the sums above are without them."""
    accepted_at: datetime | None = None
    deadline_at: datetime | None = None
    escalate_at: datetime | None = None
    cancel_requested: bool = False


class DecideInput(Written):
    """Argument of the update `decide`."""

    decision: Decision
    reason: str = ""


class CancelInput(Written):
    """Argument of the update `cancel`."""

    reason: str = ""
