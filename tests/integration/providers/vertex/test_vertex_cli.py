"""`groupage run --provider vertex` and `groupage doctor`, from lines to the output file, with faults on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from cli_world import Commands, read_results
from gcs_server import GcsServer
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused
from job_world import CHAT
from vertex_world import CLAUDE, GEMINI, body_of, variables_of

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
        {"call": "batches.create", "action": "error", "status": 429, "message": "quota of batch jobs", "nth": [2]},
        {"call": "batches.retrieve", "action": "error", "status": 503, "every": 4},
        {"call": "sync", "action": "error", "status": 429, "every": 7},
    ],
    "batches": [
        # Of the other shard than questions 7 and 11: what nobody can explain is tried in two rounds at most.
        {"effect": "expire", "at": 0.7, "tag": "-r0-s1"},
        {"effect": "request_only"},
        {"effect": "unlabelled", "at": 0.5},
        {"effect": "rewritten"},
        {"effect": "parts", "files": 3},
    ],
}


@pytest.fixture
def commands(tmp_path: Path, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    for name, value in gcs.variables().items():
        monkeypatch.setenv(name, value)
    with EmulatorProcess(tmp_path / "emulator", turnaround="1s", faults=FAULTS) as emulator:
        made = Commands(tmp_path, emulator)
        made.environment |= variables_of(emulator.base_url)
        yield made
        made.stop_all()
        stop_if_unused(made.state_dir)
        assert not is_running(ServerFiles.of(made.state_dir))


def native(n: int) -> dict[str, Any]:
    return {
        "model": GEMINI,
        "contents": [{"role": "user", "parts": [{"text": f"question number {n} ?"}]}],
        "generationConfig": {"maxOutputTokens": 50},
        "labels": {"team": "search"},
    }


def line_of(n: int) -> dict[str, Any]:
    """Portable for Gemini, portable for Claude, native: they become batches of their own."""
    if n < 100:
        body, url = body_of(n), CHAT
    elif n < 150:
        body, url = body_of(n, CLAUDE), CHAT
    else:
        body, url = native(n), "/generateContent"
    return {"custom_id": f"r{n}", "method": "POST", "url": url, "body": body}


@pytest.mark.timeout(240)
def test_portable_and_native_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path, gcs: GcsServer
) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"".join(orjson.dumps(line_of(n)) + b"\n" for n in range(REQUESTS)))
    done = commands.call(
        "run", source, "-o", output, "--provider", "vertex", "--poll", "500ms", "--deadline", "10m", "--json",
        "--policy", "max_shard_requests=50", timeout_s=200,
    )  # fmt: skip
    unanswered = [result for result in read_results(output) if result["outcome"] != "succeeded"]
    assert not unanswered, done.stderr
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": REQUESTS}
    results = read_results(output)
    assert [result["id"] for result in results] == [f"r{n}" for n in range(REQUESTS)]
    for n, result in enumerate(results):
        model = CLAUDE if 100 <= n < 150 else GEMINI
        assert result["text"] == expected_text(CHAT, body_of(n, model))
        assert result["provider"] == "vertex"
    ledger = commands.emulator.ledger()
    assert ledger["questions_answered_more_than_once"] == 0
    assert set(commands.batches_by_tag().values()) == {1}
    assert commands.emulator.status()["batches_live"] == 0
    assert gcs.keys() == [], "nothing of the job is left in the bucket"


def test_doctor_asks_for_a_job_that_does_not_exist(commands: Commands) -> None:
    commands.environment["GROUPAGE_PROVIDERS__VERTEX__KIND"] = "vertex"
    done = commands.call("doctor", "--json", timeout_s=60)
    assert {f["check"]: f["verdict"] for f in json.loads(done.stdout)}["provider vertex"] == "ok"
    assert commands.emulator.status()["calls"] == {"batches.list": 1}
    del commands.environment["GOOGLE_CLOUD_LOCATION"]
    (wrong,) = (f for f in json.loads(commands.call("doctor", "--json").stdout) if f["check"] == "provider vertex")
    assert wrong["verdict"] == "wrong"
    assert "GOOGLE_CLOUD_LOCATION" in wrong["detail"]
