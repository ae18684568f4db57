"""What the catalog says is what adapters go by: all of them, a user's file first, a profile's settings before it."""

import os
from pathlib import Path

import pytest
from groupage.activities.providers.base import facts_about
from groupage.activities.providers.compatibility import compatibility_of
from groupage.activities.registry import ADAPTERS, Context
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.schemas import endpoints_of
from groupage.schemas.catalog import load_catalog
from groupage.schemas.errors import ProviderError
from groupage.workers.settings import Settings

PROVIDERS = load_catalog().providers


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(
        "".join(f"[providers.{name}]\nmax_requests = 777\nmax_bytes = 5_000_000\n" for name in PROVIDERS)
        + '[providers.myserver]\ndialect = "openai"\nmax_requests = 778\nmetadata = false\n'
        + '[providers.mine-too]\ndialect = "anthropic"\n'
        + '[providers.openai.models."tiny-*"]\nmax_requests = 7\n'
    )
    return path


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith(("GROUPAGE_", "AZURE_", "GOOGLE_", "GEMINI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")


def context_of(catalog: Path | None, **profiles: ProviderSettings) -> Context:
    return Context(ActivitySettings(store_url="memory://", catalog=catalog, providers=profiles))


def test_every_dialect_has_an_adapter_and_every_adapter_a_dialect():
    dialects = {facts.dialect for name in PROVIDERS if (facts := load_catalog().get(name))}
    assert dialects == set(ADAPTERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_adapter_goes_by_the_catalog_and_by_a_users_file_over_it(name: str, mine: Path):
    endpoint = endpoints_of(name)[-1]
    ours = context_of(None).provider(name).limits(endpoint, "some-model")
    facts = load_catalog().get(name, "some-model")
    assert facts is not None
    assert ours.max_requests == facts.max_requests.value
    assert facts.max_bytes.value // 2 <= ours.max_bytes <= facts.max_bytes.value
    assert ours.min_requests == facts.min_requests.value
    theirs = context_of(mine).provider(name).limits(endpoint, "some-model")
    assert theirs.max_requests == 777
    assert 2_500_000 <= theirs.max_bytes <= 5_000_000
    settings = {name: ProviderSettings(max_requests=5)}
    profile = context_of(mine, **settings).provider(name).limits(endpoint, "some-model")
    assert profile.max_requests == 5, "the profile wins"
    assert facts_about(context_of(mine).provider(name), "").max_requests.value == 777


def test_a_models_limits_are_that_models(mine: Path):
    provider = context_of(mine).provider("openai")
    assert provider.limits("/v1/embeddings", "tiny-1").max_requests == 7
    assert provider.limits("/v1/embeddings", "other").max_requests == 777


def test_the_limit_of_inputs_is_the_catalogs_a_users_files_or_the_profiles(mine: Path, tmp_path: Path):
    def limit(context: Context, name: str = "openai") -> int | None:
        return context.provider(name).limits("/v1/embeddings", "m").max_inputs

    assert limit(context_of(None)) == 50_000
    assert limit(context_of(None), "gemini") is None
    over = tmp_path / "inputs.toml"
    over.write_text("[providers.openai]\nmax_inputs = 300\n[providers.gemini]\nmax_inputs = 400\n")
    assert (limit(context_of(over)), limit(context_of(over), "gemini")) == (300, 400)
    profiles = {"openai": ProviderSettings(max_inputs=20), "gemini": ProviderSettings(max_inputs=30)}
    assert (limit(context_of(over, **profiles)), limit(context_of(over, **profiles), "gemini")) == (20, 30)


def test_a_server_of_ones_own_gets_the_adapter_of_its_dialect(mine: Path):
    context = context_of(mine, work=ProviderSettings(kind="myserver"), **{"x/y": ProviderSettings(catalog=None)})
    assert type(context.provider("myserver")).__name__ == "OpenAIProvider"
    assert context.provider("work").limits("/v1/chat/completions", "m").max_requests == 778, "by its kind"
    assert type(context.provider("mine-too")).__name__ == "AnthropicProvider"
    assert compatibility_of("myserver", ProviderSettings(catalog=mine)).metadata is False


def test_a_profile_may_have_a_catalog_of_its_own(mine: Path, tmp_path: Path):
    other = tmp_path / "other.toml"
    other.write_text("[providers.openai]\nmax_requests = 3\n")
    context = context_of(mine, **{"openai/other": ProviderSettings(catalog=other)})
    limits = [
        context.provider("openai", each).limits("/v1/embeddings", "m").max_requests for each in ("default", "other")
    ]
    assert limits == [777, 3]


def test_a_provider_that_no_catalog_knows_is_refused_with_all_that_are_known(mine: Path):
    with pytest.raises(ProviderError, match="no adapter is known for provider 'nobody'") as caught:
        context_of(mine).provider("nobody")
    assert caught.value.code == "unknown_provider"
    for name in (*PROVIDERS, "myserver", "catalog"):
        assert name in caught.value.hint


def test_the_setting_reaches_the_adapters(mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GROUPAGE_CATALOG", str(mine))
    monkeypatch.setenv("GROUPAGE_CONFIG", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = Settings().activity_settings(None)
    assert settings.catalog == mine
    found = settings.provider("groq")
    assert found is not None
    assert found.catalog == mine
