"""One emulator process over one Cloud Storage server for all Vertex tests; each test finds both empty."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "activities"))
sys.path.append(str(Path(__file__).parents[2] / "store"))
sys.path.append(str(Path(__file__).parents[2] / "cli"))

from gcs_server import GcsServer, running_gcs  # found through the lines above
from provider_world import Emulator
from vertex_world import VertexWorld, variables_of


@pytest.fixture(scope="session")
def gcs_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    with running_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def _vertex_process(gcs_process: GcsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in gcs_process.variables().items():
            patch.setenv(name, value)
        emulator = Emulator(tmp_path_factory.mktemp("emulator"))
    yield emulator
    emulator.close()


@pytest.fixture
def gcs(gcs_process: GcsServer) -> GcsServer:
    gcs_process.clear()
    return gcs_process


@pytest.fixture
def emulator(_vertex_process: Emulator, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name, value in (gcs.variables() | variables_of(_vertex_process.base_url)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST", raising=False)
    _vertex_process.reset()
    return _vertex_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., VertexWorld]]:
    made: list[VertexWorld] = []

    def make(**settings: Any) -> VertexWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(VertexWorld(emulator, folder, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture
def world(make_world: Callable[..., VertexWorld]) -> VertexWorld:
    return make_world()
