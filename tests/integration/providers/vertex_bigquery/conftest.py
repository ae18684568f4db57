"""Vertex with its data in BigQuery: a test finds nothing there, or a dataset."""

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from bigquery_plane import Plane, variables_of
from provider_world import Emulator
from record import Record
from vertex_record import VERTEX
from vertex_world import VertexWorld

BIGQUERY = dataclasses.replace(
    VERTEX,
    label="vertex-bigquery",
    variables=variables_of,
    cleared=("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"),
    store="",
)


@pytest.fixture
def record() -> Record:
    return BIGQUERY


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
