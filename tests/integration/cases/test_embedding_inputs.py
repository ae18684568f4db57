"""Batches of embeddings hold so many inputs, however few their requests are."""

import json
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from cli_world import Commands, read_results

pytestmark = pytest.mark.timeout(300)

MOST = 30


def run(groupage: Commands, folder: Path, *options: str) -> tuple[list[str], dict[str, int]]:
    """A job of 24 requests with 5 inputs each at a provider that takes 30 a batch: how its batches ended, and its
    requests.
    """
    source, output = folder / "in.jsonl", folder / "out.jsonl"
    bodies = [{"model": "text-embedding-3-small", "input": [f"text {n} {k}" for k in range(5)]} for n in range(24)]
    lines = [{"custom_id": f"e{n}", "url": "/v1/embeddings", "body": body} for n, body in enumerate(bodies)]
    source.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    done = groupage.run(source, output, "--json", *options)
    assert done.returncode == 0, done.stderr
    for result in read_results(output):
        assert len(result["body"]["data"]) == 5
    ledger = groupage.emulator.ledger()
    assert ledger["questions_answered_more_than_once"] == 0
    assert groupage.emulator.status()["files"] == []
    return [batch["status"] for batch in groupage.emulator.status()["batches"]], json.loads(done.stdout)["outcomes"]


def test_IV_16_embeddings_are_cut_by_their_inputs_so_that_no_batch_is_refused(
    start: Callable[..., Commands], tmp_path: Path
):
    groupage = start(max_embedding_inputs=MOST)
    groupage.environment["GROUPAGE_PROVIDERS__OPENAI__MAX_INPUTS"] = str(MOST)
    statuses, outcomes = run(groupage, tmp_path)
    assert statuses == ["completed"] * 4
    assert outcomes == {"succeeded": 24}


def test_QU_07_a_batch_refused_for_its_inputs_is_cut_and_the_line_that_is_named_is_not_at_fault(
    start: Callable[..., Commands], tmp_path: Path
):
    """The limit that is known is too high: 120 inputs go in one batch, then 60 each, then 30."""
    groupage = start(max_embedding_inputs=MOST)
    statuses, outcomes = run(groupage, tmp_path)
    assert sorted(statuses) == ["completed"] * 4 + ["failed"] * 3
    assert outcomes == {"succeeded": 24}
