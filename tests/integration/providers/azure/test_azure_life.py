"""A job's whole way at an Azure OpenAI resource, through each door; nothing is left behind."""

import asyncio
from datetime import UTC, datetime

import orjson
import pytest
from azure_world import CHAT, DEPLOYMENT, LEGACY
from groupage.activities.providers.base import SyncCall
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.ids import wire_id
from job_world import chat_body
from provider_world import attempt_of, benign
from temporalio.exceptions import ApplicationError


async def test_a_job_is_answered_through_each_door_and_leaves_nothing(any_door, emulator):
    world = any_door
    ref = await world.planned(30)
    submitted = await world.submit(ref)
    (file,) = emulator.state()["files"]
    assert file["filename"] == f"{ref.tag}.jsonl"
    told = await world.file(file["id"])
    assert told["expires_at"] - told["created_at"] == 14 * 86_400
    (batch,) = emulator.state()["batches"]
    assert batch["metadata"]["groupage_tag"] == ref.tag
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.phase, status.total, status.completed) == (BatchPhase.completed, 30, 30)
    assert status.created_at is not None
    assert abs((status.created_at - datetime.now(UTC)).days) <= 2
    assert [len(status.output_files), len(status.error_files)] == [1, 1], "an error file is named though it is empty"
    expires = (await world.file(status.output_files[0]))["expires_at"]
    assert expires is not None, "result files were told when to go"
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 30}
    assert report.count_mismatch == ""
    assert (await world.clean_up(ref, submitted, status)).left_behind == []
    assert emulator.state()["files"] == []
    await world.finalize(1)
    for n, row in enumerate(world.results()):
        assert (row["id"], row["outcome"], row["model"]) == (f"id {n}", "succeeded", DEPLOYMENT)
        assert row["text"] == expected_text(CHAT, chat_body(n, DEPLOYMENT))
        assert row["body"]["prompt_filter_results"], "what the filter found is kept"
    assert emulator.creates() == 1


async def test_an_empty_error_file_is_fetched_and_says_nothing(world, emulator):
    ref = await world.planned(5)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    errors = world.adapter.result_files(status)[1]
    path = world.folder / "errors"
    assert await world.adapter.download(errors, path) == 0
    assert path.read_bytes() == b""
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 5}
    assert report.quarantined == 0


async def test_EX_04_a_batch_past_its_24_hours_is_not_given_up(world, emulator):
    """EX-04 as Azure has it: `expires_at` is told, and nobody enforces it."""
    emulator.faults(batches=[{"effect": "turnaround", "seconds": "40h"}])
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance("30h")
    status = await world.adapter.status(submitted.batch_id)
    assert status.expires_at is not None
    assert (status.expires_at - status.created_at).total_seconds() == 86_400
    assert status.phase is BatchPhase.in_progress
    with pytest.raises(ApplicationError) as looked:
        await attempt_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
    assert benign(looked.value), "it is waited for"
    assert (await world.submit(ref)).batch_id == submitted.batch_id, "and found again, not made again"
    emulator.advance("11h")
    emulator.finish()
    report = await world.collect(ref, await world.ended(ref, submitted), submitted)
    assert report.outcomes == {Outcome.succeeded: 20}
    assert emulator.creates() == 1


async def test_what_the_content_filter_refuses_is_refused_and_not_invalid(world, emulator):
    emulator.faults(requests=[{"kind": "refused", "match": "question number 3 ?"}])
    ref = await world.planned(6)
    submitted = await world.submit(ref)
    emulator.finish()
    report = await world.collect(ref, await world.ended(ref, submitted), submitted)
    assert report.outcomes == {Outcome.succeeded: 5, Outcome.refused: 1}
    await world.finalize(1)
    refused = world.results()[3]
    assert (refused["id"], refused["outcome"]) == ("id 3", "refused")
    assert refused["body"]["error"]["code"] == "content_filter", "why is kept as it was said"


@pytest.mark.parametrize("version", [{}, LEGACY], ids=["v1", "legacy"])
@pytest.mark.parametrize("endpoint", [CHAT, "/v1/responses", "/v1/embeddings"])
async def test_sync_requests_go_to_the_deployment(make_world, emulator, monkeypatch, version, endpoint):
    for name, value in version.items():
        monkeypatch.setenv(name, value)
    world = make_world()
    name = "a deployment: 50%"
    asked = {
        CHAT: chat_body(1, name),
        "/v1/responses": {"model": name, "input": "question"},
        "/v1/embeddings": {"model": name, "input": "question"},
    }[endpoint]
    answer = await world.adapter.complete(SyncCall("w1", endpoint, orjson.dumps(asked), 10.0))
    assert (answer.wire_id, answer.outcome, answer.error_class) == ("w1", Outcome.succeeded, None)
    assert answer.usage is not None
    if endpoint != "/v1/embeddings":
        assert answer.text == expected_text(endpoint, asked)


@pytest.mark.parametrize("version", [{}, LEGACY], ids=["v1", "legacy"])
async def test_a_batch_deployment_has_another_one_for_single_requests(make_world, emulator, monkeypatch, version):
    for name, value in version.items():
        monkeypatch.setenv(name, value)
    call = SyncCall("w1", CHAT, orjson.dumps(chat_body(1, "batch-only")), 10.0)
    without = await make_world().adapter.complete(call)
    assert (without.error_class, without.code) == (ErrorClass.account, "OperationNotSupported"), "a person is asked"
    assert "sync_deployments" in without.message
    world = make_world(provider={"options": {"sync_deployments": "batch-only=standard"}})
    answer = await world.adapter.complete(call)
    assert (answer.outcome, answer.model) == (Outcome.succeeded, "standard")
    assert answer.text == expected_text(CHAT, chat_body(1, "batch-only"))


async def test_a_body_without_a_model_has_no_deployment_to_go_to(make_world, monkeypatch):
    for name, value in LEGACY.items():
        monkeypatch.setenv(name, value)
    answer = await make_world().adapter.complete(SyncCall("w1", CHAT, b'{"messages":[]}', 10.0))
    assert (answer.outcome, answer.error_class, answer.code) == (Outcome.failed, ErrorClass.invalid, "no_deployment")


async def test_requests_may_name_the_endpoint_with_and_without_v1(world, emulator):
    paths = ("/chat/completions", CHAT)
    await world.prepare(
        [
            {"custom_id": f"r{n}", "method": "POST", "url": paths[n % 2], "body": chat_body(n, DEPLOYMENT)}
            for n in range(6)
        ]
    )
    assert (await world.plan()).batch_shards == 1
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 6}


async def test_a_download_may_be_stopped(world, emulator):
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    emulator.faults(calls=[{"call": "files.content", "action": "slow", "seconds": "1h"}])
    file = world.adapter.result_files(status)[0]
    task = asyncio.create_task(world.adapter.download(file, world.folder / "out"))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


async def test_lines_carry_our_ids_and_the_surfaces_own_path(make_world, monkeypatch):
    assert orjson.loads(make_world().adapter.render(wire_id("t", 1), CHAT, b"{}"))["url"] == CHAT
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert orjson.loads(make_world().adapter.render(wire_id("t", 1), CHAT, b"{}"))["url"] == "/chat/completions"
    assert orjson.loads(make_world().adapter.render("w", "/v1/responses", b"{}"))["url"] == "/v1/responses"
