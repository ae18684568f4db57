"""One emulator process for the tests of each adapter; each test finds it empty and without faults."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "activities"))

from provider_world import Emulator  # found through the lines above


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
async def make_anthropic(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    from anthropic_world import AnthropicWorld

    made: list[AnthropicWorld] = []

    def make(**settings: Any) -> AnthropicWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(AnthropicWorld(emulator, folder, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture
def anthropic_world(make_anthropic: Callable[..., Any]) -> Any:
    return make_anthropic()
