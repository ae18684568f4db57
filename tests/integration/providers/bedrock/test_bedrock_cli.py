"""`groupage run --provider bedrock`, from portable lines to the output file, with faults on the way."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from bedrock_world import BUCKET, CLAUDE, body_of, variables_of
from cli_world import Commands
from groupage.emulator.answers import expected_text
from job_world import CHAT
from run_world import DAMAGED, LATER, REQUESTS, TROUBLE, all_answered_once, commands_at, line_of, run, write_lines
from s3_server import S3Server

FAULTS = {
    "requests": [*TROUBLE, DAMAGED],
    "calls": [
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        {
            "call": "batches.create",
            "action": "error",
            "status": 400,
            "code": "ServiceQuotaExceededException",
            "nth": [2],
        },
        *LATER,
    ],
    # Of the other shard than questions 7 and 11: what nobody can explain is tried in two rounds at most.
    "batches": [{"effect": "expire", "at": 0.7, "tag": "-r0-s1"}],
}


@pytest.fixture
def commands(tmp_path: Path, s3: S3Server) -> Iterator[Commands]:
    more = {"GROUPAGE_BEDROCK_MIN_REQUESTS": "50", "GROUPAGE_BEDROCK_PREFIX": f"cli/{tmp_path.name}"}
    options = {"turnaround": "1s", "faults": FAULTS, "min_records": 50}
    with commands_at(tmp_path, lambda base_url: s3.variables() | variables_of(base_url) | more, **options) as made:
        yield made


def test_two_hundred_portable_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "in.jsonl", (line_of(n, body_of(n)) for n in range(REQUESTS)))
    done = run(commands, source, "bedrock", "--policy", "max_shard_requests=100")
    results = all_answered_once(
        commands, done, tmp_path / "out.jsonl", "bedrock", lambda n: expected_text(CHAT, body_of(n))
    )
    assert {result["model"] for result in results} == {CLAUDE}
    assert {result["route"] for result in results} == {"batch", "sync"}, "what was too little for a job went by sync"
    assert set(commands.batches_by_tag().values()) == {1}
    left = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"cli/{tmp_path.name}/")
    assert left.get("KeyCount", 0) == 0, "nothing of the job is left in the bucket"
