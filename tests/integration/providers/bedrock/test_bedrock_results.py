"""What lies in the output folder: the lines decide, the manifest is compared, the rest goes again."""

import boto3
import pytest
from bedrock_world import BUCKET, objects
from groupage.schemas import Outcome


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
