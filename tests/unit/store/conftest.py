"""A store in memory, and small builders that the tests of the store share."""

import sys
import tempfile
from pathlib import Path

import pytest
from groupage.store.objects import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


@pytest.fixture(autouse=True)
def _temporary_files_go_with_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
