"""A shard's members as the file that a provider takes: one line a request, in index order."""

import threading
from pathlib import Path

from groupage.activities.providers.base import BatchProvider
from groupage.schemas import ShardPlan, ShardRef
from groupage.schemas.errors import StoreError
from groupage.schemas.ids import wire_id
from groupage.store.objects import Store
from groupage.store.segments import SegmentReader, read_manifest
from groupage.store.shards import read_members

WRITE_BYTES = 4 << 20


class Stopped(Exception):
    """The activity was cancelled while a thread rendered for it."""


def render_shard(
    store: Store, shard: ShardRef, plan: ShardPlan, provider: BatchProvider, path: Path, *, stop: threading.Event
) -> int:
    """Write the input file; returns its size. Holds one segment and one buffer in memory.

    The bytes are the same each time: ids, order and bodies come from the store alone, so that a file
    uploaded by an earlier attempt can be told by its size. Raises StoreError, Stopped.
    """
    job, tag, endpoint, render = shard.job, shard.tag, plan.endpoint, provider.render
    members = read_members(store, job.tenant, job.key, shard.round, shard.shard)
    reader = SegmentReader(store, read_manifest(store, job.tenant, job.key))
    size, count = 0, 0
    with path.open("wb", buffering=WRITE_BYTES) as file:
        for index, body in reader.bodies(members):
            size += file.write(render(wire_id(tag, index), endpoint, body))
            count += 1
            if not count & 0x3FF and stop.is_set():
                raise Stopped
    if count != plan.requests:
        raise StoreError(f"shard {tag} is damaged: {count} members, its plan says {plan.requests}")
    return size
