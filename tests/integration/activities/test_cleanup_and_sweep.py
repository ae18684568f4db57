"""Nothing is left behind, and what nobody needs is found by its tag."""

import pytest
from groupage.activities.data import DataActivities
from groupage.schemas import JobState, Summary
from groupage.schemas.activity_calls import CleanUpBatch, CollectBatch, SubmitBatch, SweepOrphans
from groupage.store import keys
from groupage.store.late import read_late
from provider_world import ENDPOINT, Emulator, attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError


async def ended_shard(world, emulator):
    """(shard, batch id, all its files)."""
    emulator.faults(requests=[{"kind": "http", "status": 500, "lines": [2]}])
    shard = world.shard()
    done = await world.submit(shard)
    emulator.finish()
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, done.batch_id))
    return shard, done.batch_id, [*done.input_files, *status.output_files, *status.error_files]


def finish(world, shard):
    summary = Summary(
        tenant="tests", key=shard.job.key, fingerprint="f", state=JobState.completed, provider="openai",
        requests=10, outcomes={},
    )  # fmt: skip
    world.store.put_message(keys.summary("tests", shard.job.key), summary)


def running(world, *, yes):
    async def is_running(tenant, key):
        return yes

    world.context.is_running = is_running


async def sweep(world, **fields):
    request = SweepOrphans(provider="openai", grace_s=0, **fields)
    return await attempt_of(world.activities.sweep_orphans, request)


async def test_input_output_and_error_files_are_deleted(world, emulator):
    shard, batch_id, files = await ended_shard(world, emulator)
    assert len(files) == 3
    request = CleanUpBatch(shard=shard, batch_id=batch_id, files=files)
    done = await attempt_of(world.activities.clean_up_batch, request)
    assert (done.deleted, done.left_behind) == (3, [])
    assert emulator.state()["files"] == []
    assert (await attempt_of(world.activities.clean_up_batch, request)).left_behind == [], "twice is no error"


async def test_CL_04_one_delete_that_fails_stops_no_other_and_is_reported_in_the_end(make_world, emulator):
    world = make_world(delete_attempts=1)
    shard, batch_id, files = await ended_shard(world, emulator)
    emulator.faults(calls=[{"call": "files.delete", "action": "error", "status": 500, "nth": [2, 4, 5, 6]}])
    request = CleanUpBatch(shard=shard, batch_id=batch_id, files=files)
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.clean_up_batch, request)
    assert benign(failure.value)
    assert [file["id"] for file in emulator.state()["files"]] == [files[1]]

    # The last attempt says what is left instead of failing: the job is a success all the same.
    emulator.faults(calls=[{"call": "files.delete", "action": "error", "status": 500}])
    done = await attempt_of(world.activities.clean_up_batch, request, attempt=3)
    assert len(done.left_behind) == 3
    assert any(entry.startswith(files[1]) for entry in done.left_behind)


async def test_CL_04_a_delete_that_fails_once_is_tried_again(world, emulator):
    shard, batch_id, files = await ended_shard(world, emulator)
    emulator.faults(calls=[{"call": "files.delete", "action": "error", "status": 500, "nth": [1, 3]}])
    request = CleanUpBatch(shard=shard, batch_id=batch_id, files=files)
    assert (await attempt_of(world.activities.clean_up_batch, request)).left_behind == []
    assert emulator.state()["files"] == []


async def test_files_that_a_batch_named_only_later_are_deleted_too(world, emulator):
    shard, batch_id, files = await ended_shard(world, emulator)
    status = await world.adapter.status(batch_id)
    stale = status.model_copy(update={"output_files": ["file-stale"], "error_files": []})
    call = CollectBatch(shard=shard, status=stale, submitted_at=status.created_at)
    report = await attempt_of(DataActivities(world.context).collect_batch, call)
    assert (report.answered, report.requests) == (9, 10)
    request = CleanUpBatch(shard=shard, batch_id=batch_id, files=[*status.input_files, "file-stale"])
    assert (await attempt_of(world.activities.clean_up_batch, request)).left_behind == []
    assert len(files) > 1
    assert emulator.state()["files"] == []


async def test_a_late_second_batch_is_cancelled_at_clean_up(world, emulator):
    """A create that was proven absent and came to be all the same: the hole that no window closes."""
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_before", "times": 1}])
    shard = world.shard()
    done, _ = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=shard))
    sdk = await world.adapter._sdk()
    late = await sdk.batches.create(
        endpoint=ENDPOINT, input_file_id=done.input_files[0], completion_window="24h",
        metadata={"groupage_tag": shard.tag},
    )  # fmt: skip
    emulator.advance("5m")
    # As if the shard's own batch had ended now: the job is told before it is merged.
    status = await world.adapter.status(done.batch_id)
    call = CollectBatch(shard=shard, status=status, submitted_at=done.submitted_at)
    report = await attempt_of(DataActivities(world.context).collect_batch, call)
    assert report.maybe_paid_twice == 10
    assert f"batch {late.id}" in report.count_mismatch
    assert done.batch_id not in report.count_mismatch
    request = CleanUpBatch(shard=shard, batch_id=done.batch_id, files=done.input_files)
    with pytest.raises(ApplicationError) as waits:
        await attempt_of(world.activities.clean_up_batch, request)
    assert benign(waits.value)
    states = {batch["id"]: batch["status"] for batch in emulator.state()["batches"]}
    assert states[late.id] in {"cancelling", "cancelled"}
    assert states[done.batch_id] not in {"cancelling", "cancelled"}
    # What it had answered by then is waste, known once it has ended; then its files go.
    emulator.advance("1h")
    emulator.faults(calls=[{"call": "files.delete", "action": "error", "status": 500}])
    left, _ = await attempts_of(world.activities.clean_up_batch, request, sleep=False)
    emulator.faults()
    assert left.left_behind
    cleaned, _ = await attempts_of(world.activities.clean_up_batch, request)
    assert cleaned.left_behind == []
    (told,) = read_late(world.store, shard.job.tenant, shard.job.key)
    assert (told.batch_id, told.duplicate, told.requests) == (late.id, True, 10)
    assert 0 < told.answered < 10
    assert told.waste_usd > 0
    assert [file["id"] for file in emulator.state()["files"]] == [
        ref
        for batch in emulator.state()["batches"]
        if batch["id"] == done.batch_id
        for ref in result_files(emulator, batch)
    ]


def result_files(emulator, batch):
    """Of a batch that nobody cleans up in this test."""
    return [file["id"] for file in emulator.state()["files"] if file["filename"].startswith(batch["id"])]


async def test_a_batch_that_was_refused_for_its_quota_is_no_second_one(world, emulator):
    emulator.faults(batches=[{"effect": "token_limit", "nth": [1]}])
    shard = world.shard()
    refused = await world.submit(shard)
    emulator.advance_at_once("1h")
    done = await world.submit(shard, not_ids=[refused.batch_id])
    emulator.finish()
    request = CleanUpBatch(shard=shard, batch_id=done.batch_id, files=done.input_files)
    await attempts_of(world.activities.clean_up_batch, request)
    assert read_late(world.store, shard.job.tenant, shard.job.key) == []


async def test_CL_01_a_full_account_is_freed_of_files_of_finished_jobs(make_world, tmp_path):
    emulator = Emulator(tmp_path / "small", "--max-files", "2")
    try:
        world = make_world(emulator=emulator)
        old, needed = world.shard(), world.shard()
        await world.submit(old)
        kept = await world.submit(needed)
        running(world, yes=True)
        third = world.shard()
        with pytest.raises(ApplicationError) as full:
            await world.submit(third)
        assert full.value.type == "provider.quota"
        finish(world, old)
        done = await world.submit(third, attempt=2)
        assert {file["id"] for file in emulator.state()["files"]} == {*kept.input_files, *done.input_files}
    finally:
        emulator.close()


async def test_the_sweep_ends_what_a_finished_job_left(world, emulator):
    shard = world.shard()
    done = await world.submit(shard)
    finish(world, shard)
    told = await sweep(world, dry_run=True)
    assert [entry.split(" ")[0] for entry in told.cancelled] == [done.batch_id]
    assert [entry.split(" ")[0] for entry in told.deleted_files] == done.input_files
    assert told.deleted_files[0].endswith(": its job is finished")
    assert emulator.state()["batches_live"] == 1, "a dry run does nothing"

    swept = await sweep(world)
    assert (swept.batches, swept.files, swept.deleted) == (1, 1, 1)
    assert swept.deleted_files == told.deleted_files
    assert emulator.state()["batches"][0]["status"] in {"cancelling", "cancelled"}
    assert emulator.state()["files"] == []
    assert (await sweep(world)).deleted == 0


async def test_the_sweep_leaves_a_running_job_alone_but_for_doubles(world, emulator):
    shard = world.shard()
    done = await world.submit(shard)
    sdk = await world.adapter._sdk()
    double = await sdk.batches.create(
        endpoint=ENDPOINT, input_file_id=done.input_files[0], completion_window="24h",
        metadata={"groupage_tag": shard.tag},
    )  # fmt: skip
    running(world, yes=True)
    swept = await sweep(world)
    assert [entry.split(" ")[0] for entry in swept.cancelled] == [double.id]
    assert swept.deleted == 0


async def test_the_sweep_tells_of_stranded_batches_and_keeps_them(world, emulator):
    done = await world.submit(world.shard())
    running(world, yes=False)
    swept = await sweep(world)
    assert [entry.split(" ")[0] for entry in swept.stranded] == [done.batch_id]
    assert (swept.cancelled, swept.deleted) == ([], 0)
    assert emulator.state()["batches_live"] == 1


async def test_the_sweep_sees_neither_strangers_nor_other_deployments(world, make_world, emulator):
    other = make_world()
    await other.submit(other.shard())
    sdk = await world.adapter._sdk()
    file = await sdk.files.create(file=("theirs.jsonl", b"{}\n"), purpose="batch")
    await sdk.batches.create(endpoint=ENDPOINT, input_file_id=file.id, completion_window="24h")
    swept = await sweep(world)
    assert (swept.batches, swept.files, swept.cancelled, swept.deleted) == (0, 0, [], 0)


async def test_result_files_of_our_batches_are_ours_though_their_names_are_not(world, emulator):
    shard, _, files = await ended_shard(world, emulator)
    owner = await world.context.owner()
    listed = [remote async for remote in world.adapter.list_ours(owner)]
    assert {remote.id for remote in listed if remote.kind == "file"} == set(files)
    assert {remote.tag for remote in listed} == {shard.tag}
