"""Of which provider this folder's tests are."""

from collections.abc import Callable

import pytest
from azure_record import AZURE
from azure_world import LEGACY, AzureWorld, identity_of
from provider_world import Emulator
from record import Record

DOORS = {
    "v1 by key": ({}, False),
    "v1 by token": ({}, True),
    "v1 preview by key": ({"OPENAI_API_VERSION": "preview"}, False),
    "legacy by key": (LEGACY, False),
    "legacy by token": (LEGACY, True),
}


@pytest.fixture
def record() -> Record:
    return AZURE


@pytest.fixture
def by_token(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a managed identity instead of a key."""
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    for name, value in identity_of(emulator).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def token_world(by_token: None, make_world: Callable[..., AzureWorld]) -> AzureWorld:
    """v1 by the tokens of a managed identity."""
    return make_world()


@pytest.fixture(params=DOORS)
def any_door(
    request: pytest.FixtureRequest, make_world: Callable[..., AzureWorld], monkeypatch: pytest.MonkeyPatch
) -> AzureWorld:
    """Each surface by each kind of credential."""
    variables, by_token = DOORS[request.param]
    if by_token:
        request.getfixturevalue("by_token")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    # An hour of the emulator's clock is a moment of ours.
    monkeypatch.setattr("groupage.activities.providers.azure_tokens.FRESH_S", 0.0)
    return make_world()
