"""Each server that speaks OpenAI's dialect; one emulator has them all."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from compatible_world import FLAVOURS, CompatibleWorld
from openai_record import OPENAI
from provider_world import Emulator
from record import Record
from worlds import worlds


@pytest.fixture
def record() -> Record:
    return OPENAI


@pytest.fixture
async def make_world(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., CompatibleWorld]]:
    def make(folder: Path, flavour: str, **settings: Any) -> CompatibleWorld:
        return CompatibleWorld(emulator, folder, flavour, **settings)

    async with worlds(tmp_path, make) as made:
        yield made


@pytest.fixture(params=FLAVOURS)
def world(request: pytest.FixtureRequest, make_world: Callable[..., CompatibleWorld]) -> CompatibleWorld:
    """Each server in turn."""
    return make_world(request.param)
