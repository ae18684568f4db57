"""One emulator process for all Gemini tests; each finds it empty, and its variables in the environment."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "activities"))
sys.path.append(str(Path(__file__).parents[2] / "cli"))

from gemini_world import CLEARED, GeminiWorld, variables_of  # found through the lines above
from provider_world import Emulator


@pytest.fixture(scope="session")
def _gemini_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"), "--api-key", "test")
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_gemini_process: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables_of(_gemini_process.base_url).items():
        monkeypatch.setenv(name, value)
    _gemini_process.reset()
    return _gemini_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., GeminiWorld]]:
    made: list[GeminiWorld] = []

    def make(**settings: Any) -> GeminiWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(GeminiWorld(emulator, folder, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture
def world(make_world: Callable[..., GeminiWorld]) -> GeminiWorld:
    return make_world()
