"""Whether this process could run a job at a provider at all: asked before the job is started, without any call."""

import os

from groupage.activities.providers.compatibility import DIALECTS
from groupage.activities.registry import Context
from groupage.schemas.errors import ProviderError, UsageError
from groupage.store.objects import Store
from groupage.workers.settings import Settings


def provider_address(settings: Settings, provider: str, profile: str) -> str | None:
    """The provider's base URL where it is known here; adapters of other dialects know their own."""
    given = settings.activity_settings(None).provider(provider, profile)
    dialect = DIALECTS.get((given.kind if given else "") or provider)
    if given and given.base_url:
        return given.base_url
    return (os.environ.get(dialect.base_url_env or " ") or dialect.base_url) if dialect else None


def check_provider(settings: Settings, store: Store, provider: str, profile: str) -> None:
    """Raises UsageError where the provider or profile is unknown, or its key is missing.

    A job started all the same would wait in needs_decision for an account error to be mended.
    """
    try:
        Context(settings.activity_settings(None), store=store).provider(provider, profile)
    except ProviderError as error:
        raise UsageError(f"{error}; nothing was sent", hint=error.hint) from error
    given = settings.activity_settings(None).provider(provider, profile)
    dialect = DIALECTS.get((given.kind if given else "") or provider)
    if given is None or dialect is None or not dialect.needs_key:
        return
    variable = given.api_key_env or dialect.api_key_env
    if provider_address(settings, provider, profile) == dialect.base_url and not (
        given.api_key or os.environ.get(variable or " ")
    ):
        raise UsageError(
            f"provider {provider}: no API key is known; nothing was sent",
            hint=f"set {variable}, or name another variable in the settings (providers.{provider}.api_key_env)",
        )
