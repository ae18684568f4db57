"""One emulator process for all provider tests; each test finds it empty and without faults."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from provider_world import Emulator, World  # found through the line above
from worlds import worlds


@pytest.fixture(scope="session")
def _emulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"))
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_emulator_process: Emulator) -> Emulator:
    _emulator_process.reset()
    return _emulator_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., World]]:
    def make(folder: Path, **settings: Any) -> World:
        return World(settings.pop("emulator", emulator), folder, **settings)

    async with worlds(tmp_path, make) as made:
        yield made


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
