"""`groupage sweep`: what a lost server or a lost store leaves at the provider is found by its tag."""

import json
import shutil
from pathlib import Path

import pytest
from cli_world import Commands
from groupage.client.local_server import ServerFiles, is_running
from groupage.workers.embedded import stop_if_unused


def lose_the_server(groupage: Commands, source: Path, output: Path) -> None:
    """A job with a live batch, whose Temporal is gone with its database."""
    process = groupage.start("run", source, "-o", output, "--poll", "500ms", "--deadline", "10h", "--key", "lost")
    groupage.wait_until_submitted()
    process.kill()
    process.wait()
    stop_if_unused(groupage.state_dir)
    assert not is_running(ServerFiles.of(groupage.state_dir))
    for file in groupage.state_dir.glob("temporal*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@pytest.mark.parametrize("turnaround", ["1h"])
def test_a_batch_whose_job_is_unknown_is_cancelled_and_its_file_deleted(groupage: Commands, tmp_path: Path) -> None:
    lose_the_server(groupage, groupage.write_input(range(10)), tmp_path / "out.jsonl")
    shutil.rmtree(next(groupage.state_dir.glob("**/jobs/lost")))

    dry = groupage.call("sweep", "--grace", "0s", "--dry-run", "--json")
    told = json.loads(dry.stdout)
    assert (len(told["cancelled"]), told["deleted"]) == (1, 1), dry.stderr
    [file] = groupage.emulator.status()["files"]
    assert [told_of.partition(" ")[0] for told_of in told["deleted_files"]] == [file["id"]]
    shown = groupage.call("sweep", "--grace", "0s", "--dry-run").stderr
    assert f"file {file['id']} (" in shown
    assert groupage.emulator.status()["files"], "a dry run must end nothing"

    done = groupage.call("sweep", "--grace", "0s")
    assert done.returncode == 0, done.stderr
    assert "1 batches cancelled, 1 files deleted" in done.stderr
    seen = groupage.emulator.status()
    assert {batch["status"] for batch in seen["batches"]} <= {"cancelling", "cancelled"}

    # What the cancelled batch leaves when it ends is found by the next sweep.
    assert groupage.call("sweep", "--grace", "0s").returncode == 0
    assert groupage.emulator.status()["files"] == []


@pytest.mark.parametrize("turnaround", ["1h"])
def test_a_stranded_batch_is_kept_and_told_because_its_job_can_adopt_it(groupage: Commands, tmp_path: Path) -> None:
    lose_the_server(groupage, groupage.write_input(range(10)), tmp_path / "out.jsonl")

    done = groupage.call("sweep", "--grace", "0s", "--json")

    told = json.loads(done.stdout)
    assert len(told["stranded"]) == 1, done.stderr
    assert told["cancelled"] == []
    assert told["deleted"] == 0
    assert groupage.emulator.status()["files"]


def test_a_young_orphan_is_left_alone_and_a_bad_grace_is_refused(groupage: Commands) -> None:
    refused = groupage.call("sweep", "--grace", "soon")
    assert refused.returncode == 2
    assert "--grace" in refused.stderr
