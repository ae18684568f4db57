"""A batch's whole way: file up, batch, results file down, joined by key alone; what is left behind."""

from collections import Counter

import pytest
from gemini_world import EMBEDDING, FLASH, ask, uploaded
from groupage.activities.providers.base import ResultFile
from groupage.emulator.answers import expected_embeddings, expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import SweepOrphans
from groupage.schemas.errors import ProviderError
from job_world import CHAT, chat_body
from provider_world import attempt_of


async def harvested(world, emulator, ref):
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    return status, await world.collect(ref, status, submitted)


async def test_a_portable_job_is_answered_and_leaves_only_what_cannot_be_deleted(world, emulator):
    ref = await world.planned(30)
    submitted = await world.submit(ref)
    assert [(file["displayName"], file["mimeType"]) for file in uploaded(emulator)] == [(ref.tag, "application/jsonl")]
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, "BATCH_STATE_SUCCEEDED")
    report = await world.collect(ref, status, submitted)
    assert (report.outcomes, report.count_mismatch) == ({Outcome.succeeded: 30}, "")
    assert report.cost_usd > 0
    cleaned = await world.clean_up(ref, submitted, status)
    assert cleaned.left_behind == []
    assert uploaded(emulator) == []
    assert ask(emulator, "batches")["operations"] == []
    await world.finalize(1)
    for n, row in enumerate(world.results()):
        assert (row["id"], row["outcome"], row["model"]) == (f"id {n}", "succeeded", FLASH)
        assert row["text"] == expected_text(CHAT, chat_body(n, FLASH)), "the same as at every provider"
        assert row["usage"]["input_tokens"] > 0


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


async def test_PF_02_succeeded_with_nothing_but_errors_is_told_by_the_lines(world, emulator):
    emulator.faults(batches=[{"effect": "only_errors", "status": 400}, {"effect": "counts", "counts": "optimistic"}])
    ref = await world.planned(5)
    status, report = await harvested(world, emulator, ref)
    assert (status.raw_state, status.completed) == ("BATCH_STATE_SUCCEEDED", 5)
    assert report.outcomes == {Outcome.failed: 5}
    assert report.unanswered == {ErrorClass.invalid: 5}
    assert report.top_errors == [("invalid/INVALID_ARGUMENT", 5)]
    assert report.count_mismatch


async def test_RP_each_kind_of_damaged_line_costs_only_itself(world, emulator):
    kinds = {
        1: {"kind": "empty_body"},
        2: {"kind": "invalid_utf8"},
        3: {"kind": "malformed"},
        4: {"kind": "http", "status": 429},
        5: {"kind": "http", "status": 503},
        6: {"kind": "truncated"},
        7: {"kind": "refused"},
        8: {"kind": "duplicate"},
        9: {"kind": "unknown_id"},
        10: {"kind": "missing"},
        11: {"kind": "status_zero"},
        12: {"kind": "credit"},
        13: {"kind": "not_an_object"},
    }
    emulator.faults(requests=[{"lines": [line], **rule} for line, rule in kinds.items()])
    ref = await world.planned(30)
    _, report = await harvested(world, emulator, ref)
    assert report.outcomes == {
        Outcome.succeeded: 19, Outcome.truncated: 1, Outcome.refused: 1, Outcome.failed: 6, Outcome.unreadable: 3,
    }  # fmt: skip
    assert report.unanswered == {
        ErrorClass.unreadable: 3, ErrorClass.rate_limit: 1, ErrorClass.transient: 1, ErrorClass.missing: 2,
        ErrorClass.unknown: 1, ErrorClass.account: 1,
    }  # fmt: skip
    assert report.quarantined == 2
    await world.finalize(1)
    rows = world.results()
    assert Counter(row["outcome"] for row in rows)["succeeded"] == 19
    for n, row in enumerate(rows):
        if row["outcome"] == "succeeded":
            assert row["text"] == expected_text(CHAT, chat_body(n, FLASH))


async def test_RP_16_both_shapes_of_a_refusal_are_answers_and_paid(world, emulator):
    emulator.faults(requests=[{"kind": "refused", "share": 1}])
    ref = await world.planned(30)
    _, report = await harvested(world, emulator, ref)
    assert report.outcomes == {Outcome.refused: 30}
    assert report.cost_usd > 0
    await world.finalize(1)
    rows = world.results()
    shapes = {(row["body"].get("promptFeedback", {}).get("blockReason"), "candidates" in row["body"]) for row in rows}
    assert shapes == {("PROHIBITED_CONTENT", False), (None, True)}
    assert {row["text"] for row in rows} == {None}


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
    _, report = await harvested(world, emulator, ref)
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


async def test_a_results_file_that_is_gone_is_missing(world, tmp_path):
    with pytest.raises(ProviderError) as error:
        await world.adapter.download(ResultFile("output", "files/nothing"), tmp_path / "nothing")
    assert error.value.error_class is ErrorClass.missing
    await world.adapter.delete("file", "files/nothing")


async def test_the_sweep_cancels_and_deletes_what_belongs_to_no_job(world, emulator):
    ref = await world.planned()
    await world.submit(ref)
    world.store.delete([key for key in world.store.list("") if "deployment" not in key])
    swept = await attempt_of(world.activities.sweep_orphans, SweepOrphans(provider="gemini", grace_s=0))
    assert (swept.batches, swept.files, len(swept.cancelled), swept.deleted, swept.failed) == (1, 1, 1, 1, [])
    assert uploaded(emulator) == []
    emulator.finish()
    assert [batch["status"] for batch in emulator.state()["batches"]] == ["cancelled"]


async def test_what_is_ours_is_listed_batches_and_input_files(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    owner = ref.tag[1:7]
    live = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.tag, one.ended) for one in live] == [("batch", ref.tag, False), ("file", ref.tag, True)]
    assert all(one.created_at for one in live)
    emulator.finish()
    await world.ended(ref, submitted)
    ended = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.ended) for one in ended] == [("batch", True), ("file", True)], (
        "result files are not ours to delete"
    )
    assert [one async for one in world.adapter.list_ours("zzzzzz")] == []
