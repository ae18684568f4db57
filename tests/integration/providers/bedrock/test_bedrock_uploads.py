"""A worker killed in mid-upload: S3 keeps the parts, and bills them, until somebody gives the upload up."""

import subprocess
import sys

import pytest
from bedrock_world import BUCKET
from groupage.activities.providers import bedrock_objects
from groupage.schemas import Outcome

KILLED = """
import os, sys, threading, boto3
from pathlib import Path
from groupage.activities.providers.bedrock_objects import put_file
s3, parts = boto3.client("s3"), []
def part(**told):
    parts.append(told)
    if len(parts) == 3:
        os.kill(os.getpid(), 9)
    return real(**told)
real, s3.upload_part = s3.upload_part, part
put_file(s3, sys.argv[1], Path(sys.argv[2]), threading.Event())
"""


@pytest.fixture
def killed(world, tmp_path):
    """Uploads some of a shard's input in the name of a worker that is killed then."""

    def upload(ref) -> None:
        large = tmp_path / "large.jsonl"
        large.write_bytes(b"x" * (30 << 20))
        uri = f"s3://{BUCKET}/groupage/{ref.tag}/input.jsonl"
        assert subprocess.run([sys.executable, "-c", KILLED, uri, str(large)], check=False).returncode == -9
        assert f"groupage/{ref.tag}/input.jsonl" in world.left(), "the trial shows nothing"

    return upload


async def test_CL_the_next_attempt_gives_up_what_a_killed_worker_had_begun_to_upload(world, killed):
    ref = await world.planned()
    killed(ref)
    submission = world.submission(ref, world.one_line(), look_since=world.started_at)
    (uri,) = await world.adapter.upload(submission)
    assert world.left() == [uri.removeprefix(f"s3://{BUCKET}/")], "the input alone"
    await world.adapter.delete("file", uri)
    assert world.left() == []


async def test_CL_the_sweep_gives_up_uploads_that_no_job_needs(world, killed, monkeypatch):
    monkeypatch.setattr(bedrock_objects, "UPLOADS_PAGE", 1)
    refs = [await world.planned() for _ in range(2)]
    submitted, status = await world.finished(refs[0])
    killed(refs[0])
    killed(refs[1])
    report = await world.collect(refs[0], status, submitted)
    assert report.outcomes == {Outcome.succeeded: 10}
    await world.clean_up(refs[0], submitted, status)
    assert sorted(one.tag for one in await world.ours(refs[0].tag[1:7]) if one.kind == "file") == sorted(
        ref.tag for ref in refs
    )
    world.store.delete([key for key in world.store.list("") if "deployment" not in key])
    swept = await world.sweep(delete_files=True)
    assert (swept.files, swept.failed, world.left()) == (2, [], [])


async def test_an_upload_that_has_gone_is_deleted_without_an_error(world):
    await world.adapter.delete("file", f"s3://{BUCKET}/groupage/x/input.jsonl?uploadId=nothing")
