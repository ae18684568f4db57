"""Batches that the provider refuses, loses, makes twice or replaces: what becomes of the job's requests and its bill."""

import json
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from cli_world import Commands, line_of, read_results

BAD_LINE = orjson.dumps(
    {"custom_id": "bad", "body": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "POISON"}]}}
)


@pytest.mark.parametrize("named", [True, False])
def test_promise_10_a_line_that_the_provider_cannot_parse_does_not_sink_its_neighbours(
    start: Callable[..., Commands], tmp_path: Path, named: bool
):
    groupage = start()
    refuse = {
        "effect": "refuse",
        "match": "POISON",
        "named": named,
        "code": "invalid_json_line",
        "message": "not parseable",
        "every": 1,
    }
    groupage.emulator.set_faults({"batches": [refuse]})
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(line_of(0) + BAD_LINE + b"\n" + line_of(1) + line_of(2))
    done = groupage.run(source, output, "--json")
    got = {result["id"]: result for result in read_results(output)}
    assert {name: result["outcome"] for name, result in got.items()} == {
        "r0": "succeeded", "bad": "failed", "r1": "succeeded", "r2": "succeeded",
    }  # fmt: skip
    assert got["bad"]["error"] == {
        "class": "invalid",
        "code": "invalid_json_line",
        "message": "input line 2: not parseable",
    }
    assert json.loads(done.stdout)["routes"] == {"batch": 4}
    assert groupage.emulator.ledger()["questions_answered_more_than_once"] == 0
    assert groupage.emulator.status()["files"] == []


def test_PO_01_a_batch_that_the_provider_does_not_find_by_its_id_is_found_by_its_tag_and_bought_once(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start()
    groupage.environment["GROUPAGE_ACTIVITIES__NOT_VISIBLE_S"] = "2"
    gone = {
        "call": "batches.retrieve",
        "action": "error",
        "status": 404,
        "code": "not_found",
        "message": "No such batch",
    }
    groupage.emulator.set_faults({"calls": [gone]})
    done = groupage.run(groupage.write_input(range(10)), tmp_path / "out.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    ledger = groupage.emulator.ledger()
    assert ledger["batch"]["billed"] + ledger["sync"]["billed"] == 10
    assert json.loads(done.stdout)["maybe_paid_twice"] == 0
    assert groupage.emulator.status()["files"] == []


@pytest.mark.slow
def test_promise_8_a_second_batch_of_a_shard_is_counted_ended_and_cleaned_up(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start(turnaround="6s")
    late = {"call": "batches.create", "action": "late", "seconds": 12, "nth": [1]}
    groupage.emulator.set_faults({"calls": [late]})
    source, output = groupage.write_input(range(12)), tmp_path / "out.jsonl"
    done = groupage.run(source, output, "--json", "--key", "twice")
    assert done.returncode == 0, done.stderr
    ledger, state = groupage.emulator.ledger(), groupage.emulator.status()
    assert len(state["batches"]) == 2, "the trial shows nothing"
    assert state["batches_live"] == 0
    assert state["files"] == []
    summary = json.loads(done.stdout)
    assert summary["maybe_paid_twice"] == 12
    assert "was made of the same requests" in summary["count_mismatches"][0]
    assert summary["left_behind"] == []
    # What the second one cost is known once it has ended, and every reader of the summary is told.
    told = json.loads(groupage.call("results", "twice", "-o", output, "--json").stdout)
    twice = ledger["questions_answered_more_than_once"]
    assert twice > 0
    assert float(told["waste_usd"]) == pytest.approx(ledger["batch"]["cost_usd"] - float(told["cost_usd"]))
