"""The data plane: requests, results and the ledger in an object store. Synchronous; call it in threads."""

from groupage.store.deployment import deployment_owner
from groupage.store.intake import SpooledInput, accept_job, default_key, missing_objects, spool_requests
from groupage.store.merge import Merged, NoResult, merge_job
from groupage.store.objects import ObjectMissing, Store, open_store, stream_url
from groupage.store.reader import JobResults, claim_results, is_claimed, parse_result, read_summary
from groupage.store.results import ResultLine
from groupage.store.segments import SegmentReader, StoredRequest, read_manifest, read_manifest_or_none
from groupage.store.shard_results import (
    ShardResults,
    ShardResultWriter,
    Tally,
    read_shard_results,
    read_shard_rows,
)
from groupage.store.shards import read_members, read_round_plan, read_shard_plan, write_round_plan, write_shard
from groupage.store.sync_parts import SyncPartWriter, compact, read_flushed

__all__ = [
    "JobResults",
    "Merged",
    "NoResult",
    "ObjectMissing",
    "ResultLine",
    "SegmentReader",
    "ShardResultWriter",
    "ShardResults",
    "SpooledInput",
    "Store",
    "StoredRequest",
    "SyncPartWriter",
    "Tally",
    "accept_job",
    "claim_results",
    "compact",
    "default_key",
    "deployment_owner",
    "is_claimed",
    "merge_job",
    "missing_objects",
    "open_store",
    "parse_result",
    "read_flushed",
    "read_manifest",
    "read_manifest_or_none",
    "read_members",
    "read_round_plan",
    "read_shard_plan",
    "read_shard_results",
    "read_shard_rows",
    "read_summary",
    "spool_requests",
    "stream_url",
    "write_round_plan",
    "write_shard",
]
