"""A batch's whole way: file up, batch, results file down, joined by key alone; what is left behind."""

import pytest
from gemini_world import EMBEDDING, FLASH, ask, uploaded
from groupage.emulator.answers import expected_embeddings, expected_text
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError
from job_world import CHAT, chat_body


async def test_an_input_is_named_by_the_tag_and_the_batch_itself_is_deleted(world, emulator):
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    assert [(file["displayName"], file["mimeType"]) for file in uploaded(emulator)] == [(ref.tag, "application/jsonl")]
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (await world.clean_up(ref, submitted, status)).left_behind == []
    assert ask(emulator, "batches")["operations"] == []


async def test_native_bodies_go_as_they_are(world, emulator):
    said = [{"role": "user", "parts": [{"text": "hello"}]}]
    odd = {"model": FLASH, "contents": said, "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT"}]}
    thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 512}}
    lines = [{"id": "odd", "url": "/generateContent", "body": odd}]
    lines += [
        {"id": "t", "url": "/generateContent", "body": {"model": FLASH, "contents": said, "generationConfig": thinking}}
    ]
    await world.prepare(lines)
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 2}
    await world.finalize(1)
    first, second = world.results()
    assert first["text"] == second["text"], "CO-06: thoughts are no part of the text"
    assert second["body"]["candidates"][0]["content"]["parts"][0]["thought"] is True
    assert second["usage"]["reasoning_tokens"] > 0
    assert second["usage"]["output_tokens"] == first["usage"]["output_tokens"] + second["usage"]["reasoning_tokens"]
    assert second["cost_usd"] > first["cost_usd"]


async def test_embeddings_are_batches_of_their_own_kind(world, emulator):
    bodies = [{"model": EMBEDDING, "input": f"text {n}", "dimensions": 16} for n in range(6)]
    await world.prepare([{"id": f"e{n}", "url": "/v1/embeddings", "body": body} for n, body in enumerate(bodies)])
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 6}
    await world.finalize(1)
    for row, body in zip(world.results(), bodies, strict=True):
        assert row["body"]["embedding"]["values"] == expected_embeddings(body)[0]
        assert row["usage"]["input_tokens"] > 0


@pytest.mark.parametrize("action", ["cut", "drop_before", "error"])
async def test_RP_04_a_results_file_that_does_not_come_whole_is_fetched_again(world, emulator, action):
    ref = await world.planned(30)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    emulator.faults(calls=[{"call": "files.content", "action": action, "nth": [1], "status": 503}])
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 30}
    assert world.calls("files.content") == 2


async def test_RP_20_results_are_bytes_whatever_they_are_declared_as(world, emulator):
    emulator.faults(calls=[{"call": "files.content", "action": "content_type"}])
    ref = await world.planned(64)
    _, report = await world.harvested(ref)
    assert report.outcomes == {Outcome.succeeded: 64}
    await world.finalize(1)
    texts = [row["text"] for row in world.results()]
    assert texts == [expected_text(CHAT, chat_body(n, FLASH)) for n in range(64)]
    assert any("\u2028" in text for text in texts), "RP-01"


async def test_result_files_cannot_be_deleted_and_that_is_no_failure(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    (result,) = status.output_files
    assert len(result.removeprefix("files/")) == 42
    await world.adapter.delete("file", result)
    assert ask(emulator, result)["name"] == result, "it is still there, until 48 h are over"
    emulator.faults(calls=[{"call": "files.delete", "action": "error", "status": 500, "times": 1}])
    with pytest.raises(ProviderError) as error:
        await world.adapter.delete("file", result)
    assert error.value.error_class is ErrorClass.transient
