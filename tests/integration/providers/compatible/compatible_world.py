"""A job at a server that speaks OpenAI's dialect with differences: catalog, real SDK, emulated flavour."""

from pathlib import Path
from typing import Any

from groupage.activities.providers.openai import OpenAIProvider
from job_world import JobWorld
from provider_world import Emulator

MODEL = "some-model"

MINE = """
# What a user writes for a server that nobody has heard of, and for one that wants to be told more.
[providers.myserver]
dialect = "openai"
list_takes_parameters = false
metadata = false
file_sizes = false
max_requests = 1000

[providers.aibrix]
create_extra = { value = { aibrix = { model_template = { name = "some-template" } } } }
"""

FLAVOURS = {
    "groq": "groq",
    "alibaba": "alibaba",
    "doubleword": "doubleword",
    "aibrix": "aibrix",
    "litellm": "litellm",
    "odd": "myserver",
}
"""The emulator's flavour -> the provider's name in the catalog."""


def url_of(emulator: Emulator, flavour: str) -> str:
    return f"{emulator.base_url.removesuffix('/v1')}/flavours/{flavour}/v1"


class CompatibleWorld(JobWorld):
    """A provider of the catalog whose address is the flavour's."""

    model = MODEL

    def __init__(self, emulator: Emulator, folder: Path, flavour: str, **settings: Any) -> None:
        self.flavour = flavour
        self.name = settings.pop("name", FLAVOURS[flavour])
        catalog = folder / "catalog.toml"
        catalog.write_text(MINE)
        provider = {"base_url": url_of(emulator, flavour), "api_key": "test"}
        if flavour == "litellm":
            provider["extra_headers"] = {"x-litellm-model": MODEL}  # type: ignore[assignment]
        provider |= settings.pop("provider", {})
        super().__init__(emulator, folder, provider=provider, catalog=catalog, **settings)

    @property
    def adapter(self) -> OpenAIProvider:
        found = self.context.provider(self.name)
        assert isinstance(found, OpenAIProvider)
        return found
