"""The activities by name, argument and result: how workflows call them without importing their code.

Each takes one message and returns one message of at most PAYLOAD_MAX_BYTES. Bodies stay in the
store. An activity that fails for good raises ApplicationError whose type is one of `ErrorClass`
(prefixed "provider.") or "input.refused" / "input.conflict" / "store.damaged", with a `BatchError`
as its first detail.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from groupage.schemas._base import Message
from groupage.schemas.batches import BatchStatus, RoundPlan, ShardRef, ShardReport
from groupage.schemas.jobs import JobRef, JobSpec
from groupage.schemas.results import Summary
from groupage.schemas.states import BatchPhase, ErrorClass, FailureAction, Route
from groupage.schemas.written import Written
from pydantic import Field

DISK_FULL = "disk_full"
"""Code of a failure for want of space on the worker's disk."""

In = TypeVar("In", bound=Message)
Out = TypeVar("Out", bound=Message)


@dataclass(frozen=True, slots=True)
class ActivityCall(Generic[In, Out]):
    """One activity: its registered name and its two message types."""

    name: str
    argument: type[In]
    result: type[Out]


class PrepareJob(Message):
    spec: JobSpec
    accepted_at: datetime


class PreparedJob(Message):
    """`refused` is true if the policy refuses invalid lines and there are some: nothing is sent then."""

    job: JobRef
    fingerprint: str
    requests: int
    rejected: int
    problems: list[str] = Field(default_factory=list)
    """The first PROBLEMS_SHOWN rejected lines, each "line N: ..."."""
    refused: bool = False
    bytes: int = 0
    tokens: int = 0
    max_output_tokens: int = 0
    estimated_cost_usd: Decimal | None = None
    """By batch, if every request uses its whole output limit; None: no price is known."""
    estimated_sync_cost_usd: Decimal | None = None
    cost_estimated: bool = False
    unpriced_requests: int = 0
    """Requests of models without a known price; the estimates leave them out."""
    unpriced_models: list[str] = Field(default_factory=list)
    """The first of them."""
    unpriced: dict[str, int] = Field(default_factory=dict)
    """As many of these requests as the first of the models have, by model."""
    min_requests: int = 1
    rounds: int = 0
    """Rounds that an earlier run of the job has planned: it was terminated, and handed in again."""
    model: str = ""
    """The one model of all requests; empty where they name several."""


class PlanRound(Message):
    """Split what is unanswered into the shards of `round`.

    For round 0 that is every accepted request, by `first_route`. For a later round it is what the
    previous round left: each unanswered request goes where `actions` sends its error class;
    `give_up` and classes not named stay as they are. Running it again writes the same shards.
    Members of a shard of the previous round that has no results in the store (never started, refused
    as a whole, not settled yet) count as `not_sent`.
    """

    job: JobRef
    round: int
    first_route: Route = Route.batch
    actions: dict[ErrorClass, FailureAction] = Field(default_factory=dict)
    once_more: list[ErrorClass] = Field(default_factory=list)
    """Classes of which a request is given up, whatever its action, if it has ended in one of `states.UNEXPLAINED` in an
    earlier round as well."""
    limits_factor: float = 1.0
    """Shards may hold this share of the limits: halved after a provider found one too large."""
    canary_requests: int = 0
    """Round 0 only: shard 0 holds so many requests."""
    escalate: bool = True
    """False: what is too few for a batch of the provider's gets its outcome and does not go by sync."""
    max_shard_requests: int | None = None
    max_shard_bytes: int | None = None
    max_shard_tokens: int | None = None
    sync_shard_requests: int = 500


class SubmitBatch(Message):
    """Find or create the provider batch of a shard. `not_ids`: batches with this tag that are known to be dead."""

    shard: ShardRef
    not_ids: list[str] = Field(default_factory=list)
    deadline_at: datetime | None = None
    """The job's: it decides how long a batch is allowed to take, where the provider offers a choice."""


class SubmittedBatch(Message):
    batch_id: str
    adopted: bool
    submitted_at: datetime
    input_files: list[str] = Field(default_factory=list)
    requests: int = 0
    """Members of the shard; 0: not told."""
    duplicates: list[str] = Field(default_factory=list)
    """Other batches that carried the shard's tag: found, and cancelled where they were alive."""
    report: ShardReport | None = None
    """There is nothing to wait for: the shard was collected before and its batch is gone, or it is not to be sent
    any more (then without a `batch_id`). This is what there is to say of it."""


class AwaitBatch(Message):
    """Look until the batch has ended, or `report_at` has passed and it is not in phase `seen` any more."""

    shard: ShardRef
    batch_id: str
    submitted_at: datetime
    poll_s: float
    seen: BatchPhase | None = None
    report_at: datetime | None = None
    tell_refusals: bool = False
    """Fail for good once looks in a row are refused for the account, so that it can be shown; else look on."""


class CancelBatch(Message):
    """Ask the provider to cancel. `batch_id` is empty where submitting was cut short, so that nobody knows
    whether there is a batch: the tag is looked for, and finding none is a status in phase `cancelled`
    with an empty `batch_id`.
    """

    shard: ShardRef
    batch_id: str


class CollectBatch(Message):
    """Download, verify, store as received, normalise, store. `status` is the last one seen.

    `status.batch_id` is empty where the submission was refused for good: there is nothing to download,
    and each member gets the class of `status.error`. A shard that was collected before answers with
    the report that is stored (its files at the provider may be deleted by now).
    """

    shard: ShardRef
    status: BatchStatus
    submitted_at: datetime


class CleanUpBatch(Message):
    """Delete the batch's files at the provider (and the batch where that is possible)."""

    shard: ShardRef
    batch_id: str = ""
    files: list[str] = Field(default_factory=list)


class CleanedUp(Message):
    deleted: int = 0
    left_behind: list[str] = Field(default_factory=list)


class ReadProgress(Message):
    """Ask the provider how far the running shards of a round are."""

    job: JobRef
    round: int
    shards: list[int]


class Progress(Message):
    """Requests of those shards; `completed` as the provider counts, 0 where it does not say."""

    requests: int
    completed: int
    ended_shards: int = 0


class RunSyncShard(Message):
    """Send a shard's requests one by one through the sync API, storing answers as they come."""

    shard: ShardRef
    rpm: int
    concurrency: int
    attempts: int
    timeout_s: float
    deadline_at: datetime
    forbidden_alone: bool = False
    """A person said that what is refused with a 403 is refused for itself: the shard goes on whatever number is."""


class FinalizeJob(Message):
    """Merge all rounds into results in input order, the ledger and the summary."""

    job: JobRef
    fingerprint: str
    rounds: int
    """Rounds planned so far, the sync one included."""
    cancelled: bool = False
    failed_reason: str = ""
    reason: str = ""
    left_behind: list[str] = Field(default_factory=list)
    unsettled: list[str] = Field(default_factory=list)
    """Shards, each "round-shard", whose batches were told to stop and had not ended."""
    accepted_at: datetime
    deadline_at: datetime
    effective_for_s: float


class SweepOrphans(Written):
    """List what carries this deployment's tags at one provider account, and end what no job needs.

    Objects younger than `grace_s` are left alone. `dry_run` only tells what would be done.
    """

    provider: str
    profile: str = "default"
    grace_s: float = Field(3600.0, ge=0)
    delete_files: bool = True
    dry_run: bool = False


class Swept(Message):
    """Lists hold the first SWEPT_SHOWN entries, each an id and why."""

    batches: int = 0
    files: int = 0
    cancelled: list[str] = Field(default_factory=list)
    deleted: int = 0
    deleted_files: list[str] = Field(default_factory=list)
    stranded: list[str] = Field(default_factory=list)
    """Live batches of jobs that were accepted, have not ended, and that no workflow runs: start the job again."""
    failed: list[str] = Field(default_factory=list)


PREPARE_JOB = ActivityCall("prepare_job", PrepareJob, PreparedJob)
PLAN_ROUND = ActivityCall("plan_round", PlanRound, RoundPlan)
SUBMIT_BATCH = ActivityCall("submit_batch", SubmitBatch, SubmittedBatch)
AWAIT_BATCH = ActivityCall("await_batch", AwaitBatch, BatchStatus)
CANCEL_BATCH = ActivityCall("cancel_batch", CancelBatch, BatchStatus)
COLLECT_BATCH = ActivityCall("collect_batch", CollectBatch, ShardReport)
CLEAN_UP_BATCH = ActivityCall("clean_up_batch", CleanUpBatch, CleanedUp)
READ_PROGRESS = ActivityCall("read_progress", ReadProgress, Progress)
RUN_SYNC_SHARD = ActivityCall("run_sync_shard", RunSyncShard, ShardReport)
FINALIZE_JOB = ActivityCall("finalize_job", FinalizeJob, Summary)
SWEEP_ORPHANS = ActivityCall("sweep_orphans", SweepOrphans, Swept)

ALL_CALLS = (
    PREPARE_JOB,
    PLAN_ROUND,
    SUBMIT_BATCH,
    AWAIT_BATCH,
    CANCEL_BATCH,
    COLLECT_BATCH,
    CLEAN_UP_BATCH,
    READ_PROGRESS,
    RUN_SYNC_SHARD,
    FINALIZE_JOB,
    SWEEP_ORPHANS,
)
