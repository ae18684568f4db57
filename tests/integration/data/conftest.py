"""The fixture of this folder's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from data_world import FileProvider, World
from groupage.store.objects import open_store


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    inputs = tmp_path / "in"
    inputs.mkdir()
    made = World(open_store((tmp_path / "store").as_uri()), FileProvider(), tmp_path / "spool", inputs)
    yield made
    left = list(made.spool.rglob("*")) if made.spool.exists() else []
    assert left == [], "an activity left scratch files behind"
