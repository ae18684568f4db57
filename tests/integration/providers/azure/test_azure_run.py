"""`groupage run --provider azure` with the endpoint alone, and what is said where it is missing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure_world import CLEARED, DEPLOYMENT, variables_of
from cli_world import Commands, read_results
from groupage.emulator.answers import expected_text
from job_world import CHAT, chat_body
from run_world import LATER, REQUESTS, TROUBLE, all_answered_once, commands_at, line_of, run
from run_world import write_lines as write

FAULTS = {
    "requests": TROUBLE,
    "calls": [
        {"call": "files.create", "action": "drop_after", "nth": [2]},
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        *LATER,
    ],
    "batches": [{"effect": "token_limit", "tag": "-r0-s1", "nth": [1]}],
}


@pytest.fixture
def commands(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Commands]:
    options = getattr(request, "param", {"faults": FAULTS, "turnaround": "1s"})
    cleared = (*CLEARED, "OPENAI_BASE_URL", "OPENAI_API_KEY")
    with commands_at(tmp_path, variables_of, cleared=cleared, api_key="right", **options) as made:
        yield made


def write_lines(path: Path, count: int = REQUESTS) -> Path:
    paths = ("/chat/completions", CHAT)
    return write(path, (line_of(n, chat_body(n, DEPLOYMENT), paths[n % 2]) for n in range(count)))


@pytest.mark.parametrize("version", ["", "2024-10-21"], ids=["v1", "legacy"])
def test_two_hundred_requests_are_all_answered_once_in_spite_of_faults(
    commands: Commands, tmp_path: Path, version: str
) -> None:
    commands.environment["OPENAI_API_VERSION"] = version
    done = run(commands, write_lines(tmp_path / "in.jsonl"), "azure", "--policy", "max_shard_requests=100")
    results = all_answered_once(
        commands, done, tmp_path / "out.jsonl", "azure", lambda n: expected_text(CHAT, chat_body(n, DEPLOYMENT))
    )
    assert {result["model"] for result in results} == {DEPLOYMENT}
    assert commands.emulator.status()["files"] == []


@pytest.mark.parametrize("commands", [{"max_enqueued_tokens": 350, "turnaround": "2s"}], indirect=True)
def test_QU_02_more_tokens_than_the_deployment_may_enqueue_wait_their_turn(commands: Commands, tmp_path: Path) -> None:
    """Five shards of some 110 tokens each, of which the deployment may have three at once."""
    source = write_lines(tmp_path / "in.jsonl", 50)
    done = run(commands, source, "azure", "--policy", "max_shard_requests=10", poll="100ms")
    assert done.returncode == 0, done.stderr
    assert {
        (result["outcome"], result["rounds"], result["route"]) for result in read_results(tmp_path / "out.jsonl")
    } == {("succeeded", 1, "batch")}
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
