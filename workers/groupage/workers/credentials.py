"""Whether this process could run a job at a provider at all: asked before the job is started, without any call."""

import os

from groupage.activities.registry import Context
from groupage.schemas.catalog import ProviderFacts, load_catalog
from groupage.schemas.errors import ProviderError, UsageError
from groupage.store.objects import Store
from groupage.workers.settings import Settings


def _facts(settings: Settings, provider: str, profile: str) -> ProviderFacts | None:
    given = settings.activity_settings(None).provider(provider, profile)
    return load_catalog(given.catalog if given else settings.catalog).get((given.kind if given else "") or provider)


def provider_address(settings: Settings, provider: str, profile: str) -> str | None:
    """The provider's base URL where it is known here: by the profile, the catalog's variable, or the catalog."""
    given = settings.activity_settings(None).provider(provider, profile)
    facts = _facts(settings, provider, profile)
    if given and given.base_url:
        return given.base_url
    named = os.environ.get(facts.base_url_env.value) if facts and facts.base_url_env else None
    return named or (facts.base_url.value if facts and facts.base_url else None)


def check_provider(settings: Settings, store: Store, provider: str, profile: str) -> None:
    """Raises UsageError where the provider or profile is unknown, or its address or key is missing.

    A job started all the same would wait in needs_decision for an account error to be mended.
    """
    try:
        Context(settings.activity_settings(None), store=store).provider(provider, profile)
    except ProviderError as error:
        raise UsageError(f"{error}; nothing was sent", hint=error.hint) from error
    given = settings.activity_settings(None).provider(provider, profile)
    facts = _facts(settings, provider, profile)
    if given is None or facts is None or not facts.needs_key.value or facts.base_url is None:
        return
    variable = given.api_key_env or (facts.api_key_env.value if facts.api_key_env else "")
    if provider_address(settings, provider, profile) == facts.base_url.value and not (
        given.api_key or os.environ.get(variable or " ")
    ):
        raise UsageError(
            f"provider {provider}: no API key is known; nothing was sent",
            hint=f"set {variable}, or name another variable in the settings (providers.{provider}.api_key_env)",
        )
