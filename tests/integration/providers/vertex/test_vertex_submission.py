"""Find or create: Vertex keeps no token of ours, so a job is looked for by its name before each create."""

import json
import urllib.request
from datetime import UTC, datetime

import pytest
from groupage.activities.providers.base import Submission
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from job_world import CHAT
from provider_world import attempts_of
from temporalio.exceptions import ApplicationError
from vertex_world import GEMINI, ROOT

CALL = "batches.create"


def jobs_at(emulator):
    return emulator.state()["batches"]


def job_at(emulator, name):
    with urllib.request.urlopen(f"{emulator.base_url}/{name}", timeout=30) as reply:
        return json.loads(reply.read())


async def test_SU_01_a_worker_killed_after_create_adopts_the_job(world, emulator):
    ref = await world.planned()
    first = await world.submit(ref)
    store = world.store
    store.delete([key for key in store.list("default/") if "/intents/" in key or key.endswith("batch.json")])
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


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


@pytest.mark.parametrize(
    "fault",
    [{"action": "drop_after"}, {"action": "error_after", "status": 500}, {"action": "slow", "seconds": "30s"}],
    ids=["SU-02 reply lost", "SU-04 500 though accepted", "timeout"],
)
async def test_SU_02_an_ambiguous_create_is_looked_for_and_adopted(make_world, emulator, fault):
    world = make_world(provider={"create_timeout_s": 3.0})
    emulator.faults(calls=[{"call": CALL, "nth": [1], **fault}])
    ref = await world.planned()
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert submitted.adopted
    assert failures[0].type == "provider.transient"
    assert emulator.creates() == 1, "Google's client sent it once"
    assert len(jobs_at(emulator)) == 1


@pytest.mark.parametrize("action", ["drop_before", "html"])
async def test_SU_02_a_create_that_was_never_done_is_done_after_the_window(world, emulator, action):
    emulator.faults(calls=[{"call": CALL, "nth": [1], "action": action}])
    ref = await world.planned()
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert not submitted.adopted
    assert failures
    assert (emulator.creates(), len(jobs_at(emulator))) == (2, 1)


def _submission(world, ref, **more):
    path = world.folder / "none.jsonl"
    path.touch()
    return Submission(ref.tag, CHAT, GEMINI, path, 10, datetime.now(UTC), **more)


async def test_two_jobs_of_one_tag_are_both_seen_and_dead_ones_left_out(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    again = await world.adapter.create(_submission(world, ref), submitted.input_files)
    assert again.batch_id != submitted.batch_id
    both = await world.adapter.find(ref.tag, since=None, not_ids=[])
    assert "more jobs carry the tag" in both.warning
    one = await world.adapter.find(ref.tag, since=world.started_at, not_ids=[submitted.batch_id])
    assert (one.batch_id, one.tag, one.warning) == (again.batch_id, ref.tag, "")


async def test_shard_1_is_not_found_for_shard_10(world):
    ref = await world.planned()
    await world.submit(ref)
    assert ref.tag.endswith("-s0")
    assert await world.adapter.find(ref.tag[:-1], since=None, not_ids=[]) is None
    assert await world.adapter.find(f"{ref.tag}1", since=None, not_ids=[]) is None
    assert (await world.adapter.find(ref.tag, since=None, not_ids=[])).tag == ref.tag


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


async def test_a_job_that_no_listing_shows_yet_is_not_made_twice(world, emulator):
    emulator.faults(calls=[{"call": CALL, "nth": [1], "action": "lag", "seconds": "1h"}])
    ref = await world.planned()
    first = await world.submit(ref)
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


@pytest.mark.parametrize(
    ("status", "message", "kind", "final"),
    [
        (429, "Quota exceeded for concurrent batch prediction jobs", "quota", True),
        (429, "Too many requests a minute", "rate_limit", False),
        (401, None, "account", True),
        (403, "Permission aiplatform.batchPredictionJobs.create denied", "account", True),
        (400, "Billing account for project is not found", "account", True),
        (400, None, "invalid", True),
        (500, None, "transient", False),
        (503, None, "transient", False),
        (404, None, "transient", False),
    ],
)
async def test_errors_of_create_are_classed_by_us(world, emulator, gcs, status, message, kind, final):
    emulator.faults(calls=[{"call": CALL, "action": "error", "status": status, "message": message, "times": 1}])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == (f"provider.{kind}", final)
    assert emulator.creates() == 1
    # CL-06: what is refused for good leaves no input; what waits keeps it.
    assert bool(gcs.keys()) == (kind not in {"invalid", "account"})


async def test_QU_a_quota_of_jobs_is_waited_for_and_the_same_input_goes_again(world, emulator):
    fault = {"call": CALL, "action": "error", "status": 429, "message": "quota of concurrent batch jobs", "times": 1}
    emulator.faults(calls=[fault])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert failure.value.type == "provider.quota"
    assert (await world.submit(ref)).batch_id
    assert len(jobs_at(emulator)) == 1


async def test_a_server_that_is_not_there_was_sent_nothing(make_world, monkeypatch):
    monkeypatch.setenv("GROUPAGE_VERTEX_API_ENDPOINT", "http://127.0.0.1:9")
    world = make_world()
    ref = await world.planned()
    with pytest.raises(ProviderError) as error:
        await world.adapter.create(_submission(world, ref), ["gs://groupage/x"])
    assert not isinstance(error.value, AmbiguousCreate)
    assert (error.value.error_class.value, error.value.code) == ("transient", "not_connected")


async def test_SU_02_a_gateways_page_is_a_doubt(world, emulator):
    ref = await world.planned()
    emulator.faults(calls=[{"call": CALL, "action": "html"}])
    with pytest.raises(AmbiguousCreate):
        await world.adapter.create(_submission(world, ref), ["gs://groupage/x"])


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
