"""Find or create: Vertex keeps no token of ours, so a job is looked for by its name before each create."""

import json
import urllib.request

import pytest
from groupage.schemas.errors import ProviderError
from temporalio.exceptions import ApplicationError
from vertex_world import ROOT

CALL = "batches.create"


def jobs_at(emulator):
    return emulator.state()["batches"]


def job_at(emulator, name):
    with urllib.request.urlopen(f"{emulator.base_url}/{name}", timeout=30) as reply:
        return json.loads(reply.read())


async def test_SU_01_a_worker_killed_between_upload_and_create_uses_the_object_that_is_there(world, emulator, gcs):
    ref = await world.planned()
    emulator.faults(calls=[{"call": CALL, "action": "error", "status": 429, "times": 1}])
    with pytest.raises(ApplicationError):
        await world.submit(ref)
    key = gcs.keys()[0]
    content = gcs.read(key)
    # Told apart from what another upload would write, and of the same size.
    gcs.delete(key)
    gcs.put(key, content.replace(b"question number 3", b"question NUMBER 3"))
    submitted = await world.restarted().submit(ref)
    assert submitted.input_files == [f"gs://groupage/{ROOT}{ref.tag}/input.jsonl"]
    assert b"question NUMBER 3" in gcs.read(key)
    assert len(jobs_at(emulator)) == 1


async def test_the_listing_is_filtered_by_the_server_and_read_to_its_end(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.vertex.PAGE", 2)
    refs = [await world.planned() for _ in range(5)]
    for ref in refs:
        await world.submit(ref)
    listed = [one async for one in world.adapter.list_ours(refs[0].tag[1:7]) if one.kind == "batch"]
    assert {one.tag for one in listed} == {ref.tag for ref in refs}
    calls = emulator.state()["calls"]["batches.list"]
    assert (await world.adapter.find(refs[0].tag, since=None, not_ids=[])).tag == refs[0].tag
    assert emulator.state()["calls"]["batches.list"] == calls + 1, "one page: the server left the others out"


async def test_what_is_missing_in_the_settings_is_told_with_the_variable_that_sets_it(make_world, monkeypatch):
    world = make_world()
    ref = await world.planned()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(world.folder / "none.json"))
    for name, said in (
        ("GROUPAGE_VERTEX_DATA", "GROUPAGE_VERTEX_DATA"),
        ("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_LOCATION"),
        ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT"),
        # No emulator any more: now credentials are needed.
        ("GROUPAGE_VERTEX_API_ENDPOINT", "none.json"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(name)
            if name == "GROUPAGE_VERTEX_API_ENDPOINT":
                patch.setenv("GROUPAGE_VERTEX_DATA", "gs://groupage/groupage")
            world.restarted()
            with pytest.raises(ApplicationError, match=said) as failure:
                await world.submit(ref)
            assert (failure.value.type, failure.value.non_retryable) == ("provider.account", True)


async def test_jobs_are_named_and_labelled_by_the_tag_and_say_where_their_data_lie(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    job = job_at(emulator, submitted.batch_id)
    assert (job["displayName"], job["labels"]) == (ref.tag, {"groupage_tag": ref.tag})
    assert job["model"] == "publishers/google/models/gemini-2.5-flash"
    assert job["inputConfig"] == {
        "instancesFormat": "jsonl",
        "gcsSource": {"uris": [f"gs://groupage/groupage/{ref.tag}/input.jsonl"]},
    }
    assert job["outputConfig"] == {
        "predictionsFormat": "jsonl",
        "gcsDestination": {"outputUriPrefix": f"gs://groupage/groupage/{ref.tag}/output/"},
    }


async def test_QU_06_a_bucket_that_does_not_exist_is_a_setting_and_asks(make_world, emulator, monkeypatch):
    monkeypatch.setenv("GROUPAGE_VERTEX_DATA", "gs://mistyped/groupage")
    world = make_world()
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == ("provider.account", True)
    assert "there is no bucket mistyped (GROUPAGE_VERTEX_DATA" in failure.value.message
    assert emulator.creates() == 0
    with pytest.raises(ProviderError, match="there is no bucket mistyped") as listing:
        _ = [one async for one in world.adapter.list_ours(ref.tag[1:7])]
    assert listing.value.error_class == "account"
