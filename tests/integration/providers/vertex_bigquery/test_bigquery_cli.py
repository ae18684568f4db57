"""`groupage run --provider vertex` with its data in BigQuery, from portable lines to the output file, with faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bigquery_plane import DATASET, LOCATION, PROJECT, variables_of
from cli_world import Commands, read_results
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from groupage.emulator.answers import expected_text
from job_world import CHAT, chat_body
from run_world import DAMAGED, LATER, REQUESTS, TROUBLE, all_answered_once, commands_at, line_of, run, write_lines
from vertex_world import GEMINI

FAULTS = {
    "requests": [*TROUBLE, DAMAGED],
    "calls": [
        {"call": "files.create", "action": "drop_after", "nth": [1]},
        {"call": "uploads.part", "action": "drop_after", "nth": [1]},
        {"call": "uploads.part", "action": "error", "status": 503, "nth": [2]},
        {"call": "batches.create", "action": "drop_after", "nth": [1]},
        LATER[0],
        {"call": "files.content", "action": "cut", "nth": [1, 3]},
        {"call": "files.delete", "action": "error", "status": 500, "nth": [1]},
    ],
    # Of the other shard than questions 7 and 11: what nobody can explain is tried in two rounds at most.
    "batches": [{"effect": "expire", "at": 0.7, "tag": "-r0-s1"}],
}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with commands_at(tmp_path, variables_of, turnaround="1s", faults=FAULTS) as made:
        yield made


def make_dataset(commands: Commands) -> bigquery.Client:
    root = commands.emulator.base_url.removesuffix("/v1")
    client = bigquery.Client(PROJECT, AnonymousCredentials(), client_options={"api_endpoint": root})
    dataset = bigquery.Dataset(f"{PROJECT}.{DATASET}")
    dataset.location = LOCATION
    client.create_dataset(dataset, retry=None)
    return client


def write_input(folder: Path, count: int) -> Path:
    return write_lines(folder / "in.jsonl", (line_of(n, chat_body(n, GEMINI)) for n in range(count)))


def test_two_hundred_portable_requests_are_all_answered_once_and_leave_no_table(
    commands: Commands, tmp_path: Path
) -> None:
    with make_dataset(commands) as client:
        done = run(commands, write_input(tmp_path, REQUESTS), "vertex", "--policy", "max_shard_requests=100")
        all_answered_once(
            commands, done, tmp_path / "out.jsonl", "vertex", lambda n: expected_text(CHAT, chat_body(n, GEMINI))
        )
        assert set(commands.batches_by_tag().values()) == {1}
        assert list(client.list_tables(f"{PROJECT}.{DATASET}", retry=None)) == []


def test_a_job_waits_for_a_missing_dataset_and_says_what_to_do(commands: Commands, tmp_path: Path) -> None:
    commands.emulator.set_faults({})
    process = commands.start(
        "run", write_input(tmp_path, 20), "-o", tmp_path / "out.jsonl", "--provider", "vertex", "--poll", "500ms",
        "--deadline", "10m",
    )  # fmt: skip
    assert process.stderr is not None
    asked = next(line for line in process.stderr if "waits for your decision" in line)
    for part in (f"GROUPAGE_VERTEX_DATA=bq://{PROJECT}.{DATASET}", f"mk --dataset {PROJECT}:{DATASET}"):
        assert part in asked
    make_dataset(commands).close()
    job = asked.split("job ")[1].split()[0]
    assert commands.call("decide", job, "retry").returncode == 0
    assert commands.finish(process).returncode == 0
    assert {result["outcome"] for result in read_results(tmp_path / "out.jsonl")} == {"succeeded"}
