"""`groupage run` from end to end: embedded Temporal, emulated provider, kills."""

import contextlib
import json
import os
import random
import signal
import socketserver
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from cli_world import Commands, assert_answers, line_of, read_results
from groupage.client.local_server import ServerFiles, find_local_server, is_running, read_record, try_lock
from groupage.schemas import Result


def test_a_job_runs_to_its_end_and_leaves_nothing_running(groupage: Commands, tmp_path: Path) -> None:
    source, output = groupage.write_input(range(40)), tmp_path / "out.jsonl"
    done = groupage.run(source, output, "--json")
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(40))
    assert all(Result.model_validate_json(line) for line in output.read_bytes().splitlines() if line)
    told = json.loads(done.stdout)
    assert told["state"] == "completed"
    assert told["outcomes"] == {"succeeded": 40}
    assert told["exit_code"] == 0
    assert "Web UI" in done.stderr
    assert not is_running(ServerFiles.of(groupage.state_dir))
    seen = groupage.emulator.status()
    assert seen["files"] == []
    assert set(groupage.batches_by_tag().values()) == {1}


def test_a_finished_job_returns_its_results_at_once_without_a_server(groupage: Commands, tmp_path: Path) -> None:
    source = groupage.write_input(range(5))
    assert groupage.run(source, tmp_path / "first.jsonl").returncode == 0
    groupage.emulator.stop()
    database = ServerFiles.of(groupage.state_dir).database
    database.unlink()
    again = groupage.run(source, tmp_path / "second.jsonl")
    assert again.returncode == 0, again.stderr
    assert "has ended before" in again.stderr
    assert not database.exists(), "no server was started"
    assert (tmp_path / "second.jsonl").read_bytes() == (tmp_path / "first.jsonl").read_bytes()
    to_stdout = groupage.call("run", source)
    assert to_stdout.stdout.encode() == (tmp_path / "first.jsonl").read_bytes()


@pytest.mark.parametrize("turnaround", ["3s"])
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments_and_run_again_it_is_one_job(groupage: Commands, tmp_path: Path, seed: int) -> None:
    source, output = groupage.write_input(range(60)), tmp_path / "out.jsonl"
    moments = random.Random(seed)
    arguments = (
        "run",
        source,
        "-o",
        output,
        "--poll",
        "500ms",
        "--deadline",
        "10m",
        "--policy",
        "max_shard_requests=20",
    )
    for _ in range(3):
        process = groupage.start(*arguments)
        time.sleep(moments.uniform(0.5, 5.0))
        process.kill()
        process.wait()
        assert not output.exists() or process.returncode == 0
    # An activity of a killed worker is given to another one after a minute without heartbeat.
    done = groupage.call(*arguments, timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(60))
    assert set(groupage.batches_by_tag().values()) == {1}
    assert groupage.emulator.ledger()["questions_answered_more_than_once"] == 0


@pytest.mark.parametrize("turnaround", ["4s"])
def test_of_two_runs_at_once_one_may_be_killed_without_harm_to_the_other(groupage: Commands, tmp_path: Path) -> None:
    ours, theirs = groupage.write_input(range(10), "a.jsonl"), groupage.write_input(range(100, 110), "b.jsonl")
    first = groupage.start("run", ours, "-o", tmp_path / "a.out", "--poll", "500ms")
    groupage.wait_until_submitted()
    second = groupage.start("run", theirs, "-o", tmp_path / "b.out", "--poll", "500ms")
    groupage.wait_until_submitted(2)
    server = find_local_server(groupage.state_dir)
    first.kill()
    done = groupage.finish(second)
    assert done.returncode == 0, done.stderr
    assert_answers(tmp_path / "b.out", range(100, 110))
    assert server is not None
    assert not is_running(ServerFiles.of(groupage.state_dir))
    assert groupage.call("run", ours, "-o", tmp_path / "a.out", "--poll", "500ms").returncode == 0
    assert_answers(tmp_path / "a.out", range(10))
    assert set(groupage.batches_by_tag().values()) == {1}


@contextlib.contextmanager
def stranger_at(port: int) -> Generator[None, None, None]:
    """Some other service, which hangs up on everybody."""

    class Stranger(socketserver.TCPServer):
        allow_reuse_address = True

    with Stranger(("127.0.0.1", port), socketserver.BaseRequestHandler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize("turnaround", ["4s"])
@pytest.mark.parametrize("port_is_taken", [False, True])
def test_if_the_server_is_killed_the_run_starts_it_again_and_goes_on(
    groupage: Commands, tmp_path: Path, port_is_taken: bool
) -> None:
    source, output = groupage.write_input(range(10)), tmp_path / "out.jsonl"
    process = groupage.start("run", source, "-o", output, "--poll", "500ms")
    groupage.wait_until_submitted()
    before = find_local_server(groupage.state_dir)
    assert before is not None
    files = ServerFiles.of(groupage.state_dir)
    with contextlib.ExitStack() as taken:
        # Nobody starts the server again before the port is taken.
        with try_lock(files.start) as mine:
            assert mine
            os.kill(before.pid, signal.SIGKILL)
            while is_running(files):
                time.sleep(0.01)
            if port_is_taken:
                taken.enter_context(stranger_at(before.port))
        done = groupage.finish(process)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(10))
    assert set(groupage.batches_by_tag().values()) == {1}
    after = read_record(files)
    assert after is not None
    assert (after.port != before.port) is port_is_taken


@pytest.mark.parametrize("turnaround", ["3s"])
def test_with_the_servers_database_lost_the_same_command_finds_the_batches_again(
    groupage: Commands, tmp_path: Path
) -> None:
    source, output = groupage.write_input(range(10)), tmp_path / "out.jsonl"
    process = groupage.start("run", source, "-o", output, "--poll", "500ms")
    groupage.wait_until_submitted()
    process.send_signal(signal.SIGTERM)
    stopped = groupage.finish(process)
    assert stopped.returncode == 128 + signal.SIGTERM
    for file in ServerFiles.of(groupage.state_dir).directory.glob("temporal.db*"):
        file.unlink()
    done = groupage.run(source, output)
    assert done.returncode == 0, done.stderr
    assert_answers(output, range(10))
    assert set(groupage.batches_by_tag().values()) == {1}


@pytest.mark.parametrize("turnaround", ["1h"])
def test_CL_07_interrupted_it_says_how_to_go_on_and_how_to_cancel(groupage: Commands, tmp_path: Path) -> None:
    source, output = groupage.write_input(range(3)), tmp_path / "out.jsonl"
    process = groupage.start("run", source, "-o", output, "--key", "long", "--poll", "500ms")
    groupage.wait_until_submitted()
    process.send_signal(signal.SIGINT)
    stopped = groupage.finish(process)
    assert stopped.returncode == 130
    assert "groupage watch default/long" in stopped.stderr
    assert "groupage cancel default/long" in stopped.stderr
    assert not output.exists()
    status = groupage.call("status", "long", "--json")
    assert json.loads(status.stdout)["state"] == "running", status.stderr
    assert json.loads(status.stdout)["requests"] == 3
    cancelled = groupage.call("cancel", "default/long", "--json")
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(cancelled.stdout)["state"] == "cancelled"
    assert groupage.emulator.status()["batches_live"] == 0
    again = groupage.run(source, output, "--key", "long")
    assert again.returncode == 4
    assert [result["outcome"] for result in read_results(output)] == ["cancelled"] * 3


def test_other_content_under_the_same_key_is_refused(groupage: Commands, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert groupage.run(groupage.write_input(range(3)), output, "--key", "k").returncode == 0
    before, batches = output.read_bytes(), len(groupage.emulator.status()["batches"])
    refused = groupage.run(groupage.write_input(range(4)), output, "--key", "k")
    assert refused.returncode == 2
    assert "other content" in refused.stderr
    assert output.read_bytes() == before
    assert len(groupage.emulator.status()["batches"]) == batches


def test_bad_lines_are_named_with_file_and_line_and_nothing_is_sent(groupage: Commands, tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    source.write_bytes(line_of(1) + b"\n" + b"[1]\n" + line_of(2) + b"{broken\n")
    refused = groupage.run(source, tmp_path / "out.jsonl")
    assert refused.returncode == 2
    assert f"{source}, line 3:" in refused.stderr
    assert f"{source}, line 5:" in refused.stderr
    assert "nothing was sent" in refused.stderr
    assert not (tmp_path / "out.jsonl").exists()
    seen = groupage.emulator.status()
    assert seen["batches"] == seen["files"] == []
    assert not ServerFiles.of(groupage.state_dir).directory.exists()


def test_an_unknown_provider_or_a_missing_key_is_refused_before_anything_starts(
    groupage: Commands, tmp_path: Path
) -> None:
    source, output = groupage.write_input(range(2)), tmp_path / "out.jsonl"
    for more, said in ((("--provider", "nobody"), "nobody"), (("--profile", "nobody"), "nobody")):
        refused = groupage.run(source, output, *more)
        assert refused.returncode == 2
        assert said in refused.stderr
    del groupage.environment["OPENAI_BASE_URL"], groupage.environment["OPENAI_API_KEY"]
    refused = groupage.run(source, output)
    assert refused.returncode == 2
    assert "OPENAI_API_KEY" in refused.stderr
    assert not ServerFiles.of(groupage.state_dir).directory.exists()


def test_skipping_bad_lines_sends_the_rest_and_each_line_has_its_result(groupage: Commands, tmp_path: Path) -> None:
    source, output = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(line_of(1) + b"\n[1]\n" + line_of(2) + b"{broken\n")
    done = groupage.run(source, output, "--on-invalid", "skip", "--json")
    assert done.returncode == 3, done.stderr
    results = read_results(output)
    assert [result["outcome"] for result in results] == ["succeeded", "failed", "succeeded", "failed"]
    assert [result["id"] for result in results][::2] == ["r1", "r2"]
    assert "line 3" in results[1]["error"]["message"]
    assert json.loads(done.stdout)["outcomes"] == {"succeeded": 2, "failed": 2}


def test_over_budget_it_asks_and_goes_on_when_told_to(groupage: Commands, tmp_path: Path) -> None:
    source, output = groupage.write_input(range(3)), tmp_path / "out.jsonl"
    process = groupage.start("run", source, "-o", output, "--poll", "500ms", "--max-cost", "0.0000001", "--key", "dear")
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "groupage decide" in line:
            break
    assert "waits for your decision" in said
    assert groupage.emulator.status()["batches"] == []
    wrong = groupage.call("decide", "dear", "retry")
    assert wrong.returncode == 2
    assert groupage.call("decide", "default/dear", "go_on").returncode == 0
    assert groupage.finish(process).returncode == 0
    assert_answers(output, range(3))


def test_jobs_status_and_results_tell_of_a_finished_job(groupage: Commands, tmp_path: Path) -> None:
    source = groupage.write_input(range(3))
    assert groupage.run(source, tmp_path / "out.jsonl", "--key", "k", "--tenant", "t").returncode == 0
    listed = json.loads(groupage.call("jobs", "--json").stdout)
    assert [(job["tenant"], job["key"], job["state"], job["answered"]) for job in listed] == [
        ("t", "k", "completed", 3)
    ]
    assert json.loads(groupage.call("status", "t/k", "--json").stdout)["state"] == "completed"
    written = groupage.call("results", "t/k", "-o", tmp_path / "again.jsonl")
    assert written.returncode == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    stale = groupage.call("results", "t/k", "--max-age", "1ms")
    assert stale.returncode == 1
    assert stale.stdout == ""
    assert groupage.call("status", "nobody").returncode == 2


def test_an_empty_input_is_a_finished_empty_job(groupage: Commands, tmp_path: Path) -> None:
    source, output = tmp_path / "empty.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\n\n")
    done = groupage.run(source, output)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == b""
    assert "the input has no request" in done.stderr
    assert groupage.emulator.status()["batches"] == []
