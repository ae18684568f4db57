"""collect_batch: result files are fetched whole, as often as it takes, stored as received, and read once."""

import asyncio
import threading
import time
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from data_world import NOW, bad, lines, ok
from groupage.activities.collecting import Limits, collect_batch
from groupage.schemas import BatchPhase, BatchStatus, ErrorClass, Outcome
from groupage.schemas.activity_calls import CollectBatch
from groupage.schemas.errors import ProviderError
from groupage.store import keys

OK = Outcome.succeeded
GONE = ProviderError("no such file", error_class=ErrorClass.missing, code="not_found", status=404)


async def test_files_are_stored_as_received_byte_for_byte(world):
    world.one_shard(2)
    output = lines([ok(world.wire(1)), b"  ", ok(world.wire(0), "\u2028 é")]) + b"\r\n"
    await world.collect((output,), [b"garbage"])
    assert world.received("output.jsonl.zst") == output
    assert world.received("errors.jsonl.zst") == b"garbage\n"


async def test_RP_04_a_file_cut_in_the_middle_of_a_line_is_downloaded_again(world):
    world.one_shard(10)
    whole = lines(ok(world.wire(n)) for n in range(10))
    report = await world.collect((whole[: int(len(whole) * 0.6)], whole))
    assert report.outcomes == {OK: 10}
    assert world.provider.downloads["file-out"] == 2
    assert report.quarantined == 0
    assert world.received("output.jsonl.zst") == whole


async def test_RP_05_missing_lines_are_downloaded_again(world):
    world.one_shard(10)
    rows = [ok(world.wire(n)) for n in range(10)]
    report = await world.collect((lines(rows[:7]), lines(rows)))
    assert report.outcomes == {OK: 10}
    assert world.provider.downloads["file-out"] == 2
    assert report.count_mismatch == ""


@pytest.mark.parametrize("phase", [BatchPhase.expired, BatchPhase.cancelled])
async def test_RP_05_an_output_cut_at_a_line_s_end_is_seen_beside_lines_of_requests_that_never_ran(world, phase):
    world.one_shard(10)
    rows = [ok(world.wire(n)) for n in range(5)]
    errors = lines(bad(world.wire(n), f"batch_{phase}") for n in range(5, 10))
    # The counts speak of fewer requests than both files have lines.
    told = {"total": 10, "completed": 5, "failed": 0}
    report = await world.collect((lines(rows[:3]), lines(rows)), (errors,), phase=phase, **told)
    assert report.outcomes == {OK: 5, Outcome(phase.value): 5}


async def test_RP_05_a_count_that_promises_more_is_believed_for_one_download_more(world):
    world.one_shard(10)
    rows = [ok(world.wire(n)) for n in range(10)]
    report = await world.collect((lines(rows[:7]), lines(rows[:7]), lines(rows)), completed=10, failed=0, total=10)
    assert report.outcomes == {OK: 10}


async def test_CO_01_CO_03_collecting_again_changes_nothing_and_costs_nothing(world):
    world.one_shard(3)
    first = await world.collect([ok(world.wire(n)) for n in range(3)])
    again = await world.collect([ok(world.wire(n), completion=10_000) for n in range(3)])
    assert again == first
    assert world.provider.downloads["file-out"] == 1


async def test_CO_03_a_crash_before_the_report_is_mended_by_doing_it_again(world):
    world.one_shard(3)
    first = await world.collect([ok(world.wire(n)) for n in range(3)])
    world.store.delete([keys.shard_object(world.job.tenant, world.job.key, 0, 0, "report.json")])
    assert await world.collect([ok(world.wire(n)) for n in range(3)]) == first


async def test_PO_01_a_result_file_that_is_not_found_yet_is_asked_for_again(world):
    world.one_shard(1)
    with pytest.raises(ProviderError) as raised:
        await world.collect((GONE,), ended_at=datetime.now(UTC))
    assert raised.value.error_class is ErrorClass.transient


async def test_a_result_file_that_was_replaced_is_fetched_under_its_new_name(world):
    world.one_shard(3)
    world.provider.files["file-new"] = [lines(ok(world.wire(n)) for n in range(3))]
    fields = {"batch_id": "batch_1", "phase": BatchPhase.completed, "raw_state": "completed"}
    world.provider.now = BatchStatus(**fields, output_files=["file-new"])
    report = await world.collect((GONE,), ended_at=datetime.now(UTC))
    assert report.outcomes == {OK: 3}
    kept = world.store.get_message(
        keys.shard_object(world.job.tenant, world.job.key, 0, 0, "replaced.json"), BatchStatus
    )
    assert kept.output_files == ["file-new"]


async def test_a_result_file_that_is_gone_for_good_leaves_its_requests_missing(world):
    world.one_shard(2)
    report = await world.collect(
        (GONE,), [bad(world.wire(0), "server_error")], ended_at=datetime.now(UTC) - timedelta(hours=1)
    )
    assert report.unanswered == {ErrorClass.transient: 1, ErrorClass.missing: 1}
    assert "file-out (output) is gone" in report.count_mismatch


async def test_TE_06_a_cancelled_collect_stops_in_moments_and_leaves_nothing(world):
    world.one_shard(20_000)
    wires = [world.wire(n) for n in range(20_000)]
    begun, read, read_line = threading.Event(), [0], world.provider.read_line

    def slowly(line, endpoint):
        read[0] += 1
        begun.set()
        time.sleep(0.001)
        return read_line(line, endpoint)

    world.provider.read_line = slowly
    task = asyncio.create_task(world.collect([ok(wire, "x" * 2000) for wire in wires]))
    assert await asyncio.to_thread(begun.wait, 90)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert read[0] < 10_000, "the others would take more than ten seconds"


async def test_MS_02_memory_does_not_grow_with_the_size_of_the_answers(world, tmp_path):
    count, size = 4_000, 16_000
    world.one_shard(count)
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        for n in range(count):
            file.write(ok(world.wire(n), "y" * size) + b"\n")

    async def download(_file, target):
        return await asyncio.to_thread(lambda: target.write_bytes(b"") or target.unlink() or target.hardlink_to(path))

    world.provider.download = download
    status = BatchStatus(
        batch_id="b", phase=BatchPhase.completed, raw_state="completed", output_files=["f"], ended_at=NOW
    )
    call = CollectBatch(shard=world.shard(), status=status, submitted_at=NOW)
    tracemalloc.start()
    try:
        report = await collect_batch(world.store, world.provider, call, Limits(world.spool))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.outcomes == {OK: count}
    assert path.stat().st_size > 60_000_000
    assert peak < 24_000_000
