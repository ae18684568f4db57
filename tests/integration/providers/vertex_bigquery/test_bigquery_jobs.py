"""A job's whole way with its data in BigQuery: table in, job, table out, rows joined by their id, no table left."""

import asyncio
from typing import Any

import orjson
import pytest
import requests
import zstandard
from bigquery_plane import DATASET, INPUT, LOCATION, OUTPUT, PROJECT, Plane
from google.cloud import bigquery
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome, ShardReport
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.ids import wire_id
from job_world import CHAT, chat_body
from provider_world import attempts_of
from vertex_world import CLAUDE, GEMINI, VertexWorld


async def faulty(world: VertexWorld, count: int = 10, **plan: Any) -> ShardReport:
    """The report of one batch with these faults."""
    world.emulator.faults(**plan)
    await world.planned(count)
    return await world.run_batch()


@pytest.mark.parametrize("model", [GEMINI, CLAUDE], ids=["gemini", "claude"])
async def test_a_portable_job_is_answered_and_leaves_no_table(world: VertexWorld, plane: Plane, model: str) -> None:
    ref = await world.planned(30, model)
    submitted = await world.submit(ref)
    stem = ref.tag.replace("-", "_")
    assert plane.tables() == [f"{stem}_input"]
    rows = plane.rows(f"{PROJECT}.{DATASET}.{stem}_input")
    assert sorted(row["custom_id"] for row in rows) == sorted(wire_id(ref.tag, n) for n in range(30))
    assert "groupage_id" not in rows[0]["request"], "the id has a column of its own"
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, "JOB_STATE_SUCCEEDED")
    assert status.output_files == [f"bq://{PROJECT}.{DATASET}.{stem}_output"]
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 30}
    assert report.count_mismatch == ""
    cleaned = await world.clean_up(ref, submitted, status)
    assert cleaned.left_behind == []
    assert plane.tables() == []
    await world.finalize(1)
    for n, row in enumerate(world.results()):
        assert (row["id"], row["outcome"]) == (f"id {n}", "succeeded")
        assert row["text"] == expected_text(CHAT, chat_body(n, model))
        assert row["usage"]["input_tokens"] > 0


async def test_RP_01_separators_of_lines_in_prompts_and_answers_cut_nothing(world: VertexWorld) -> None:
    texts = [f'{n} \u2028 \u2029 \x85 \x0b \x1c é 日 \\ " \n' for n in range(5)]
    bodies = [chat_body(n, GEMINI) | {"messages": [{"role": "user", "content": text}]} for n, text in enumerate(texts)]
    await world.prepare([{"id": text, "body": body} for text, body in zip(texts, bodies, strict=True)])
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 5}
    await world.finalize(1)
    rows = world.results()
    assert [row["id"] for row in rows] == texts
    assert [row["text"] for row in rows] == [expected_text(CHAT, body) for body in bodies]


async def test_a_request_of_two_megabytes_goes_through(world: VertexWorld) -> None:
    body = chat_body(0, GEMINI) | {"messages": [{"role": "user", "content": "word\n" * 400_000}]}
    await world.prepare([{"id": "large", "body": body}, {"id": "small", "body": chat_body(1, GEMINI)}])
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 2}


async def test_RP_07_rows_in_another_order_are_joined_by_their_id(world: VertexWorld) -> None:
    await faulty(world, 40)
    await world.finalize(1)
    rows = world.results()
    assert [row["text"] for row in rows] == [expected_text(CHAT, chat_body(n, GEMINI)) for n in range(40)]


async def test_identical_requests_are_told_apart_by_their_column(world: VertexWorld) -> None:
    same = chat_body(0, GEMINI)
    await world.prepare([{"id": f"id {n}", "body": same} for n in range(6)])
    await world.plan()
    world.emulator.faults(requests=[{"kind": "missing", "lines": [3]}])
    report = await world.run_batch()
    assert report.outcomes == {Outcome.succeeded: 5, Outcome.failed: 1}
    await world.finalize(1)
    assert [row["id"] for row in world.results() if row["outcome"] != "succeeded"] == ["id 2"]


async def test_PF_08_a_row_that_is_missing_is_named(world: VertexWorld) -> None:
    report = await faulty(world, requests=[{"kind": "missing", "lines": [4]}])
    assert report.unanswered == {ErrorClass.missing: 1}
    await world.finalize(1)
    assert [row["id"] for row in world.results() if row["outcome"] != "succeeded"] == ["id 3"]


async def test_PF_14_a_row_that_comes_twice_counts_once(world: VertexWorld) -> None:
    report = await faulty(world, requests=[{"kind": "duplicate", "lines": [2]}])
    assert report.outcomes == {Outcome.succeeded: 10}


async def test_a_row_of_a_foreign_id_is_nobodys(world: VertexWorld) -> None:
    report = await faulty(world, requests=[{"kind": "unknown_id", "lines": [2]}])
    assert report.outcomes == {Outcome.succeeded: 10}
    assert report.quarantined == 1


@pytest.mark.parametrize("kind", ["empty_body", "malformed", "invalid_utf8"])
async def test_RP_12_what_is_no_answer_is_unreadable_and_its_neighbours_are_not(world: VertexWorld, kind: str) -> None:
    report = await faulty(world, requests=[{"kind": kind, "lines": [2]}])
    assert report.outcomes == {Outcome.succeeded: 9, Outcome.unreadable: 1}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "http", "status": 429}, ErrorClass.rate_limit),
        ({"kind": "http", "status": 500}, ErrorClass.transient),
        ({"kind": "http", "status": 400}, ErrorClass.invalid),
    ],
)
async def test_a_failed_row_says_why_in_its_status(world: VertexWorld, fault: Any, expected: ErrorClass) -> None:
    report = await faulty(world, requests=[{**fault, "lines": [2]}])
    assert report.outcomes == {Outcome.succeeded: 9, Outcome.failed: 1}
    assert report.unanswered == {expected: 1}


async def test_PF_02_a_job_that_succeeded_with_nothing_but_failed_rows_has_failed_rows(world: VertexWorld) -> None:
    report = await faulty(world, requests=[{"kind": "http", "status": 400, "share": 1.0}])
    assert report.outcomes == {Outcome.failed: 10}


async def test_PF_04_of_a_job_that_partially_succeeded_the_rows_that_are_there_count(world: VertexWorld) -> None:
    world.emulator.faults(batches=[{"effect": "expire", "at": 0.6}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.raw_state == "JOB_STATE_PARTIALLY_SUCCEEDED"
    assert (await world.collect(ref, status, submitted)).outcomes == {Outcome.succeeded: 6, Outcome.expired: 4}


async def test_rows_with_nothing_but_a_request_did_not_run(world: VertexWorld) -> None:
    world.emulator.faults(batches=[{"effect": "expire", "at": 0.6}, {"effect": "request_only"}])
    await world.planned()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 6, Outcome.expired: 4}


async def test_PF_13_what_was_done_before_a_cancel_is_kept(world: VertexWorld, plane: Plane) -> None:
    ref = await world.planned(25)
    submitted = await world.submit(ref)
    world.emulator.advance("5m")
    await world.adapter.cancel(submitted.batch_id)
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.phase is BatchPhase.cancelled
    report = await world.collect(ref, status, submitted)
    assert set(report.outcomes) == {Outcome.succeeded, Outcome.cancelled}
    assert sum(report.outcomes.values()) == 25
    await world.clean_up(ref, submitted, status)
    assert plane.tables() == []


async def test_a_job_that_ended_before_anything_ran_leaves_no_table(world: VertexWorld, plane: Plane) -> None:
    world.emulator.faults(batches=[{"effect": "expire", "at": 0.0}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.raw_state == "JOB_STATE_EXPIRED"
    assert (await world.collect(ref, status, submitted)).outcomes == {Outcome.expired: 10}
    await world.clean_up(ref, submitted, status)
    assert plane.tables() == []


async def test_PO_08_an_output_table_that_is_late_is_waited_for(world: VertexWorld) -> None:
    world.emulator.faults(batches=[{"effect": "late_output", "seconds": "2h"}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    world.emulator.finish()
    now = await world.adapter.status(submitted.batch_id)
    assert (now.phase, now.output_files) == (BatchPhase.finalizing, [])
    world.emulator.advance_at_once("3h")
    status = await world.ended(ref, submitted)
    assert (await world.collect(ref, status, submitted)).outcomes == {Outcome.succeeded: 10}


@pytest.mark.parametrize("action", ["drop_before", "drop_after", "error", "error_after"])
async def test_SU_02_a_create_call_without_an_answer_makes_no_second_job(world: VertexWorld, action: str) -> None:
    world.emulator.faults(calls=[{"call": "batches.create", "action": action, "status": 503, "nth": [1]}])
    ref = await world.planned()
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert failures
    assert len(world.emulator.state()["batches"]) == 1
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    assert (await world.collect(ref, status, submitted)).outcomes == {Outcome.succeeded: 10}


async def test_a_job_whose_input_is_lost_is_made_anew_from_another_load(world: VertexWorld, plane: Plane) -> None:
    ref = await world.planned()
    submitted = await world.submit(ref)
    first = submitted.batch_id
    await world.adapter.cancel(first)
    world.emulator.finish()
    await world.adapter.delete("file", submitted.input_files[0])
    again = await world.submit(ref, not_ids=[first])
    assert again.batch_id != first
    world.emulator.finish()
    status = await world.ended(ref, again)
    assert status.output_files[0].endswith("_output_2")
    assert (await world.collect(ref, status, again)).outcomes == {Outcome.succeeded: 10}
    await world.clean_up(ref, again, status)
    await world.adapter.delete("batch", first)
    assert plane.tables() == []


async def test_what_is_ours_is_listed_jobs_and_tables(world: VertexWorld) -> None:
    ref = await world.planned()
    submitted = await world.submit(ref)
    owner = ref.tag[1:7]
    live = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.tag, one.ended) for one in live] == [("batch", ref.tag, False), ("file", ref.tag, False)]
    world.emulator.finish()
    await world.ended(ref, submitted)
    ended = [one async for one in world.adapter.list_ours(owner)]
    assert [(one.kind, one.ended) for one in ended] == [("batch", True), ("file", True), ("file", True)]
    assert [one async for one in world.adapter.list_ours("zzzzzz")] == []


async def test_the_stored_output_is_the_rows_as_json_lines(world: VertexWorld) -> None:
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    world.emulator.finish()
    status = await world.ended(ref, submitted)
    await world.collect(ref, status, submitted)
    (key,) = [key for key in world.store.list(f"default/jobs/{world.job.key}/shards/0-0/") if "output" in key]
    data = zstandard.ZstdDecompressor().stream_reader(world.store.get(key)).read()
    lines = [orjson.loads(line) for line in data.split(b"\n")[:-1]]
    assert {line["custom_id"] for line in lines} == {wire_id(ref.tag, n) for n in range(3)}
    assert all(line.keys() == {"custom_id", "request", "response", "status", "processed_time"} for line in lines)


async def test_a_job_is_refused_that_cannot_read_or_would_write_over(world: VertexWorld, plane: Plane) -> None:
    await plane.data.upload(plane.submission())
    await plane.put_output([])
    plane.google.create_table(bigquery.Table(f"{PROJECT}.{DATASET}.other", [bigquery.SchemaField("prompt", "STRING")]))
    plane.google.create_dataset(_dataset("elsewhere", "europe-west4"))
    root, target = f"bq://{PROJECT}.{DATASET}", f"bq://{PROJECT}.{DATASET}.new"
    for source, output, text in (
        (f"{root}.nothing", target, "does not exist"),
        (f"bq://{PROJECT}.nothing.input", target, "does not exist"),
        (f"bq://{INPUT}", f"bq://{OUTPUT}", "exists already"),
        (f"bq://{INPUT}", f"bq://{PROJECT}.elsewhere.new", "both have to be in one region"),
        (f"{root}.other", target, "no column request"),
        (f"bq://{OUTPUT}", target, "reserved names"),
        (f"{root}.in:put", target, "Invalid table ID"),
        (f"bq://{INPUT}", root, "is not of the form"),
    ):
        job = {
            "displayName": "job",
            "model": f"publishers/google/models/{GEMINI}",
            "inputConfig": {"instancesFormat": "bigquery", "bigquerySource": {"inputUri": source}},
            "outputConfig": {"predictionsFormat": "bigquery", "bigqueryDestination": {"outputUri": output}},
        }
        url = f"{plane.emulator.base_url}/projects/{PROJECT}/locations/{LOCATION}/batchPredictionJobs"
        reply = await asyncio.to_thread(requests.post, url, json=job, timeout=20)
        assert reply.status_code == 400, (source, output, reply.text)
        assert text in reply.json()["error"]["message"]


def _dataset(name: str, location: str) -> bigquery.Dataset:
    dataset = bigquery.Dataset(f"{PROJECT}.{name}")
    dataset.location = location
    return dataset
