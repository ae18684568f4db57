"""Names and messages that workflows, clients and the temporal CLI exchange. Search attributes too."""

from datetime import datetime

from groupage.schemas._base import Message
from groupage.schemas.batches import BatchError, ShardRef
from groupage.schemas.jobs import JobPolicy

BATCH_JOB = "BatchJob"
PROVIDER_BATCH = "ProviderBatch"
SWEEP = "Sweep"
TASK_QUEUE = "groupage"

SIGNAL_SHARD_DONE = "shard_done"
"""To BatchJob, from each ProviderBatch; argument ShardReport. Twice for one shard counts once."""
SIGNAL_SHARD_TROUBLE = "shard_trouble"
"""To BatchJob, from a ProviderBatch that cannot go on until a person acts, and when that is over; argument ShardTrouble."""
SIGNAL_STOP = "stop"
"""To ProviderBatch: cancel the provider batch, harvest, report. Argument StopBatch."""
UPDATE_DECIDE = "decide"
UPDATE_CANCEL = "cancel"
QUERY_STATUS = "status"

MEMO_QUESTION = "GroupageQuestion"
MEMO_ANSWERS = "GroupageAnswers"
"""Memo of a job that has asked: its last question and how to answer it, so that both are seen where no worker runs."""

SEARCH_ATTRIBUTES: dict[str, str] = {
    "GroupageState": "Keyword",
    "GroupageHealth": "Keyword",
    "GroupageTenant": "Keyword",
    "GroupageProvider": "Keyword",
    "GroupageModel": "Keyword",
    "GroupageDeadline": "Datetime",
}
"""Name and type; `groupage worker` and `groupage dev` register what is missing."""


class StopBatch(Message):
    """`settle_s`: how long the provider may take to end the batch before the shard is reported as unsettled."""

    reason: str
    settle_s: float


class ShardTrouble(Message):
    """`error` None: it is over."""

    round: int
    shard: int
    error: BatchError | None = None


class ProviderBatchInput(Message):
    """Argument of ProviderBatch. Reports go to the job's workflow id."""

    shard: ShardRef
    policy: JobPolicy
    requests: int
    model: str = ""
    deadline_at: datetime | None = None
    """The job's."""
    stop: StopBatch | None = None
    """Set where a shard that was lost is started again only to stop it: its batch is looked for by the tag,
    cancelled and harvested; none is created."""
