"""A job's whole way: Cloud Storage in, job, Cloud Storage out, rows joined by what they repeat, nothing left behind."""

import orjson
import pytest
from groupage.schemas import BatchPhase, Outcome
from groupage.schemas.activity_calls import CancelBatch
from groupage.schemas.ids import wire_id
from provider_world import attempt_of, attempts_of
from temporalio.exceptions import ApplicationError
from vertex_world import CLAUDE, GEMINI, ROOT


@pytest.mark.parametrize("model", [GEMINI, CLAUDE], ids=["gemini", "claude"])
async def test_what_is_sent_carries_our_ids_and_the_job_itself_is_deleted(world, emulator, gcs, model):
    ref = await world.planned(5, model)
    submitted = await world.submit(ref)
    assert submitted.batch_id.startswith("projects/")
    assert "/locations/us-central1/batchPredictionJobs/" in submitted.batch_id
    assert gcs.keys() == [f"{ROOT}{ref.tag}/input.jsonl"]
    first = orjson.loads(gcs.read(gcs.keys()[0]).split(b"\n")[0])
    assert "model" not in first["request"]
    if model == GEMINI:
        assert first["request"]["labels"] == {"groupage_id": wire_id(ref.tag, 0)}
    else:
        assert (first["custom_id"], first["request"]["anthropic_version"]) == (wire_id(ref.tag, 0), "vertex-2023-10-16")
        assert "labels" not in first["request"]
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.tag == ref.tag
    await world.clean_up(ref, submitted, status)
    assert await world.ours(ref.tag[1:7]) == [], "the job itself is gone too"


async def test_native_bodies_of_both_kinds_go_as_they_are_and_keep_their_labels(world, emulator, gcs):
    gemini = {
        "model": GEMINI,
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 100}},
        "labels": {"team": "search"},
    }
    claude = {
        "model": CLAUDE,
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "hi"}],
    }
    await world.prepare(
        [{"id": f"g{n}", "url": "/generateContent", "body": gemini} for n in range(3)]
        + [{"id": f"c{n}", "url": "/rawPredict", "body": claude} for n in range(3)]
    )
    assert (await world.plan()).batch_shards == 2
    for shard in (0, 1):
        ref = world.ref(0, shard)
        submitted = await world.submit(ref)
        sent = orjson.loads(gcs.read(gcs.keys()[0]).split(b"\n")[0])
        if shard == 0:
            assert sent["request"]["labels"] == {"team": "search", "groupage_id": wire_id(ref.tag, 0)}
            assert sent["request"]["generationConfig"] == gemini["generationConfig"]
        emulator.finish()
        status = await world.ended(ref, submitted)
        assert (await world.collect(ref, status, submitted)).outcomes == {Outcome.succeeded: 3}
        await world.clean_up(ref, submitted, status)
    await world.finalize(1)
    rows = world.results()
    assert rows[0]["body"]["candidates"][0]["content"]["role"] == "model"
    assert rows[3]["body"]["type"] == "message"


async def test_CO_06_thoughts_are_paid_as_output_and_cached_tokens_are_part_of_the_input(world, emulator):
    body = {
        "model": GEMINI,
        "contents": [{"role": "user", "parts": [{"text": "hello " * 100}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 100}},
        "cachedContent": "projects/1/locations/us-central1/cachedContents/1",
    }
    await world.prepare([{"id": "one", "url": "/generateContent", "body": body}])
    await world.plan()
    await world.run_batch()
    await world.finalize(1)
    row = world.results()[0]
    told = row["body"]["usageMetadata"]
    assert told["thoughtsTokenCount"] > 0
    assert row["usage"]["output_tokens"] == told["candidatesTokenCount"] + told["thoughtsTokenCount"]
    assert row["usage"]["reasoning_tokens"] == told["thoughtsTokenCount"]
    assert row["usage"]["input_tokens"] == told["promptTokenCount"]
    assert row["usage"]["cached_tokens"] == told["cachedContentTokenCount"] > 0


async def test_the_input_is_uploaded_once_under_one_name(world, emulator, gcs):
    ref = await world.planned()
    await world.submit(ref)
    key = gcs.keys()[0]
    before = gcs.read(key)
    swapped = bytes(reversed(before))
    for look in ({"look_since": world.started_at}, {}):
        # The same size: ours, and whole. Found by looking, or by the condition on the upload.
        files = await world.adapter.upload(world.submission(ref, swapped, **look))
        assert files == [f"gs://groupage/{key}"]
        assert gcs.read(key) == before
    # Another size: another rendering, which is replaced as it was seen.
    for look in ({"look_since": world.started_at}, {}):
        await world.adapter.upload(world.submission(ref, b"{}" * (2 + len(look)), **look))
        assert gcs.read(key) == b"{}" * (2 + len(look))


async def test_large_inputs_go_and_come_back_in_pieces(world, gcs, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.vertex_gcs.PIECE_BYTES", 1 << 18)
    ref = await world.planned()
    content = bytes(range(256)) * 4099
    (file,) = await world.adapter.upload(world.submission(ref, content))
    assert gcs.read(gcs.keys()[0]) == content
    (found,) = world.adapter.result_files(world_status(file))
    target = world.folder / "back"
    assert await world.adapter.download(found, target) == len(content)
    assert target.read_bytes() == content


def world_status(file):
    from groupage.schemas import BatchStatus

    return BatchStatus(batch_id="b", phase=BatchPhase.completed, raw_state="x", output_files=[file])


DENIED = {
    "action": "error",
    "status": 403,
    "code": "PERMISSION_DENIED",
    "message": "Permission 'aiplatform.batchPredictionJobs.get' denied on resource '//x/y' (or it may not exist).",
}


async def test_promise_8_a_job_that_may_not_be_deleted_is_named(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    emulator.faults(calls=[{"call": "batches.retrieve", **DENIED}])
    cleaned = await world.clean_up(ref, submitted, status)
    assert [name.partition(":")[0] for name in cleaned.left_behind] == [submitted.batch_id]
    assert "Permission 'aiplatform" in cleaned.left_behind[0]


async def test_promise_2_a_job_that_may_not_be_looked_at_is_cancelled_all_the_same(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.retrieve", **DENIED}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    assert failure.value.type == "provider.account"
    assert emulator.state()["calls"]["batches.cancel"] == 1


async def test_promise_2_a_job_that_may_not_be_looked_at_is_not_gone(make_world, emulator):
    world = make_world(not_visible_s=0.1)
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.faults(calls=[{"call": "batches.retrieve", "times": 4, **DENIED}])
    emulator.finish()
    status, failures = await attempts_of(
        world.activities.await_batch, world.awaiting(ref, submitted.batch_id), sleep=False
    )
    assert status.phase is BatchPhase.completed
    assert {failure.type for failure in failures} == {"provider.account"}
