"""Whole jobs by the command `groupage`, for failures that only show when all parts play together."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from groupage.client.local_server import ServerFiles, is_running
from groupage.emulator.process import EmulatorProcess
from groupage.workers.embedded import stop_if_unused

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from cli_world import Commands  # found through the line above

Start = Callable[..., Commands]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an emulated provider with the options given; returns commands that talk to it."""
    made: list[Commands] = []

    def begin(**options: object) -> Commands:
        options.setdefault("turnaround", "1s")
        emulator = EmulatorProcess(tmp_path / "emulator", **options).start()  # type: ignore[arg-type] # its options are open
        made.append(Commands(tmp_path, emulator))
        return made[-1]

    yield begin
    for commands in made:
        commands.stop_all()
        stop_if_unused(commands.state_dir)
        commands.emulator.stop()
        assert not is_running(ServerFiles.of(commands.state_dir))
