"""What a worker holds in memory does not grow with the number of shards that run at once."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
from data_world import NOW, World, lines, never, ok
from groupage.activities.collecting import Limits, collect_batch
from groupage.activities.rendering import render_shard
from groupage.schemas import BatchPhase, BatchStatus
from groupage.schemas.activity_calls import CollectBatch
from groupage.store.segments import SegmentReader, read_manifest
from groupage.store.shards import read_shard_plan


async def test_only_so_many_shards_are_read_at_once_as_the_gate_allows(world: World) -> None:
    world.requests(60)
    shards = world.plan(max_shard_requests=5).batch_shards
    inside, most, lock = set(), [0], threading.Lock()
    read_line = world.provider.read_line

    def watched(line: bytes, endpoint: str):
        with lock:
            inside.add(threading.get_ident())
            most[0] = max(most[0], len(inside))
        # Longer than it takes to start another thread: without the gate they would meet here.
        threading.Event().wait(0.01)
        answer = read_line(line, endpoint)
        if line.rstrip().endswith(b'"last":true}'):
            with lock:
                inside.discard(threading.get_ident())
        return answer

    world.provider.read_line = watched  # type: ignore[method-assign]
    limits = Limits(world.spool, timedelta(minutes=15), pause_s=0.0, heavy=asyncio.Semaphore(2))

    async def collect(shard: int) -> int:
        rows = [ok(world.wire(5 * shard + n, shard=shard)) for n in range(5)]
        rows[-1] = rows[-1][:-1] + b',"last":true}'
        name = f"file-{shard}"
        world.provider.files[name] = [lines(rows)]
        status = BatchStatus(
            batch_id=f"b{shard}",
            phase=BatchPhase.completed,
            raw_state="completed",
            ended_at=NOW,
            output_files=[name],
        )
        call = CollectBatch(shard=world.shard(0, shard), status=status, submitted_at=NOW - timedelta(hours=1))
        report = await collect_batch(world.store, world.provider, call, limits)  # type: ignore[arg-type]
        return report.answered

    assert shards == 12
    assert await asyncio.gather(*(collect(shard) for shard in range(shards))) == [5] * shards
    assert most == [2]


def test_bodies_alone_are_the_bodies_of_the_requests(world: World) -> None:
    world.requests(50)
    reader = SegmentReader(world.store, read_manifest(world.store, world.job.tenant, world.job.key))
    chosen = np.array([0, 3, 17, 49], dtype=np.uint32)
    assert list(reader.bodies(chosen)) == [(r.index, r.body) for r in reader.requests(chosen)]
    assert [index for index, _ in reader.bodies(chosen)] == chosen.tolist()


def test_a_shard_is_rendered_in_index_order_with_its_own_ids(world: World, tmp_path: Path) -> None:
    world.requests(7)
    world.plan()
    plan = read_shard_plan(world.store, world.job.tenant, world.job.key, 0, 0)
    path = tmp_path / "rendered"
    size = render_shard(world.store, world.shard(), plan, world.provider, path, stop=never())  # type: ignore[arg-type]
    rows = path.read_bytes().split(b"\n")
    assert size == path.stat().st_size
    assert [row.split(b'"')[3].decode() for row in rows[:-1]] == [world.wire(n) for n in range(7)]
    assert all(f"say {n}".encode() in row for n, row in enumerate(rows[:-1]))
