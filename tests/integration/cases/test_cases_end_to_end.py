"""Cases of the catalogue that concern a whole job: one provider process, one Temporal server, the real command."""

import json
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import zstandard
from cli_world import Commands, assert_answers, read_results

EVERY_BATCH = list(range(1, 100))


def run_in_background(groupage: Commands, source: Path, output: Path, *more: object) -> "subprocess.Popen[str]":
    return groupage.start("run", source, "-o", output, "--poll", "500ms", "--deadline", "10m", "--json", *more)


def wait_until(holds: Callable[[], bool], what: str, within_s: float = 180.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"{what}: not within {within_s:.0f} s"
        time.sleep(0.1)


def summary_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    return dict(json.loads(done.stdout))


def assert_nothing_paid_twice_or_left(groupage: Commands, questions: int) -> None:
    ledger, state = groupage.emulator.ledger(), groupage.emulator.status()
    assert ledger["questions_answered"] == questions
    assert ledger["questions_answered_more_than_once"] == 0
    assert state["files"] == []
    assert state["batches_live"] == 0


def test_QU_02_more_tokens_than_the_account_may_enqueue_wait_their_turn(start: Callable[..., Commands], tmp_path: Path):
    # Five shards of some 100 tokens each, of which the account may have about three at once.
    groupage = start(max_enqueued_tokens=350, turnaround="2s")
    source, output = groupage.write_input(range(50)), tmp_path / "out.jsonl"
    # Polling ten times a second also makes the pauses after a refusal short.
    done = groupage.call(
        "run", source, "-o", output, "--poll", "100ms", "--deadline", "10m", "--policy", "max_shard_requests=10"
    )
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(50))
    batches = groupage.emulator.status()["batches"]
    refused = [batch for batch in batches if batch["status"] == "failed"]
    assert refused, "the limit was never met: the trial shows nothing"
    # What was refused went again with the file that it had.
    files = {batch["input_file_id"] for batch in batches if batch["status"] == "completed"}
    assert {batch["input_file_id"] for batch in refused} <= files
    assert_nothing_paid_twice_or_left(groupage, 50)
    # A refusal of the whole batch is no failure of any request, and no round of its own.
    assert {(result["rounds"], result["route"]) for result in read_results(output)} == {(1, "batch")}


def test_QU_03_cancelled_failed_and_expired_batches_hold_no_quota(start: Callable[..., Commands], tmp_path: Path):
    # The account takes one such job at a time: whatever held its tokens would refuse the next one.
    groupage = start(max_enqueued_tokens=150)
    groupage.emulator.set_faults({"batches": [{"effect": "stall", "nth": EVERY_BATCH}]})
    cancelled = run_in_background(
        groupage, groupage.write_input(range(10), "a.jsonl"), tmp_path / "a.out", "--key", "a"
    )
    groupage.wait_until_submitted()
    assert groupage.call("cancel", "a").returncode == 0
    assert groupage.finish(cancelled).returncode == 4

    for name, first, effect in (("b", 100, {"effect": "expire", "at": 0.5}), ("c", 200, {"effect": "fail"})):
        ended = len(groupage.emulator.status()["batches"])
        groupage.emulator.set_faults({"batches": [{**effect, "nth": [ended + 1]}]})
        numbers = range(first, first + 10)
        done = groupage.run(groupage.write_input(numbers, f"{name}.jsonl"), tmp_path / f"{name}.out", "--key", name)
        assert done.returncode == 0, done.stderr
        assert_answers(tmp_path / f"{name}.out", numbers)
    last = groupage.run(groupage.write_input(range(300, 310), "d.jsonl"), tmp_path / "d.out", "--key", "d")
    assert last.returncode == 0, last.stderr
    assert_answers(tmp_path / "d.out", range(300, 310))
    # None of them ever met the limit: each had given back what it held.
    ended = groupage.emulator.status()["batches"]
    assert [batch["status"] for batch in ended if batch["effects"] == []].count("failed") == 0


def test_QU_06_an_account_that_is_refused_asks_and_goes_on_once_it_is_mended(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start()
    groupage.emulator.set_faults(
        {"calls": [{"call": "files.create", "action": "error", "status": 401, "code": "invalid_api_key", "every": 1}]}
    )
    output = tmp_path / "out.jsonl"
    running = groupage.start("run", groupage.write_input(range(5)), "-o", output, "--poll", "500ms", "--key", "job")
    assert running.stderr is not None
    for line in running.stderr:
        if "groupage decide" in line:
            break
    groupage.emulator.set_faults({})
    assert groupage.call("decide", "job", "go_on").returncode == 0
    assert groupage.finish(running).returncode == 0
    assert_answers(output, range(5))
    assert_nothing_paid_twice_or_left(groupage, 5)


def test_QU_07_a_job_whose_batch_is_over_the_providers_limit_is_answered_all_the_same(
    start: Callable[..., Commands], tmp_path: Path
):
    # The adapter believes in 50,000 requests a batch; this account takes ten.
    groupage = start(max_requests=10)
    output = tmp_path / "out.jsonl"
    done = groupage.run(groupage.write_input(range(32)), output)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(32))
    assert_nothing_paid_twice_or_left(groupage, 32)


def test_QU_07_a_batch_over_the_providers_limit_is_cut_and_not_sent_again_unchanged(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start(max_requests=10)
    done = groupage.run(groupage.write_input(range(32)), tmp_path / "out.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert summary_of(done)["routes"] == {"batch": 32}
    assert len(groupage.emulator.status()["batches"]) <= 1 + 2 + 4


def test_PO_19_a_batch_that_stands_still_and_cannot_be_cancelled_does_not_hold_the_job(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start(
        faults={
            "batches": [
                {"effect": "stall", "at": 27 / 64, "nth": EVERY_BATCH},
                {"effect": "never_expires", "nth": EVERY_BATCH},
                {"effect": "slow_cancel", "nth": EVERY_BATCH},
            ]
        }
    )
    output = tmp_path / "out.jsonl"
    source = groupage.write_input(range(64))
    done = groupage.call("run", source, "-o", output, "--poll", "500ms", "--deadline", "45s", "--json")
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(64))
    summary = summary_of(done)
    assert summary["routes"] == {"sync": 64}
    assert datetime.fromisoformat(summary["finished_at"]) <= datetime.fromisoformat(summary["deadline_at"])
    (batch,) = groupage.emulator.status()["batches"]
    assert batch["status"] == "cancelling", "it goes on at the provider"
    assert any(batch["id"] in text for text in summary["left_behind"]), "and the summary says so"


def test_PO_22_a_gateways_page_instead_of_json_is_an_outage_not_an_answer(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start(
        faults={
            "calls": [
                {"call": "batches.retrieve", "action": "html", "every": 2},
                {"call": "batches.create", "action": "html", "nth": [1]},
                {"call": "files.create", "action": "html", "nth": [1]},
                {"call": "files.content", "action": "html", "nth": [1]},
            ]
        }
    )
    output = tmp_path / "out.jsonl"
    done = groupage.run(groupage.write_input(range(10)), output)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(10))
    assert_nothing_paid_twice_or_left(groupage, 10)


def test_CL_05_files_stay_until_the_results_are_stored(start: Callable[..., Commands], tmp_path: Path):
    groupage = start(faults={"calls": [{"call": "files.content", "action": "error", "status": 503, "every": 1}]})
    output = tmp_path / "out.jsonl"
    running = run_in_background(groupage, groupage.write_input(range(10)), output)

    def calls(name: str) -> int:
        return int(groupage.emulator.status()["calls"].get(name, 0))

    wait_until(lambda: calls("files.content") >= 2, "the download is tried again")
    state = groupage.emulator.status()
    assert {file["purpose"] for file in state["files"]} == {"batch", "batch_output"}
    assert calls("files.delete") == 0
    groupage.emulator.set_faults({})
    assert groupage.finish(running).returncode == 0
    assert_answers(output, range(10))
    assert calls("files.delete") >= 2
    assert_nothing_paid_twice_or_left(groupage, 10)


def test_promise_9_no_secret_reaches_temporal_or_the_store(start: Callable[..., Commands], tmp_path: Path):
    secret = "sk-only-the-worker-knows-this"
    groupage = start(
        api_key=secret, faults={"calls": [{"call": "batches.retrieve", "action": "error", "status": 500, "nth": [2]}]}
    )
    groupage.environment["OPENAI_API_KEY"] = secret
    done = groupage.run(groupage.write_input(range(5)), tmp_path / "out.jsonl", "--key", "named-here")
    assert done.returncode == 0, done.stderr
    assert secret not in done.stdout + done.stderr
    where_named = set()
    for path in groupage.state_dir.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        assert secret.encode() not in data, f"the key is in {path}"
        if b"named-here" in data:
            where_named.add(path.name)
    # What is not secret is found in both places: the scan sees what there is.
    assert "summary.json" in where_named
    assert any(name.startswith("temporal.db") for name in where_named)
