"""`groupage run --provider anthropic` from end to end: portable requests, a lost create call, and other trouble."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from cli_world import Commands, read_results
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.schemas.portable import translate
from groupage.workers.embedded import stop_if_unused

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
MODEL = "claude-sonnet-4-5"
REQUESTS = 200


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    faults: dict[str, Any] = {
        "requests": [
            {"kind": "http", "status": 529, "share": 0.1, "times": 1, "routes": ["batch"]},
            {"kind": "truncated", "match": "Say 7 in words"},
            {"kind": "refused", "match": "Say 11 in words"},
            {"kind": "malformed", "match": "Say 13 in words", "times": 1},
        ],
        "calls": [
            {"call": "batches.create", "action": "drop_after", "nth": [1]},
            {"call": "batches.create", "action": "error", "status": 429, "retry_after": 1, "nth": [3]},
            {"call": "batches.retrieve", "action": "error", "status": 404, "nth": [2]},
            {"call": "batches.retrieve", "action": "html", "nth": [4]},
            {"call": "files.content", "action": "cut", "nth": [2]},
            {"call": "files.content", "action": "error", "status": 404, "nth": [4]},
        ],
    }
    with EmulatorProcess(tmp_path / "emulator", turnaround="2s", faults=faults) as running:
        yield running


@pytest.fixture
def groupage(tmp_path: Path, emulator: EmulatorProcess) -> Iterator[Commands]:
    commands = Commands(tmp_path, emulator)
    commands.environment |= {"ANTHROPIC_BASE_URL": emulator.base_url, "ANTHROPIC_API_KEY": "test"}
    yield commands
    commands.stop_all()
    stop_if_unused(commands.state_dir)
    assert not is_running(ServerFiles.of(commands.state_dir))


def body_of(number: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": f"Say {number} in words."}]
    return {"model": MODEL, "messages": messages, "max_tokens": 200}


@pytest.mark.timeout(400)
def test_200_portable_requests_come_home_through_a_lost_create_call_and_other_trouble(
    groupage: Commands, emulator: EmulatorProcess, tmp_path: Path
) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [{"custom_id": f"r{n}", "method": "POST", "url": CHAT, "body": body_of(n)} for n in range(REQUESTS)]
    source.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))

    done = groupage.call(
        "run", source, "-o", output, "--provider", "anthropic", "--poll", "500ms", "--deadline", "20m", "--json",
        "--policy", "max_shard_requests=100", timeout_s=300,
    )  # fmt: skip

    results = read_results(output)
    assert [result["id"] for result in results] == [f"r{n}" for n in range(REQUESTS)]
    wanted = Counter({"succeeded": REQUESTS - 2, "truncated": 1, "refused": 1})
    assert Counter(result["outcome"] for result in results) == wanted, done.stderr
    for number, result in enumerate(results):
        if result["outcome"] == "succeeded":
            native = translate("anthropic", MODEL, CHAT, body_of(number))
            assert result["text"] == expected_text(MESSAGES, native), number
    told = json.loads(done.stdout)
    assert told["state"] == "completed_with_failures"
    ledger = emulator.ledger()
    assert ledger["questions_paid_more_than_once"] == 1, "only the line that came back damaged was sent again"
    assert set(groupage.batches_by_tag().values()) == {1}, "one batch a submission, the lost create call included"
    assert emulator.status()["files"] == [], "every batch was deleted with its results"
