"""The durable state machines: BatchJob and, for each of its shards, ProviderBatch."""

from groupage.workflows.batch_job import BatchJob
from groupage.workflows.provider_batch import ProviderBatch

__all__ = ["BatchJob", "ProviderBatch"]
