"""What the command says of jobs that failed, that nobody works on, or that lie on another task queue."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_world import Commands
from groupage.client.local_server import find_local_server
from temporalio.client import Client


@pytest.fixture
def address(groupage: Commands) -> Iterator[str]:
    """Of an embedded server with a worker, for the time of the test."""
    dev = groupage.start("dev")
    assert dev.stderr is not None
    for line in dev.stderr:
        if "task queues:" in line:
            break
    server = find_local_server(groupage.state_dir)
    assert server is not None
    yield server.address
    dev.terminate()
    dev.communicate(timeout=150)


def until(groupage: Commands, key: str, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    give_up_at = time.monotonic() + 150
    while True:
        asked = groupage.call("status", key, "--json")
        assert asked.returncode == 0, asked.stderr
        status: dict[str, Any] = json.loads(asked.stdout)
        if true(status):
            return status
        assert time.monotonic() < give_up_at, status


async def test_a_job_that_failed_without_a_summary_says_why(groupage: Commands, address: str) -> None:
    client = await Client.connect(address)
    spec = {"key": "gone", "model": "m", "input_url": "file:///no-such-file.jsonl"}
    await client.start_workflow("BatchJob", spec, id="job/default/gone", task_queue="groupage")
    status = until(groupage, "gone", lambda status: status["state"] == "failed")
    assert "no-such-file.jsonl" in status["reason"]
    assert status["health"] is None
    assert status["next_step"]
    shown = groupage.call("status", "gone").stdout
    assert "on_track" not in shown
    assert "no-such-file.jsonl" in shown
    results = groupage.call("results", "gone")
    assert results.returncode == 4, results.stderr
    assert "ended failed" in results.stderr
    assert "watch" not in results.stderr
    cancelled = groupage.call("cancel", "gone")
    assert cancelled.returncode == 2
    assert "has ended: failed" in cancelled.stderr


def test_the_embedded_server_by_another_name_is_the_same_one(groupage: Commands, address: str) -> None:
    port = address.rpartition(":")[2]
    groupage.environment["TEMPORAL_ADDRESS"] = f"localhost:{port}"
    submitted = groupage.call("submit", groupage.write_input(range(2)), "--key", "k", "--poll", "500ms", "--json")
    assert submitted.returncode == 0, submitted.stderr
    assert json.loads(submitted.stdout)["task_queue"] == "groupage"
    assert json.loads(submitted.stdout)["polled"] is True
    until(groupage, "k", lambda status: status["state"] == "completed")
    assert "default/k" in groupage.call("jobs").stdout


def test_a_job_that_nobody_polls_for_says_so_and_where(groupage: Commands, address: str) -> None:
    del address
    groupage.environment["GROUPAGE_TASK_QUEUE"] = "elsewhere"
    submitted = groupage.call("submit", groupage.write_input(range(2)), "--key", "k")
    assert "no worker polls task queue elsewhere" in submitted.stderr
    del groupage.environment["GROUPAGE_TASK_QUEUE"]
    status = until(groupage, "k", lambda status: status["health"] == "unclaimed")
    assert status["task_queue"] == "elsewhere"
    assert "nobody polls its task queue elsewhere" in status["reason"]
    assert "groupage worker --task-queue elsewhere" in status["next_step"]
    watch = groupage.start("watch", "k")
    assert watch.stderr is not None
    said = ""
    for line in watch.stderr:
        said += line
        if "groupage worker --task-queue elsewhere" in line:
            break
    watch.terminate()
    groupage.finish(watch)
    assert "is on task queue elsewhere; the worker of this command polls groupage" in said
    assert "nobody polls" in said
    groupage.environment["GROUPAGE_TASK_QUEUE"] = "elsewhere"
    cancelled = groupage.call("cancel", "k")
    assert cancelled.returncode == 0, cancelled.stderr
    assert "results:" not in cancelled.stderr.splitlines()


def test_abort_does_not_say_that_the_job_goes_on(groupage: Commands, address: str) -> None:
    del address
    source = groupage.write_input(range(2))
    assert groupage.call("submit", source, "--key", "k", "--max-cost", "0.0000001").returncode == 0
    until(groupage, "k", lambda status: status["state"] == "needs_decision")
    decided = groupage.call("decide", "k", "abort", "--no-worker")
    assert decided.returncode == 0, decided.stderr
    assert "goes on" not in decided.stderr
    assert "ends as cancelled" in decided.stderr
    until(groupage, "k", lambda status: status["state"] == "cancelled")


@pytest.fixture
def without_anthropic(groupage: Commands, tmp_path: Path) -> None:
    """For the commands of this test, Anthropic's package is one that nobody has installed."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['anthropic'] = None\n")
    groupage.environment |= {"PYTHONPATH": str(tmp_path / "site"), "ANTHROPIC_API_KEY": "test"}


@pytest.mark.usefixtures("without_anthropic", "address")
def test_a_worker_without_the_sdk_asks_and_says_how_to_install_it(groupage: Commands) -> None:
    source = groupage.write_input(range(2))
    more = ("--provider", "anthropic", "--model", "claude-haiku-4-5", "--key", "k")
    assert groupage.call("submit", source, *more).returncode == 0
    status = until(groupage, "k", lambda status: status["state"] in {"needs_decision", "failed"})
    assert status["state"] == "needs_decision", status
    assert "the SDK of anthropic cannot be imported" in status["reason"]
    assert "pip install 'groupage[anthropic]'" in status["reason"]


def test_where_every_batch_fails_as_a_whole_the_question_and_the_end_are_in_the_providers_words(
    groupage: Commands, address: str
) -> None:
    del address
    words = "Your organisation is not allowed"
    groupage.emulator.set_faults({"batches": [{"effect": "fail", "code": "bad", "message": words}]})
    submitted = groupage.call("submit", groupage.write_input(range(6)), "--key", "k", "--poll", "500ms")
    assert submitted.returncode == 0, submitted.stderr
    status = until(groupage, "k", lambda status: status["state"] == "needs_decision")
    assert "fails every batch of this job as a whole" in status["reason"]
    assert words in status["reason"]
    assert groupage.call("decide", "k", "accept", "--no-worker").returncode == 0
    until(groupage, "k", lambda status: status["state"] == "failed")
    assert f"6 × unknown/bad: {words}" in groupage.call("results", "k", "-o", groupage.directory / "out").stderr
