"""`groupage run --provider bedrock`, from portable lines to the output file, with faults on the way."""

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import orjson
import pytest
from bedrock_world import BUCKET, CHAT, CLAUDE, body_of, variables_of
from cli_world import Commands, read_results
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused
from s3_server import S3Server

REQUESTS = 200
FAULTS = {
    "requests": [
        {"kind": "http", "status": 429, "share": 0.05, "times": 1},
        {"kind": "http", "status": 500, "share": 0.05, "times": 1},
        {"kind": "malformed", "match": "question number 7 ?", "times": 1},
        {"kind": "missing", "match": "question number 11 ?", "times": 1},
    ],
    "calls": [
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        {
            "call": "batches.create",
            "action": "error",
            "status": 400,
            "code": "ServiceQuotaExceededException",
            "nth": [2],
        },
        {"call": "batches.retrieve", "action": "error", "status": 503, "every": 4},
        {"call": "sync", "action": "error", "status": 429, "every": 7},
    ],
    # Of the other shard than questions 7 and 11: what nobody can explain is tried in two rounds at most.
    "batches": [{"effect": "expire", "at": 0.7, "tag": "-r0-s1"}],
}


@pytest.fixture
def commands(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    for name, value in s3.variables().items():
        monkeypatch.setenv(name, value)
    with EmulatorProcess(tmp_path / "emulator", turnaround="1s", faults=FAULTS, min_records=50) as emulator:
        made = Commands(tmp_path, emulator)
        made.environment |= variables_of(emulator.base_url) | {"GROUPAGE_BEDROCK_MIN_REQUESTS": "50"}
        made.environment["GROUPAGE_BEDROCK_PREFIX"] = f"cli/{tmp_path.name}"
        yield made
        made.stop_all()
        stop_if_unused(made.state_dir)
        assert not is_running(ServerFiles.of(made.state_dir))


@pytest.mark.timeout(240)
def test_two_hundred_portable_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path
) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(
        b"".join(
            orjson.dumps({"custom_id": f"r{n}", "method": "POST", "url": CHAT, "body": body_of(n)}) + b"\n"
            for n in range(REQUESTS)
        )
    )
    done = commands.call(
        "run", source, "-o", output, "--provider", "bedrock", "--poll", "500ms", "--deadline", "10m", "--json",
        "--policy", "max_shard_requests=100", timeout_s=200,
    )  # fmt: skip
    unanswered = [result for result in read_results(output) if result["outcome"] != "succeeded"]
    assert not unanswered, done.stderr
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": REQUESTS}
    results = read_results(output)
    assert [result["id"] for result in results] == [f"r{n}" for n in range(REQUESTS)]
    for n, result in enumerate(results):
        assert result["text"] == expected_text(CHAT, body_of(n))
        assert (result["provider"], result["model"]) == ("bedrock", CLAUDE)
    ledger = commands.emulator.ledger()
    assert ledger["questions_answered_more_than_once"] == 0
    assert set(commands.batches_by_tag().values()) == {1}
    assert commands.emulator.status()["batches_live"] == 0
    left = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"cli/{tmp_path.name}/")
    assert left.get("KeyCount", 0) == 0, "nothing of the job is left in the bucket"
    routes = {result["route"] for result in results}
    assert routes == {"batch", "sync"}, "what was too little for a job went by sync"
