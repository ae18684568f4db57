"""One emulator process over one real S3 for all Bedrock tests; each test finds both empty."""

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

from bedrock_world import BUCKET, BedrockWorld, variables_of  # found through the lines above
from provider_world import Emulator
from s3_server import S3Server, running_s3


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def _bedrock_process(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.variables().items():
            patch.setenv(name, value)
        emulator = Emulator(tmp_path_factory.mktemp("emulator"), "--min-records", "5")
    yield emulator
    emulator.close()


@pytest.fixture
def emulator(_bedrock_process: Emulator, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name, value in (s3.variables() | variables_of(_bedrock_process.base_url)).items():
        monkeypatch.setenv(name, value)
    _bedrock_process.reset()
    store = s3.open(f"s3://{BUCKET}")
    store.delete(list(store.list("")))
    return _bedrock_process


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., BedrockWorld]]:
    made: list[BedrockWorld] = []

    def make(**settings: Any) -> BedrockWorld:
        folder = tmp_path / f"world-{len(made)}"
        folder.mkdir()
        made.append(BedrockWorld(emulator, folder, **settings))
        return made[-1]

    yield make
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


@pytest.fixture
def world(make_world: Callable[..., BedrockWorld]) -> BedrockWorld:
    return make_world()
