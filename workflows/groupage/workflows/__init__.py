"""The durable state machines: BatchJob and, for each of its shards, ProviderBatch; Sweep beside them."""

from groupage.workflows.batch_job import BatchJob
from groupage.workflows.provider_batch import ProviderBatch
from groupage.workflows.sweep import Sweep

__all__ = ["BatchJob", "ProviderBatch", "Sweep"]
