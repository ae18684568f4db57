"""One emulator and one state directory for each test of the command."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused

sys.path.insert(0, str(Path(__file__).parent))

from cli_world import Commands  # found through the line above


@pytest.fixture
def turnaround() -> str:
    return "1s"


@pytest.fixture
def emulator(tmp_path: Path, turnaround: str) -> Iterator[EmulatorProcess]:
    with EmulatorProcess(tmp_path / "emulator", turnaround=turnaround) as running:
        yield running


@pytest.fixture
def groupage(tmp_path: Path, emulator: EmulatorProcess) -> Iterator[Commands]:
    commands = Commands(tmp_path, emulator)
    yield commands
    commands.stop_all()
    stop_if_unused(commands.state_dir)
    assert not is_running(ServerFiles.of(commands.state_dir))
