"""Whether this process could run a job at a provider at all: asked before the job is started, without any call."""

import os
from urllib.parse import urlsplit

from groupage.activities.providers.profile_options import secret_of
from groupage.activities.providers.sdk_loading import check_installed
from groupage.activities.registry import Context
from groupage.activities.settings import ProviderSettings, setting_of
from groupage.schemas.catalog import ProviderFacts, load_catalog
from groupage.schemas.errors import ProviderError, UsageError
from groupage.store.objects import Store
from groupage.workers.settings import Settings

_NEED_ADDRESS = frozenset({"openai", "azure"})
"""Dialects of servers that are anywhere; the SDKs of the others know where theirs is."""

_ALSO = {"gemini": ("GOOGLE_API_KEY",)}
"""Further variables that a key may stand in; these SDKs want a key wherever their server is."""

_OWN = {"bedrock": ("GROUPAGE_BEDROCK_BUCKET", "GROUPAGE_BEDROCK_ROLE_ARN"), "vertex": ("GROUPAGE_VERTEX_DATA",)}
"""What tells that somebody means them: the clouds' own variables are there for much else."""


def _facts(settings: Settings, provider: str, profile: str) -> ProviderFacts | None:
    given = settings.activity_settings(None).provider(provider, profile)
    return load_catalog(given.catalog if given else settings.catalog).get((given.kind if given else "") or provider)


def provider_address(settings: Settings, provider: str, profile: str) -> str | None:
    """The provider's base URL or root where it is known here: by the profile, the catalog's variables, or the catalog."""
    given = settings.activity_settings(None).provider(provider, profile)
    facts = _facts(settings, provider, profile)
    if given and given.base_url:
        return given.base_url
    if facts is None:
        return None
    named = (os.environ.get(each.value) for each in (facts.base_url_env, facts.root_env) if each is not None)
    return next(filter(None, named), None) or (facts.base_url.value if facts.base_url else None)


def providers_set(settings: Settings) -> list[str]:
    """Whom somebody has set up here: the profiles in the settings, and whose usual variables are there; else OpenAI."""
    found = dict.fromkeys(settings.providers)
    catalog = load_catalog(settings.catalog)
    for name in catalog.providers:
        facts = catalog.get(name)
        told_by = [facts.api_key_env, facts.base_url_env, facts.root_env] if facts else []
        variables = [each.value for each in told_by if each is not None]
        if any(os.environ.get(each) for each in (*variables, *_ALSO.get(name, ()), *_OWN.get(name, ()))):
            found.setdefault(name)
    return list(found) or ["openai"]


def has_key(settings: Settings, provider: str, profile: str) -> bool:
    """False where an OpenAI-shaped server is spoken to without one; the other SDKs do not go without credentials."""
    given = settings.activity_settings(None).provider(provider, profile)
    facts = _facts(settings, provider, profile)
    if given is None or facts is None or facts.dialect != "openai" or given.api_key:
        return True
    return bool(secret_of(provider, given.api_key_env or (facts.api_key_env.value if facts.api_key_env else "")))


def check_provider(settings: Settings, store: Store, provider: str, profile: str) -> None:
    """Raises UsageError where the provider or profile is unknown, or its SDK, address or key is missing.

    A job started all the same would wait in needs_decision for an account error to be mended.
    """
    try:
        Context(settings.activity_settings(None), store=store).provider(provider, profile)
    except ProviderError as error:
        raise UsageError(f"{error}; nothing was sent", hint=error.hint) from error
    given = settings.activity_settings(None).provider(provider, profile)
    facts = _facts(settings, provider, profile)
    if facts is not None:
        _check_sdk(provider, facts)
    address = provider_address(settings, provider, profile)
    if facts is not None and facts.dialect in _NEED_ADDRESS and not address:
        told_by = facts.root_env or facts.base_url_env
        raise UsageError(
            f"provider {provider}: no address is known; nothing was sent",
            hint=f"set {told_by.value if told_by else 'its address'}, or base_url in the settings ({setting_of(provider, profile)})",
        )
    if facts is not None and facts.dialect != "vertex" and address and not _is_web_address(address):
        # Told later, it would look like an account's error, with a question to a person.
        raise UsageError(
            f"provider {provider}: the address {address!r}{_told_by(facts, given, address)} is none; nothing was sent",
            hint=f"write https://{address.partition('://')[2] or address}, or http:// for a server without TLS",
        )
    if given is None or facts is None:
        return
    usual_address = facts.base_url.value if facts.base_url else None
    # A profile that names a variable means that one, wherever its server is.
    if not given.api_key_env and (not facts.needs_key.value or usual_address is None):
        return
    usual = facts.api_key_env.value if facts.api_key_env else ""
    variables = [given.api_key_env] if given.api_key_env else [usual, *_ALSO.get(facts.dialect, ())]
    try:
        keys = [given.api_key, *(secret_of(provider, variable) for variable in variables)]
    except ProviderError as error:
        raise UsageError(f"{error}; nothing was sent", hint=error.hint) from error
    anywhere = bool(given.api_key_env) or facts.dialect in _ALSO or address == usual_address
    if anywhere and not any(keys):
        raise UsageError(
            f"provider {provider}: no API key is known; nothing was sent",
            hint=f"set {' or '.join(variables)}, or name another variable in the settings ({setting_of(provider, profile)}.api_key_env)",
        )


def _check_sdk(provider: str, facts: ProviderFacts) -> None:
    try:
        check_installed(provider, facts.dialect)
    except ProviderError as error:
        raise UsageError(f"{error}; nothing was sent", hint=error.hint) from error


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # A port that is no number.
        return False


def _told_by(facts: ProviderFacts, given: ProviderSettings | None, address: str) -> str:
    if given is not None and given.base_url == address:
        return " (base_url in the settings)"
    variables = [each.value for each in (facts.base_url_env, facts.root_env) if each is not None]
    return next((f" ({variable})" for variable in variables if os.environ.get(variable) == address), "")
