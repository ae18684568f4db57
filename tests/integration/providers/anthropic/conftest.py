"""Of which provider this folder's tests are."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic_record import ANTHROPIC
from anthropic_world import AnthropicWorld
from provider_world import Emulator
from record import Record
from worlds import worlds


@pytest.fixture
def record() -> Record:
    return ANTHROPIC


@pytest.fixture
async def make_anthropic(emulator: Emulator, tmp_path: Path) -> AsyncIterator[Callable[..., AnthropicWorld]]:
    def make(folder: Path, **settings: Any) -> AnthropicWorld:
        return AnthropicWorld(emulator, folder, **settings)

    async with worlds(tmp_path, make) as made:
        yield made


@pytest.fixture
def anthropic_world(make_anthropic: Callable[..., AnthropicWorld]) -> AnthropicWorld:
    return make_anthropic()
