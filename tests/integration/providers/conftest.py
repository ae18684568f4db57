"""Each provider's servers, started once a session; each test finds them empty, without faults, and in its environment.

A folder's own conftest says by the fixture `record` of which provider its tests are; the contract's tests are of all.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import search_path  # noqa: F401  # what follows is found through it
from job_world import JobWorld
from provider_world import Emulator
from record import Record, Site, Sites
from worlds import worlds


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(stack, tmp_path_factory.mktemp)


@pytest.fixture
def record() -> Record:
    pytest.fail("a folder's conftest, or a parameter, says of which provider its tests are")


@pytest.fixture
def site(sites: Sites, record: Record, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = sites.at(record)
    for name in record.cleared:
        monkeypatch.delenv(name, raising=False)
    for name, value in site.variables.items():
        monkeypatch.setenv(name, value)
    site.emptied()
    # A create call may be the first to load the SDK, which takes seconds where much else is done.
    monkeypatch.setattr("groupage.activities.intents.CREATE_TIMEOUT_MIN_S", 60.0)
    return site


@pytest.fixture
def emulator(site: Site) -> Emulator:
    return site.emulator


@pytest.fixture
async def make_world(record: Record, emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., JobWorld]]:
    def make(folder: Path, **settings: Any) -> JobWorld:
        return record.world(settings.pop("emulator", emulator), folder, **settings)

    async with worlds(tmp_path, make) as made:
        yield made


@pytest.fixture
def world(make_world: Callable[..., JobWorld]) -> JobWorld:
    return make_world()
