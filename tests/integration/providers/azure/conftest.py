"""One emulator process for all Azure tests; each finds it empty, and its variables in the environment."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "activities"))
sys.path.append(str(Path(__file__).parents[2] / "cli"))

from azure_world import CLEARED, LEGACY, AzureWorld, identity_of, root_of  # found through the lines above
from provider_world import Emulator

OPTIONS = ("--file-processing", "300ms", "--api-key", "right", "--batch-deployments", "batch-only")
DOORS = {
    "v1 by key": ({}, False),
    "v1 by token": ({}, True),
    "v1 preview by key": ({"OPENAI_API_VERSION": "preview"}, False),
    "legacy by key": (LEGACY, False),
    "legacy by token": (LEGACY, True),
}


@pytest.fixture(scope="session")
def _azure_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"), *OPTIONS)
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_azure_process: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", root_of(_azure_process))
    _azure_process.reset()
    return _azure_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., AzureWorld]]:
    made: list[AzureWorld] = []

    def make(**settings: Any) -> AzureWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(AzureWorld(settings.pop("emulator", emulator), folder, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture
def world(make_world: Callable[..., AzureWorld], monkeypatch: pytest.MonkeyPatch) -> AzureWorld:
    """v1 by key."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "right")
    return make_world()


@pytest.fixture
def token_world(
    make_world: Callable[..., AzureWorld], emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> AzureWorld:
    """v1 by the tokens of a managed identity."""
    for name, value in identity_of(emulator).items():
        monkeypatch.setenv(name, value)
    return make_world()


@pytest.fixture(params=DOORS)
def any_door(
    request: pytest.FixtureRequest,
    make_world: Callable[..., AzureWorld],
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> AzureWorld:
    """Each surface by each kind of credential."""
    variables, by_token = DOORS[request.param]
    credentials = identity_of(emulator) if by_token else {"AZURE_OPENAI_API_KEY": "right"}
    for name, value in {**variables, **credentials}.items():
        monkeypatch.setenv(name, value)
    # An hour of the emulator's clock is a moment of ours.
    monkeypatch.setattr("groupage.activities.providers.azure_tokens.FRESH_S", 0.0)
    return make_world()
