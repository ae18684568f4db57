"""The fixtures of this folder's tests."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "activities")]

from data_world import FileProvider, World  # noqa: E402  # found through the line above
from emulated_job import EmulatedJob  # noqa: E402
from groupage.store.objects import open_store  # noqa: E402
from provider_world import Emulator  # noqa: E402

OPTIONS = ("--turnaround", "500ms", "--cancel-takes", "500ms", "--sync-latency", "5ms")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    inputs = tmp_path / "in"
    inputs.mkdir()
    made = World(open_store((tmp_path / "store").as_uri()), FileProvider(), tmp_path / "spool", inputs)
    yield made
    left = list(made.spool.rglob("*")) if made.spool.exists() else []
    assert left == [], "an activity left scratch files behind"


@pytest.fixture(scope="module")
def _emulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"), *OPTIONS)
    yield emulator
    emulator.close()


@pytest.fixture
async def emulated(_emulator_process: Emulator, tmp_path: Path) -> AsyncIterator[EmulatedJob]:
    _emulator_process.reset()
    job = EmulatedJob(_emulator_process, tmp_path)
    yield job
    await job.close()
    assert list(job.spool.rglob("*")) == [], "an activity left scratch files behind"
