"""`groupage run --provider vertex` and `groupage doctor`, from lines to the output file, with faults on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_world import Commands
from gcs_server import GcsServer
from groupage.emulator.answers import expected_text
from job_world import CHAT
from run_world import DAMAGED, LATER, REQUESTS, TROUBLE, all_answered_once, commands_at, line_of, run, write_lines
from vertex_world import CLAUDE, GEMINI, body_of, variables_of

FAULTS = {
    "requests": [*TROUBLE, DAMAGED],
    "calls": [
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        {"call": "batches.create", "action": "error", "status": 429, "message": "quota of batch jobs", "nth": [2]},
        *LATER,
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
def commands(tmp_path: Path, gcs: GcsServer) -> Iterator[Commands]:
    options = {"turnaround": "1s", "faults": FAULTS}
    with commands_at(tmp_path, lambda base_url: gcs.variables() | variables_of(base_url), **options) as made:
        yield made


def native(n: int) -> dict[str, Any]:
    return {
        "model": GEMINI,
        "contents": [{"role": "user", "parts": [{"text": f"question number {n} ?"}]}],
        "generationConfig": {"maxOutputTokens": 50},
        "labels": {"team": "search"},
    }


def model_of(n: int) -> str:
    return CLAUDE if 100 <= n < 150 else GEMINI


def test_portable_and_native_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path, gcs: GcsServer
) -> None:
    """Portable for Gemini, portable for Claude, native: they become batches of their own."""
    portable = [line_of(n, body_of(n, model_of(n))) for n in range(150)]
    others = [line_of(n, native(n), "/generateContent") for n in range(150, REQUESTS)]
    source = write_lines(tmp_path / "in.jsonl", portable + others)
    done = run(commands, source, "vertex", "--policy", "max_shard_requests=50")
    all_answered_once(
        commands, done, tmp_path / "out.jsonl", "vertex", lambda n: expected_text(CHAT, body_of(n, model_of(n)))
    )
    assert set(commands.batches_by_tag().values()) == {1}
    assert gcs.keys() == [], "nothing of the job is left in the bucket"


def test_doctor_asks_for_a_job_that_does_not_exist(commands: Commands) -> None:
    done = commands.call("doctor", "--json", "--provider", "vertex")
    assert {f["check"]: f["verdict"] for f in json.loads(done.stdout)}["provider vertex"] == "ok"
    assert commands.emulator.status()["calls"] == {"batches.list": 1}
    del commands.environment["GOOGLE_CLOUD_LOCATION"]
    (wrong,) = (f for f in json.loads(commands.call("doctor", "--json").stdout) if f["check"] == "provider vertex")
    assert wrong["verdict"] == "wrong"
    assert "GOOGLE_CLOUD_LOCATION" in wrong["detail"]
