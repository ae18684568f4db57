from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from groupage.emulator import EmulatorProcess
from openai import AsyncOpenAI

Start = Callable[..., EmulatorProcess]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    """One process for all tests that need no options of their own."""
    with EmulatorProcess(tmp_path_factory.mktemp("emulator"), turnaround="0s") as process:
        yield process


@pytest.fixture
def emulator(shared: EmulatorProcess) -> EmulatorProcess:
    """The shared process without faults, files and batches; a batch takes no time."""
    shared.set_faults({})
    shared.reset()
    return shared


@pytest.fixture
async def client(emulator: EmulatorProcess) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="test", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process with options; all are stopped at the end."""
    started: list[EmulatorProcess] = []

    def launch(name: str = "state", **options: Any) -> EmulatorProcess:
        process = EmulatorProcess(tmp_path / name, **options).start()
        started.append(process)
        return process

    yield launch
    for process in started:
        process.stop()
