"""A job's whole way: Cloud Storage in, job, Cloud Storage out, rows joined by what they repeat, nothing left behind."""

import asyncio
from datetime import UTC, datetime

import orjson
import pytest
from groupage.activities.providers.base import Submission
from groupage.activities.providers.vertex import _as_proto
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, Outcome
from groupage.schemas.activity_calls import SweepOrphans
from groupage.schemas.ids import wire_id
from job_world import CHAT
from provider_world import attempt_of
from vertex_world import CLAUDE, GEMINI, ROOT, body_of


@pytest.mark.parametrize("model", [GEMINI, CLAUDE], ids=["gemini", "claude"])
async def test_a_portable_job_is_answered_and_leaves_nothing_in_the_bucket(world, emulator, gcs, model):
    ref = await world.planned(30, model)
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
    assert (status.phase, status.raw_state, status.tag) == (BatchPhase.completed, "JOB_STATE_SUCCEEDED", ref.tag)
    assert (status.total, status.completed, status.failed) == (30, 30, 0)
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 30}
    assert (report.count_mismatch, report.quarantined) == ("", 0)
    cleaned = await world.clean_up(ref, submitted, status)
    assert cleaned.left_behind == []
    assert gcs.keys() == []
    assert [one async for one in world.adapter.list_ours(ref.tag[1:7])] == [], "the job itself is gone too"
    await world.finalize(1)
    for n, row in enumerate(world.results()):
        assert (row["id"], row["outcome"]) == (f"id {n}", "succeeded")
        assert row["text"] == expected_text(CHAT, body_of(n, model))
        assert row["usage"]["input_tokens"] > 0


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


def submission(world, ref, content, *, look=False, model=GEMINI, **more):
    path = world.folder / "again.jsonl"
    path.write_bytes(content)
    at = datetime.now(UTC)
    return Submission(ref.tag, CHAT, model, path, 10, at, at if look else None, **more)


async def test_the_input_is_uploaded_once_under_one_name(world, emulator, gcs):
    ref = await world.planned()
    await world.submit(ref)
    key = gcs.keys()[0]
    before = gcs.read(key)
    swapped = bytes(reversed(before))
    for look in (True, False):
        # The same size: ours, and whole. Found by looking, or by the condition on the upload.
        files = await world.adapter.upload(submission(world, ref, swapped, look=look))
        assert files == [f"gs://groupage/{key}"]
        assert gcs.read(key) == before
    # Another size: another rendering, which is replaced as it was seen.
    for look in (True, False):
        await world.adapter.upload(submission(world, ref, b"{}" * (2 + look), look=look))
        assert gcs.read(key) == b"{}" * (2 + look)


async def test_large_inputs_go_and_come_back_in_pieces(world, gcs, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.vertex_gcs.PIECE_BYTES", 1 << 18)
    ref = await world.planned()
    content = bytes(range(256)) * 4099
    (file,) = await world.adapter.upload(submission(world, ref, content))
    assert gcs.read(gcs.keys()[0]) == content
    (found,) = world.adapter.result_files(world_status(file))
    target = world.folder / "back"
    assert await world.adapter.download(found, target) == len(content)
    assert target.read_bytes() == content


def world_status(file):
    from groupage.schemas import BatchStatus

    return BatchStatus(batch_id="b", phase=BatchPhase.completed, raw_state="x", output_files=[file])


async def test_what_is_ours_is_listed_jobs_and_objects(world, emulator, gcs):
    ref = await world.planned()
    submitted = await world.submit(ref)
    gcs.put(f"{ROOT}not-a-tag/input.jsonl", b"")
    owner = ref.tag[1:7]
    live = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.tag, one.ended) for one in live] == [("batch", ref.tag, False), ("file", ref.tag, False)]
    emulator.finish()
    await world.ended(ref, submitted)
    ended = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.ended) for one in ended] == [("batch", True)] + [("file", True)] * 2
    assert [one async for one in world.adapter.list_ours("zzzzzz")] == []


async def test_the_sweep_ends_what_belongs_to_no_job_and_touches_nothing_else(world, emulator, gcs):
    ref = await world.planned()
    await world.submit(ref)
    gcs.put("groupage/somebody-elses.jsonl", b"")
    foreign = {"displayName": "somebody else's", "model": "publishers/google/models/gemini-2.5-flash"}
    client, parent = world.adapter._clients.jobs(), world.adapter._clients.parent
    job = (await world.adapter._job((await world.adapter.find(ref.tag, since=None, not_ids=[])).batch_id)) | foreign
    made = {name: job[name] for name in ("displayName", "model", "inputConfig", "outputConfig")}
    client.create_batch_prediction_job(parent=parent, batch_prediction_job=_as_proto(made))
    world.store.delete([key for key in world.store.list("") if "deployment" not in key])
    request = SweepOrphans(provider="vertex", grace_s=0, delete_files=True)
    first = await attempt_of(world.activities.sweep_orphans, request)
    assert (first.batches, first.files, len(first.cancelled), first.failed) == (1, 1, 1, [])
    emulator.finish()
    assert [batch["status"] for batch in emulator.state()["batches"]] == ["cancelled", "completed"]
    second = await attempt_of(world.activities.sweep_orphans, request)
    assert (second.cancelled, second.failed) == ([], [])
    assert gcs.keys() == ["groupage/somebody-elses.jsonl"]


async def test_CL_outputs_of_a_live_job_are_not_touched_and_what_is_gone_is_fine(world, gcs):
    ref = await world.planned()
    submitted = await world.submit(ref)
    await world.adapter.delete("batch", submitted.batch_id)
    await world.adapter.delete("batch", f"{submitted.batch_id}0")
    await world.adapter.delete("file", "gs://groupage/groupage/nothing/here")
    assert len(gcs.keys()) == 1
    assert (await world.adapter.status(submitted.batch_id)).phase is not BatchPhase.unknown


async def test_clean_up_finds_outputs_that_no_status_named(world, emulator, gcs):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    folder = status.output_files[0].removeprefix("gs://groupage/").rpartition("/")[0]
    gcs.put(f"{folder}/errors_0001.jsonl", b"")
    await world.clean_up(ref, submitted, status)
    assert gcs.keys() == []


async def test_a_cancelled_upload_ends_in_seconds_and_leaves_no_object(world, gcs):
    path = world.folder / "big.jsonl"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    ref = await world.planned()
    task = asyncio.create_task(world.adapter.upload(Submission(ref.tag, CHAT, GEMINI, path, 1, datetime.now(UTC))))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert gcs.keys() == []
