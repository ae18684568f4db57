"""One emulator process for all tests of Vertex's data in BigQuery; each test finds it empty but for a dataset."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "activities"))
sys.path.append(str(Path(__file__).parents[2] / "cli"))
sys.path.append(str(Path(__file__).parents[1] / "vertex"))

from bigquery_plane import Plane, variables_of  # found through the lines above
from provider_world import Emulator
from vertex_world import VertexWorld


@pytest.fixture(scope="session")
def _process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    emulator = Emulator(tmp_path_factory.mktemp("emulator"))
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_process: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables_of(_process.base_url).items():
        monkeypatch.setenv(name, value)
    _process.reset()
    assert not os.environ["BIGQUERY_EMULATOR_HOST"].endswith("/v1")
    return _process


@pytest.fixture
async def make_plane(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., Plane]]:
    made: list[Plane] = []

    def make(**settings: Any) -> Plane:
        made.append(Plane(emulator, tmp_path, **settings))
        return made[-1]

    yield make
    for plane in made:
        plane.close()


@pytest.fixture
def plane(make_plane: Callable[..., Plane]) -> Plane:
    made = make_plane()
    made.make_dataset()
    return made


@pytest.fixture
async def world(plane: Plane, tmp_path: Path) -> AsyncIterator[VertexWorld]:
    """Jobs with their data in the dataset that `plane` has made."""
    made = VertexWorld(plane.emulator, tmp_path)
    yield made
    await made.close()
    assert not list(made.spool.iterdir()), "spool files were left behind"
