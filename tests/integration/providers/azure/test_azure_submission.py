"""Find or create at Azure: files that take their time, lost replies, quotas, and clean-up of our own."""

import asyncio

import pytest
from azure_world import CHAT, DEPLOYMENT, root_of
from groupage.activities.providers import azure
from groupage.activities.providers.base import ResultFile
from groupage.schemas.activity_calls import SubmitBatch
from groupage.store import keys
from openai import AsyncOpenAI
from provider_world import Emulator, attempts_of
from temporalio.exceptions import ApplicationError

CALL = "batches.create"


def batches_at(emulator):
    return emulator.state()["batches"]


def finish(world, job):
    world.store.put(keys.summary(job.tenant, job.key), b"{}")


def running(world, yes):
    async def is_running(tenant, key):
        return yes

    world.context.is_running = is_running


@pytest.fixture
def slow_files(tmp_path, monkeypatch):
    """A resource that takes a file in when its clock is moved on by an hour."""
    emulator = Emulator(tmp_path / "slow", "--file-processing", "1h")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", root_of(emulator))
    yield emulator
    emulator.close()


async def test_a_batch_is_made_of_a_file_only_once_that_is_processed(make_world, slow_files):
    world = make_world(emulator=slow_files)
    submission = asyncio.create_task(world.submit(await world.planned()))
    await slow_files.called("files.retrieve")
    assert slow_files.creates() == 0
    slow_files.advance_at_once("1h")
    assert (await submission).batch_id
    assert world.calls("files.retrieve") >= 2, "it was pending, then processed"
    assert slow_files.creates() == 1, "Azure refuses a batch of a file that is not"


async def test_without_the_wait_the_emulator_refuses(make_world, slow_files, monkeypatch):
    world = make_world(emulator=slow_files)

    async def settled_at_once(_self, file):
        return file

    monkeypatch.setattr(azure.AzureProvider, "_settled_file", settled_at_once)
    ref = await world.planned()
    with pytest.raises(ApplicationError, match="not processed yet"):
        await world.submit(ref)


async def test_PO_02_looks_at_a_file_that_fail_in_passing_do_not_matter(world, emulator):
    emulator.faults(
        calls=[
            {"call": "files.retrieve", "action": "error", "status": 503, "nth": [1]},
            {"call": "files.retrieve", "action": "drop_before", "nth": [2]},
            {"call": "files.retrieve", "action": "html", "nth": [3]},
        ]
    )
    assert (await world.submit(await world.planned())).batch_id
    assert (emulator.creates(), len(emulator.state()["files"])) == (1, 1)


async def test_a_file_that_takes_longer_than_an_attempt_is_found_by_the_next(make_world, slow_files, monkeypatch):
    emulator, world = slow_files, make_world(emulator=slow_files)
    ref = await world.planned()
    monkeypatch.setattr(azure, "FILE_READY_S", 0.05)
    with pytest.raises(ApplicationError) as waits:
        await world.submit(ref)
    assert (waits.value.type, waits.value.non_retryable) == ("provider.transient", False)
    assert (emulator.creates(), len(emulator.state()["files"])) == (0, 1)
    monkeypatch.setattr(azure, "FILE_READY_S", 600.0)
    emulator.advance_at_once("1h")
    assert (await world.submit(ref, attempt=2)).batch_id
    assert (emulator.creates(), len(emulator.state()["files"])) == (1, 1), "it was not uploaded again"


async def test_a_file_that_cannot_be_taken_in_is_deleted_and_sent_again(world, emulator, monkeypatch):
    ref = await world.planned()
    told = []
    real = azure.AzureProvider._call

    async def call(self, what, request):
        answer = await real(self, what, request)
        if what.startswith("status of file") and not told:
            told.append(answer["id"])
            return {**answer, "status": "error", "status_details": "storage is down"}
        return answer

    monkeypatch.setattr(azure.AzureProvider, "_call", call)
    with pytest.raises(ApplicationError, match="storage is down") as failure:
        await world.submit(ref)
    assert failure.value.type == "provider.transient"
    assert emulator.state()["files"] == []
    assert (await world.submit(ref, attempt=2)).input_files != told


async def test_SU_01_a_worker_killed_after_create_adopts_the_batch_through_each_door(any_door, emulator):
    world = any_door
    ref = await world.planned()
    first = await world.submit(ref)
    store = world.store
    store.delete([key for key in store.list("default/") if "/intents/" in key or key.endswith("batch.json")])
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert (emulator.creates(), len(emulator.state()["files"])) == (1, 1)


async def test_a_lost_reply_to_an_upload_makes_no_second_file(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "nth": [1], "action": "drop_after"}])
    await attempts_of(world.activities.submit_batch, SubmitBatch(shard=await world.planned()))
    assert len(emulator.state()["files"]) == 1


@pytest.mark.parametrize(("asked", "gets"), [(3600, 14), (20 * 86_400, 20), (90 * 86_400, 30), (0, None)])
async def test_the_expiry_of_files_is_moved_into_azures_bounds(make_world, emulator, monkeypatch, asked, gets):
    world = make_world(provider={"files_expire_after_s": asked})
    submitted = await world.submit(await world.planned())
    told = await world.file(submitted.input_files[0])
    days = None if told["expires_at"] is None else (told["expires_at"] - told["created_at"]) / 86_400
    assert days == gets


async def test_CL_01_a_full_resource_is_freed_of_our_own_stale_files_and_the_upload_goes_again(
    make_world, tmp_path, monkeypatch
):
    small = Emulator(tmp_path / "small", "--max-files", "3", "--file-processing", "10ms")
    try:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", root_of(small))
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "any")
        world = make_world(emulator=small)
        async with AsyncOpenAI(base_url=f"{root_of(small)}/openai/v1", api_key="any") as other:
            expires = {"anchor": "created_at", "seconds": 14 * 86_400}
            foreign = await other.files.create(file=("g.jsonl", b"{}\n"), purpose="batch", expires_after=expires)
        old = await world.planned()
        await world.submit(old)
        needed = await world.planned()
        kept = await world.submit(needed)
        running(world, yes=True)
        third = await world.planned()
        with pytest.raises(ApplicationError, match="quota for files with expiry is reached") as full:
            await world.submit(third)
        assert full.value.type == "provider.quota", "nothing of ours is stale: it is waited for"
        finish(world, old.job)
        done = await world.submit(third, attempt=2)
        left = {file["id"] for file in small.state()["files"]}
        assert left == {foreign.id, *kept.input_files, *done.input_files}, "others' files and running jobs' stay"
    finally:
        small.close()


async def test_the_deployment_is_the_model_of_each_line(world, emulator):
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    path = world.folder / "input"
    await world.adapter.download(ResultFile("output", submitted.input_files[0]), path)
    lines = path.read_bytes().split(b"\n")[:-1]
    assert len(lines) == 3
    assert all(f'"model":"{DEPLOYMENT}"'.encode() in line and f'"url":"{CHAT}"'.encode() in line for line in lines)
    assert not path.read_bytes().startswith(b"\xef\xbb\xbf"), "Azure refuses a byte order mark"
