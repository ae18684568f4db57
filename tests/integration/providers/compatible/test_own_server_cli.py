"""A server that nobody has heard of, added by a catalog of one's own: no code, one file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import ENDPOINT, Commands, body_of, read_results
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused

FAULTS = {
    "requests": [{"kind": "http", "status": 500, "share": 0.1, "times": 1}],
    "calls": [{"call": "batches.create", "action": "drop_after", "nth": [1]}],
}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with EmulatorProcess(tmp_path / "emulator", turnaround="1s", faults=FAULTS) as emulator:
        made = Commands(tmp_path, emulator)
        catalog = tmp_path / "catalog.toml"
        catalog.write_text(
            f"""
            [providers.myserver]
            title = "our own"
            dialect = "openai"
            base_url = "{emulator.flavour_url("odd")}"
            api_key_env = "MYSERVER_KEY"
            needs_key = true
            max_requests = 30
            list_takes_parameters = false
            metadata = false
            file_sizes = false
            batch_discount = 1
            """
        )
        del made.environment["OPENAI_API_KEY"], made.environment["OPENAI_BASE_URL"]
        made.environment |= {"GROUPAGE_CATALOG": str(catalog), "MYSERVER_KEY": "test"}
        yield made
        made.stop_all()
        stop_if_unused(made.state_dir)
        assert not is_running(ServerFiles.of(made.state_dir))


def test_a_server_of_ones_own_is_added_by_a_catalog_and_used_by_its_name(commands: Commands, tmp_path: Path) -> None:
    source, output = commands.write_input(range(60)), tmp_path / "out.jsonl"
    done = commands.call(
        "run", source, "-o", output, "--provider", "myserver", "--poll", "500ms", "--deadline", "10m", "--json",
        timeout_s=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": 60}
    for n, result in enumerate(read_results(output)):
        assert (result["id"], result["provider"]) == (f"r{n}", "myserver")
        assert result["text"] == expected_text(ENDPOINT, body_of(n))
    status = commands.emulator.status()
    assert (status["files"], status["batches_live"]) == ([], 0)
    assert len(status["batches"]) >= 2, "by the catalog's limit of 30 requests"
    assert commands.emulator.ledger()["questions_answered_more_than_once"] == 0


@pytest.mark.timeout(240)
def test_clients_need_no_catalog_and_a_misspelt_name_takes_no_key(commands: Commands, tmp_path: Path) -> None:
    source, output = commands.write_input(range(10)), tmp_path / "out.jsonl"
    worker = commands.start("dev")
    assert worker.stderr is not None
    assert any("stop with Ctrl-C" in line for line in worker.stderr), "it runs"
    del commands.environment["GROUPAGE_CATALOG"]
    options = ("-o", output, "--key", "k", "--poll", "500ms", "--deadline", "10m", "--no-worker")
    refused = commands.call("run", source, "--provider", "mysevrer", *options)
    assert refused.returncode == 2
    assert "knows provider 'mysevrer' (did you mean 'myserver'?); nothing was sent" in refused.stderr
    assert commands.call("submit", source, "--provider", "mysevrer", "--key", "k").returncode == 2
    assert "there is no job" in commands.call("status", "k").stderr
    done = commands.call("run", source, "--provider", "myserver", *options, timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert "neither in the catalog" not in done.stderr
    assert [result["outcome"] for result in read_results(output)] == ["succeeded"] * 10


def test_a_key_that_is_missing_is_told_before_anything_is_sent(commands: Commands) -> None:
    del commands.environment["MYSERVER_KEY"]
    done = commands.call("run", commands.write_input(range(2)), "--provider", "myserver")
    assert done.returncode == 2
    assert "no API key is known; nothing was sent" in done.stderr
    assert "MYSERVER_KEY" in done.stderr
    assert commands.emulator.status()["calls"] == {}


def test_a_catalog_that_is_wrong_ends_each_command_with_the_file_and_the_key(
    commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "catalog.toml").write_text("[providers.myserver]\ndialect = 'openai'\nmax_request = 5\n")
    for arguments in (["run", commands.write_input(range(2)), "--provider", "myserver"], ["doctor"], ["catalog"]):
        done = commands.call(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert f"{tmp_path / 'catalog.toml'}: providers.myserver.max_request: no such key" in done.stderr
        assert "max_requests" in done.stderr


def test_the_catalog_is_printed_with_the_users_own_facts_and_where_they_are_from(commands: Commands) -> None:
    done = commands.call("catalog", "myserver", "--json")
    facts = json.loads(done.stdout)["myserver"]["facts"]
    file = commands.environment["GROUPAGE_CATALOG"]
    assert facts["max_requests"] == {"value": 30, "source": file, "unsure": False, "note": "", "file": file}
    assert (facts["max_bytes"]["value"], facts["max_bytes"].get("file")) == (200_000_000, None)
    commands.environment["COLUMNS"] = "250"
    overview = commands.call("catalog")
    marked = {line.split()[1] for line in overview.stdout.splitlines() if " * " in line}
    assert marked == {"myserver"}
    assert f"* by {file}" in overview.stderr
    for arguments in ([], ["bedrock"], ["vertex", "--model", "gemini-embedding-001"]):
        done = commands.call("catalog", *arguments)
        assert done.returncode == 0, done.stderr
        assert "bedrock" in done.stdout or "1,000,000" in done.stdout
    unknown = commands.call("catalog", "nobody")
    assert unknown.returncode == 2
    assert "no catalog knows provider 'nobody'" in unknown.stderr
