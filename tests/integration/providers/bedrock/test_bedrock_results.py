"""What lies in the output folder: the lines decide, the manifest is compared, the rest goes again."""

from collections import Counter

import boto3
import pytest
from bedrock_world import BUCKET, CHAT, body_of, objects
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch
from provider_world import attempt_of


async def harvested(world, emulator, ref):
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    return status, await world.collect(ref, status, submitted)


async def test_PF_03_completed_with_nothing_but_failures_is_told_by_the_lines(world, emulator):
    emulator.faults(batches=[{"effect": "only_errors", "status": 400}])
    ref = await world.planned()
    status, report = await harvested(world, emulator, ref)
    assert (status.raw_state, status.completed, status.failed) == ("Completed", 0, 10)
    assert report.outcomes == {Outcome.failed: 10}
    assert report.unanswered == {ErrorClass.invalid: 10}
    assert report.top_errors == [("invalid/http_400", 10)]
    assert report.count_mismatch == ""


async def test_PF_03_a_job_that_counts_failures_as_successes_is_reported(world, emulator):
    emulator.faults(batches=[{"effect": "only_errors", "status": 500}, {"effect": "counts", "counts": "optimistic"}])
    ref = await world.planned()
    _, report = await harvested(world, emulator, ref)
    assert report.unanswered == {ErrorClass.transient: 10}
    assert "the job counts 10 succeeded and 0 failed, its manifest 0 and 10" in report.count_mismatch


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b'{"totalRecordCount":10,"successRecordCount":0,"errorRecordCount":10}', "its lines say 10 and 0"),
        (b"<not json>", ""),
        (None, ""),
    ],
    ids=["wrong", "damaged", "none"],
)
async def test_PF_03_a_manifest_that_is_wrong_decides_nothing(world, emulator, manifest, said):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    await world.ended(ref, submitted)
    key = next(key for key in objects() if key.endswith("manifest.json.out"))
    s3 = boto3.client("s3")
    if manifest is None:
        s3.delete_object(Bucket=BUCKET, Key=key)
    else:
        s3.put_object(Bucket=BUCKET, Key=key, Body=manifest)
    status = await world.ended(ref, submitted)
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 10}
    assert said in report.count_mismatch
    assert bool(report.count_mismatch) == bool(said)


async def test_PF_04_a_partially_completed_job_is_harvested_and_the_rest_goes_again(world, emulator):
    emulator.faults(batches=[{"effect": "expire", "at": 0.6, "nth": [1]}])
    ref = await world.planned(20)
    status, report = await harvested(world, emulator, ref)
    assert (status.raw_state, status.phase) == ("PartiallyCompleted", BatchPhase.expired)
    assert report.outcomes == {Outcome.succeeded: 12, Outcome.expired: 8}
    plan = await world.plan(1)
    assert (plan.requests, plan.batch_shards) == (8, 1)
    assert (await world.run_batch(1)).outcomes == {Outcome.succeeded: 8}
    await world.finalize(2)
    assert [row["text"] for row in world.results()] == [expected_text(CHAT, body_of(n)) for n in range(20)]
    assert emulator.ledger()["questions_answered_more_than_once"] == 0


async def test_EX_a_job_that_never_started_has_only_expired_requests(world, emulator):
    emulator.faults(batches=[{"effect": "expire", "at": 0.0}])
    ref = await world.planned()
    status, report = await harvested(world, emulator, ref)
    assert status.raw_state == "Expired"
    assert report.outcomes == {Outcome.expired: 10}


async def test_PF_13_what_was_answered_before_the_stop_is_kept(world, emulator):
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance("6m")
    await attempt_of(world.activities.cancel_batch, CancelBatch(shard=ref, batch_id=submitted.batch_id))
    emulator.finish()
    status = await world.ended(ref, submitted)
    report = await world.collect(ref, status, submitted)
    assert status.phase is BatchPhase.cancelled
    assert 0 < report.outcomes[Outcome.succeeded] < 20
    assert report.outcomes[Outcome.succeeded] + report.outcomes[Outcome.cancelled] == 20
    assert report.cost_usd > 0, "CO-04"


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
    }
    emulator.faults(requests=[{"lines": [line], **rule} for line, rule in kinds.items()])
    ref = await world.planned(30)
    _, report = await harvested(world, emulator, ref)
    assert report.outcomes == {
        Outcome.succeeded: 20, Outcome.truncated: 1, Outcome.refused: 1, Outcome.failed: 5, Outcome.unreadable: 3,
    }  # fmt: skip
    assert report.unanswered == {
        ErrorClass.unreadable: 3, ErrorClass.rate_limit: 1, ErrorClass.transient: 1, ErrorClass.missing: 1,
        ErrorClass.unknown: 1, ErrorClass.account: 1,
    }  # fmt: skip
    assert report.quarantined == 1
    await world.finalize(1)
    rows = world.results()
    assert Counter(row["outcome"] for row in rows)["succeeded"] == 20
    for n, row in enumerate(rows):
        if row["outcome"] == "succeeded":
            assert row["text"] == expected_text(CHAT, body_of(n))


async def test_results_in_several_files_are_all_read(world, emulator):
    """The folder is listed: names of files are nobody's promise."""
    ref = await world.planned(10)
    submitted = await world.submit(ref)
    emulator.finish()
    await world.ended(ref, submitted)
    s3 = boto3.client("s3")
    key = next(key for key in objects() if key.endswith("input.jsonl.out"))
    lines = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().split(b"\n")[:-1]
    s3.delete_object(Bucket=BUCKET, Key=key)
    for part, chosen in enumerate((lines[:4], lines[4:])):
        s3.put_object(Bucket=BUCKET, Key=f"{key[:-4]}.{part}.out", Body=b"\n".join(chosen) + b"\n")
    status = await world.ended(ref, submitted)
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 10}
    await world.clean_up(ref, submitted, status)
    assert objects() == []


async def test_clean_up_finds_outputs_that_no_status_named(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    folder = next(key for key in objects() if key.endswith("manifest.json.out")).rpartition("/")[0]
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{folder}/more.out", Body=b"")
    await world.clean_up(ref, submitted, status)
    assert objects() == []


async def test_CL_outputs_of_a_live_job_are_not_touched(world):
    ref = await world.planned()
    submitted = await world.submit(ref)
    await world.adapter.delete("batch", submitted.batch_id)
    await world.adapter.delete("batch", "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/000000000000")
    await world.adapter.delete("file", f"s3://{BUCKET}/groupage/nothing/here")
    assert len(objects()) == 1


async def test_a_converse_job_with_tools_is_refused_before_it_is_sent(world, emulator):
    tools = {"tools": [{"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object"}}}}]}
    said = [{"role": "user", "content": [{"text": "hello"}]}]
    body = {"model": "meta.llama3-1-8b-instruct-v1:0", "messages": said, "toolConfig": tools}
    good = {"model": body["model"], "messages": said}
    lines = [{"id": f"c{n}", "url": "/converse", "body": body if n == 3 else good} for n in range(9)]
    await world.prepare(lines)
    await world.plan()
    assert (await world.run_batch()).outcomes == {Outcome.succeeded: 8}
    await world.finalize(1)
    rows = world.results()
    assert [row["outcome"] for row in rows] == ["succeeded"] * 3 + ["failed"] + ["succeeded"] * 5
    assert "toolConfig" in rows[3]["error"]["message"]
    assert emulator.creates() == 1
