"""One emulator process for all compatible servers; each test finds it empty and without faults."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "activities"))
sys.path.append(str(Path(__file__).parents[2] / "cli"))

from compatible_world import FLAVOURS, CompatibleWorld  # found through the lines above
from provider_world import Emulator


@pytest.fixture(scope="session")
def _compatible_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"))
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_compatible_process: Emulator) -> Emulator:
    _compatible_process.reset()
    return _compatible_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., CompatibleWorld]]:
    made: list[CompatibleWorld] = []

    def make(flavour: str, **settings: Any) -> CompatibleWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(CompatibleWorld(emulator, folder, flavour, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture(params=FLAVOURS)
def world(request: pytest.FixtureRequest, make_world: Callable[..., CompatibleWorld]) -> CompatibleWorld:
    """Each server in turn."""
    return make_world(request.param)
