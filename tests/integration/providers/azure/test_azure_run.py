"""`groupage run --provider azure` with the endpoint alone, and what is said where it is missing."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from azure_world import CHAT, CLEARED, DEPLOYMENT
from cli_world import Commands, read_results
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused
from job_world import chat_body

REQUESTS = 200
FAULTS = {
    "requests": [
        {"kind": "http", "status": 429, "share": 0.05, "times": 1},
        {"kind": "http", "status": 500, "share": 0.05, "times": 1},
        {"kind": "missing", "match": "question number 11 ?", "times": 1},
    ],
    "calls": [
        {"call": "files.create", "action": "drop_after", "nth": [2]},
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        {"call": "batches.retrieve", "action": "error", "status": 503, "every": 4},
        {"call": "sync", "action": "error", "status": 429, "every": 7},
    ],
    "batches": [{"effect": "token_limit", "tag": "-r0-s1", "nth": [1]}],
}


@pytest.fixture
def commands(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Commands]:
    options = getattr(request, "param", {"faults": FAULTS, "turnaround": "1s"})
    with EmulatorProcess(tmp_path / "emulator", api_key="right", **options) as emulator:
        made = Commands(tmp_path, emulator)
        for name in (*CLEARED, "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            made.environment.pop(name, None)
        root = emulator.base_url.removesuffix("/v1")
        made.environment |= {"AZURE_OPENAI_ENDPOINT": root, "AZURE_OPENAI_API_KEY": "right"}
        yield made
        made.stop_all()
        stop_if_unused(made.state_dir)
        assert not is_running(ServerFiles.of(made.state_dir))


def write_lines(path: Path, count: int = REQUESTS) -> Path:
    paths = ("/chat/completions", CHAT)
    lines = [
        {"custom_id": f"r{n}", "method": "POST", "url": paths[n % 2], "body": chat_body(n, DEPLOYMENT)}
        for n in range(count)
    ]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@pytest.mark.timeout(240)
@pytest.mark.parametrize("version", ["", "2024-10-21"], ids=["v1", "legacy"])
def test_two_hundred_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path, version: str
) -> None:
    source, output = write_lines(tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    commands.environment["OPENAI_API_VERSION"] = version
    done = commands.call(
        "run", source, "-o", output, "--provider", "azure", "--poll", "500ms", "--deadline", "10m", "--json",
        "--policy", "max_shard_requests=100", timeout_s=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": REQUESTS}
    results = read_results(output)
    assert [result["id"] for result in results] == [f"r{n}" for n in range(REQUESTS)]
    for n, result in enumerate(results):
        assert result["text"] == expected_text(CHAT, chat_body(n, DEPLOYMENT))
        assert (result["provider"], result["model"]) == ("azure", DEPLOYMENT)
    assert commands.emulator.ledger()["questions_answered_more_than_once"] == 0
    status = commands.emulator.status()
    assert (status["batches_live"], status["files"]) == (0, [])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("commands", [{"max_enqueued_tokens": 350, "turnaround": "2s"}], indirect=True)
def test_QU_02_more_tokens_than_the_deployment_may_enqueue_wait_their_turn(commands: Commands, tmp_path: Path) -> None:
    """Five shards of some 110 tokens each, of which the deployment may have three at once."""
    source, output = write_lines(tmp_path / "in.jsonl", 50), tmp_path / "out.jsonl"
    done = commands.call(
        "run", source, "-o", output, "--provider", "azure", "--poll", "100ms", "--deadline", "10m", "--json",
        "--policy", "max_shard_requests=10", timeout_s=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {(result["outcome"], result["rounds"], result["route"]) for result in read_results(output)} == {
        ("succeeded", 1, "batch")
    }
    batches = commands.emulator.status()["batches"]
    assert any(batch["status"] == "failed" for batch in batches), "the limit was never met: the trial shows nothing"
    assert commands.emulator.ledger()["questions_answered_more_than_once"] == 0
    assert commands.emulator.status()["files"] == []


def test_without_an_endpoint_nothing_is_sent_and_the_variable_is_named(commands: Commands, tmp_path: Path) -> None:
    del commands.environment["AZURE_OPENAI_ENDPOINT"]
    source = write_lines(tmp_path / "in.jsonl")
    done = commands.call("run", source, "-o", tmp_path / "out.jsonl", "--provider", "azure")
    assert done.returncode == 2
    assert "AZURE_OPENAI_ENDPOINT" in done.stderr


@pytest.mark.parametrize(("key", "verdict"), [("right", "ok"), ("wrong", "wrong")])
def test_the_doctor_asks_for_a_batch_that_is_not_there(commands: Commands, key: str, verdict: str) -> None:
    commands.environment["AZURE_OPENAI_API_KEY"] = key
    commands.environment["GROUPAGE_PROVIDERS__AZURE__KIND"] = "azure"
    found = json.loads(commands.call("doctor", "--json").stdout)
    (azure,) = [one for one in found if one["check"] == "provider azure"]
    assert azure["verdict"] == verdict, azure
    if key == "wrong":
        assert "not one of this resource" in azure["hint"]
