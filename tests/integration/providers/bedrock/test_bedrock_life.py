"""A job's whole way: S3 in, job, S3 out, results joined by record id, nothing left in the bucket."""

import boto3
import orjson
import pytest
from bedrock_world import CHAT, CLAUDE, LLAMA, NOVA, body_of, objects, read_object
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.ids import wire_id


@pytest.mark.parametrize(
    ("model", "kind"),
    [(CLAUDE, "InvokeModel"), (NOVA, "InvokeModel"), (LLAMA, "Converse")],
    ids=["claude", "nova", "llama"],
)
async def test_what_is_sent_is_named_by_the_tag_and_the_manifest_is_kept(world, model, kind):
    ref = await world.planned(5, model)
    submitted = await world.submit(ref)
    assert submitted.batch_id.startswith("arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/")
    assert objects() == [f"groupage/{ref.tag}/input.jsonl"]
    first = orjson.loads(read_object(objects()[0]).split(b"\n")[0])
    assert first["recordId"] == wire_id(ref.tag, 0)
    assert "model" not in first["modelInput"]
    job = boto3.client("bedrock").get_model_invocation_job(jobIdentifier=submitted.batch_id)
    assert (job["jobName"], job["clientRequestToken"], job["modelInvocationType"]) == (ref.tag, ref.tag, kind)
    assert (job["modelId"], job["timeoutDurationInHours"]) == (model, 24)
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert [uri.rpartition("/")[2] for uri in status.output_files] == ["input.jsonl.out", "manifest.json.out"]
    await world.collect(ref, status, submitted)
    stored = world.store.list(f"default/jobs/{world.job.key}/shards/0-0/")
    assert any(key.endswith("manifest.jsonl.zst") for key in stored), "the manifest is kept as received"


async def test_native_bodies_of_both_kinds_go_as_they_are(world):
    body = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "hi"}],
    }
    invoke = [{"id": f"i{n}", "url": "/invoke", "body": {"model": CLAUDE, **body}} for n in range(5)]
    said = [{"role": "user", "content": [{"text": "hello"}]}]
    converse = [{"id": f"c{n}", "url": "/converse", "body": {"model": NOVA, "messages": said}} for n in range(5)]
    await world.prepare(invoke + converse)
    assert (await world.plan()).batch_shards == 2
    for shard in (0, 1):
        assert (await world.run_batch(0, shard)).outcomes == {Outcome.succeeded: 5}
    await world.finalize(1)
    rows = world.results()
    assert rows[0]["body"]["type"] == "message"
    assert rows[5]["body"]["output"]["message"]["role"] == "assistant"


async def test_embeddings_come_back_as_the_models_own_vectors(world):
    model = "amazon.titan-embed-text-v2:0"
    lines = [{"id": f"e{n}", "url": "/v1/embeddings", "body": {"model": model, "input": f"text {n}"}} for n in range(6)]
    await world.prepare(lines)
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 6}
    await world.finalize(1)
    assert all(len(row["body"]["embedding"]) == 8 and row["usage"]["input_tokens"] for row in world.results())


async def test_IV_21_too_few_records_for_a_job_go_by_sync(world, emulator):
    await world.prepare([{"id": f"id {n}", "body": body_of(n)} for n in range(3)])
    plan = await world.plan()
    assert (plan.batch_shards, plan.sync_shards) == (0, 1)
    assert (await world.run_sync(0)).outcomes == {Outcome.succeeded: 3}
    assert emulator.creates() == 0
    await world.finalize(1)
    assert [row["text"] for row in world.results()] == [expected_text(CHAT, body_of(n)) for n in range(3)]


async def test_IV_21_a_last_shard_is_filled_up_to_the_minimum(world):
    await world.prepare([{"id": f"id {n}", "body": body_of(n)} for n in range(22)])
    plan = await world.plan(max_shard_requests=10)
    assert (plan.batch_shards, plan.sync_shards) == (3, 0)
    reports = [await world.run_batch(0, shard) for shard in range(3)]
    assert [report.requests for report in reports] == [10, 7, 5]
    assert all(report.outcomes == {Outcome.succeeded: report.requests} for report in reports)


async def test_IV_21_a_minimum_that_is_not_known_is_no_fault_of_the_requests(make_world, emulator):
    world = make_world(provider={"options": {"min_requests": "2"}})
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, submitted)
    assert status.phase is BatchPhase.failed
    assert (status.error.error_class, status.error.code) == (ErrorClass.transient, "too_few_records")
