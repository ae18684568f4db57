"""Commands that stay, the client beside them, plain JSON, and the demo."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_world import Commands, assert_answers, body_of
from groupage.client import ClientSettings, Groupage
from groupage.client.local_server import ServerFiles, find_local_server, is_running
from groupage.emulator.process import EmulatorProcess
from groupage.schemas import Decision, JobState
from groupage.schemas.errors import KeyConflict, UnknownJob, UsageError
from groupage.workers.embedded import find_binary

EXAMPLES = Path(__file__).parents[3] / "examples"


class Dev:
    """`groupage dev` (or `groupage worker`) in the background."""

    def __init__(self, groupage: Commands, *arguments: str) -> None:
        self.process = groupage.start(*arguments)
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "task queues:" in line:
                return
        raise AssertionError(self.said)

    @property
    def address(self) -> str:
        found = re.search(r"Temporal (127\.0\.0\.1:\d+)", self.said)
        assert found, self.said
        return found[1]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=150)
        return self.process.returncode


@pytest.fixture
def dev(groupage: Commands) -> Iterator[Dev]:
    started = Dev(groupage, "dev")
    yield started
    assert started.stop() == 0
    assert not is_running(ServerFiles.of(groupage.state_dir))


def requests(numbers: range) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "endpoint": "/v1/chat/completions", "body": body_of(n)} for n in numbers]


async def test_the_client_submits_waits_reads_and_attaches(groupage: Commands, dev: Dev) -> None:
    client = await Groupage.connect(settings=ClientSettings(state_dir=groupage.state_dir))
    job = await client.submit(requests(range(8)), key="k", tenant="t", deadline="10m", policy={"poll": "500ms"})
    assert job.url is not None
    assert "job%2Ft%2Fk" in job.url
    same = await client.submit(requests(range(8)), key="k", tenant="t", deadline="10m")
    assert same.workflow_id == job.workflow_id
    with pytest.raises(KeyConflict):
        await client.submit(requests(range(9)), key="k", tenant="t", deadline="10m")
    read = [result async for result in job.results()]
    assert [result.id for result in read] == [f"r{n}" for n in range(8)]
    summary = await (await client.attach("k", "t")).result()
    assert summary.state is JobState.completed
    assert (await job.status()).answered == 8
    await job.cancel("too late to matter")
    with pytest.raises(UnknownJob):
        await client.attach("nobody", "t")
    assert len(groupage.emulator.status()["batches"]) == 1
    assert dev.process.poll() is None


async def test_a_decision_that_nobody_asked_for_is_refused(groupage: Commands, dev: Dev) -> None:
    groupage.emulator.set_faults({"batches": [{"effect": "turnaround", "seconds": "1h", "nth": [1]}]})
    client = await Groupage.connect(settings=ClientSettings(state_dir=groupage.state_dir))
    job = await client.submit(requests(range(2)), key="slow", deadline="10m", policy={"poll": "500ms"})
    groupage.wait_until_submitted()
    with pytest.raises(UsageError, match="nothing is to be decided"):
        await job.decide(Decision.go_on)
    await job.cancel("enough")
    assert (await job.wait()).state is JobState.cancelled
    assert dev.process.poll() is None


def test_a_job_started_with_plain_json_runs_like_any_other(groupage: Commands, dev: Dev, tmp_path: Path) -> None:
    source = groupage.write_input(range(5))
    spec = json.loads((EXAMPLES / "job.json").read_text())
    spec |= {"input_url": source.as_uri(), "deadline": "10m"}
    spec["policy"] |= {"poll": "500ms"}
    (tmp_path / "job.json").write_text(json.dumps(spec))
    subprocess.run(
        [
            *(find_binary(), "workflow", "execute", "--address", dev.address, "--type", "BatchJob"),
            *("--task-queue", "groupage", "--workflow-id", "job/examples/capitals"),
            *("--input-file", str(tmp_path / "job.json")),
        ],
        check=True,
        capture_output=True,
        timeout=200,
    )
    written = groupage.call("results", "examples/capitals", "-o", tmp_path / "out.jsonl")
    assert written.returncode == 0, written.stderr
    assert_answers(tmp_path / "out.jsonl", range(5))


def test_the_python_example_runs(groupage: Commands, dev: Dev) -> None:
    command = [sys.executable, str(EXAMPLES / "submit_from_python.py"), str(EXAMPLES / "questions.jsonl")]
    done = subprocess.run(command, env=groupage.environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "capital-es: succeeded" in done.stdout
    assert "completed" in done.stdout
    assert dev.process.poll() is None


def test_with_a_configured_server_run_uses_it_and_starts_none(groupage: Commands, dev: Dev, tmp_path: Path) -> None:
    server = find_local_server(groupage.state_dir)
    assert server is not None
    # Another user of that server, with a store of their own.
    groupage.environment |= {"TEMPORAL_ADDRESS": dev.address, "GROUPAGE_STATE_DIR": str(tmp_path / "other")}
    source, output = groupage.write_input(range(4)), tmp_path / "out.jsonl"
    worker = Dev(groupage, "worker")
    owned = re.search(r"task queues: (groupage-[a-z2-7]{6}), groupage;", worker.said)
    assert owned, worker.said
    done = groupage.run(source, output, "--no-worker")
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(4))
    findings = {f["check"]: f for f in json.loads(groupage.call("doctor", "--json").stdout)}
    assert findings["activity workers"]["verdict"] == "ok"
    assert owned[1] in findings["activity workers"]["detail"]
    assert worker.stop() == 0
    assert not ServerFiles.of(tmp_path / "other").directory.exists()


def test_the_same_name_in_another_store_on_one_server_is_a_conflict(
    groupage: Commands, dev: Dev, tmp_path: Path
) -> None:
    source = groupage.write_input(range(2))
    assert groupage.call("submit", source, "--key", "k").returncode == 0
    groupage.environment |= {"TEMPORAL_ADDRESS": dev.address, "GROUPAGE_STATE_DIR": str(tmp_path / "other")}
    refused = groupage.run(source, tmp_path / "out.jsonl", "--key", "k")
    assert refused.returncode == 2
    assert "another store" in refused.stderr


def test_doctor_names_what_is_wrong_and_shows_no_key(groupage: Commands) -> None:
    fine = groupage.call("doctor", "--json")
    assert fine.returncode == 0, fine.stdout
    verdicts = {finding["check"]: finding["verdict"] for finding in json.loads(fine.stdout)}
    # The emulated provider sends no Date header at this address: nothing to judge the clock by is no fault.
    assert verdicts.pop("clock") in {"ok", "note"}
    assert verdicts == {"settings": "ok", "store": "ok", "temporal": "ok", "provider openai": "ok"}
    del groupage.environment["OPENAI_API_KEY"]
    open_to_all = json.loads(groupage.call("doctor", "--json").stdout)
    (found,) = [each for each in open_to_all if each["check"] == "provider openai"]
    assert (found["verdict"], "no key is set" in found["detail"]) == ("ok", True)
    groupage.emulator.stop()
    groupage.environment |= {"OPENAI_API_KEY": "sk-secret"}
    ill = groupage.call("doctor")
    assert ill.returncode == 1
    assert "wrong" in ill.stdout
    assert "sk-secret" not in ill.stdout + ill.stderr


def test_dev_says_how_the_temporal_command_reaches_it(groupage: Commands, dev: Dev) -> None:
    found = re.search(r"for the temporal command \((.+)\): export TEMPORAL_ADDRESS=(\S+)", dev.said)
    assert found, dev.said
    environment = groupage.environment | {"TEMPORAL_ADDRESS": found[2]}
    asked = subprocess.run(
        [found[1], "operator", "search-attribute", "list"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "GroupageState" in asked.stdout, asked.stderr


def test_dev_refuses_to_embed_beside_a_configured_server(groupage: Commands) -> None:
    groupage.environment |= {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    refused = groupage.call("dev")
    assert refused.returncode == 2
    assert "configured" in refused.stderr
    unreachable = groupage.call("jobs", "--json")
    assert "cannot be reached" in unreachable.stderr


def test_the_demo_keeps_its_promises_and_cleans_up(groupage: Commands, emulator: EmulatorProcess) -> None:
    began = time.monotonic()
    done = groupage.call("demo", "--requests", "80", "--turnaround", "1s", "--json", timeout_s=240)
    assert done.returncode == 0, done.stderr
    assert "--keep leaves it up" in done.stderr
    told = json.loads(done.stdout)
    assert all(told["checks"].values())
    assert told["summary"]["requests"] == sum(told["summary"]["outcomes"].values()) == 80
    assert told["seconds"] < time.monotonic() - began
    assert emulator.status()["batches"] == []


def test_the_emulator_command_hands_its_options_on(groupage: Commands, tmp_path: Path) -> None:
    process = groupage.start("emulator", "--state", tmp_path / "second", "--turnaround", "1s")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["base_url"].startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=150)
    assert groupage.call("emulator", "--nothing").returncode == 2
