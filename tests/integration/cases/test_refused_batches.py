"""Batches that the provider refuses, loses, makes twice or replaces: what becomes of the job's requests and its bill."""

import json
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from cli_world import Commands, line_of, read_results

pytestmark = pytest.mark.timeout(300)

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
