"""What all activities share, opened once per worker process: the store and the provider adapters."""

import asyncio
from collections.abc import Callable
from difflib import get_close_matches

from groupage.activities.intents import Window
from groupage.activities.providers.base import BatchProvider, traits_of
from groupage.activities.settings import DEFAULT_PROFILE, ActivitySettings, ProviderSettings, setting_of
from groupage.schemas import ErrorClass, JobRef
from groupage.schemas.catalog import Catalog, load_catalog
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import job_workflow_id
from groupage.store.deployment import deployment_owner
from groupage.store.objects import Store, open_store

AdapterFactory = Callable[[str, ProviderSettings], BatchProvider]


def _openai(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.openai import OpenAIProvider

    return OpenAIProvider(name, settings)


def _azure(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.azure import AzureProvider

    return AzureProvider(name, settings)


def _bedrock(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.bedrock import BedrockProvider

    return BedrockProvider(name, settings)


def _anthropic(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.anthropic import AnthropicProvider

    return AnthropicProvider(name, settings)


def _gemini(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.gemini import GeminiProvider

    return GeminiProvider(name, settings)


def _vertex(name: str, settings: ProviderSettings) -> BatchProvider:
    from groupage.activities.providers.vertex import VertexProvider

    return VertexProvider(name, settings)


ADAPTERS: dict[str, AdapterFactory] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "azure": _azure,
    "bedrock": _bedrock,
    "gemini": _gemini,
    "vertex": _vertex,
}
"""By the dialect that the catalog says of a provider. A new adapter adds itself here."""


def _dialect(catalog: Catalog, provider: str) -> str:
    facts = catalog.get(provider)
    return facts.dialect if facts else ""


def _usable(catalog: Catalog) -> list[str]:
    return [each for each in catalog.providers if _dialect(catalog, each) in ADAPTERS]


class Context:
    """The opened store, this deployment's owner code and the provider adapters, made at first use.

    Adapters hold connections of the running event loop: one context serves one loop.
    """

    def __init__(self, settings: ActivitySettings, *, store: Store | None = None) -> None:
        self.settings = settings
        self.store = store or open_store(settings.store_url, **settings.store_options)
        self.heavy = asyncio.Semaphore(settings.heavy_steps)
        """Held by steps that need much memory: what a worker needs does not grow with the shards that run at once."""
        self._providers: dict[tuple[str, str], BatchProvider] = {}
        self._owner: str | None = None

    async def owner(self) -> str:
        """The six characters that all our tags at providers start with (after the g)."""
        if self._owner is None:
            self._owner = await asyncio.to_thread(deployment_owner, self.store)
        return self._owner

    def provider(self, name: str, profile: str = DEFAULT_PROFILE) -> BatchProvider:
        """The adapter for a provider and credential profile.

        Raises ProviderError(account) for an unknown one: a person has to add it to the worker's settings.
        """
        known = self._providers.get((name, profile))
        if known is not None:
            return known
        settings = self.settings.provider(name, profile)
        if settings is None:
            raise ProviderError(
                f"this worker knows no credential profile {profile!r} for provider {name!r}",
                error_class=ErrorClass.account,
                code="unknown_profile",
                hint=f"add it to the worker's settings as {setting_of(name, profile)}",
            )
        factory = ADAPTERS.get(_dialect(load_catalog(settings.catalog), settings.kind or name))
        if factory is None:
            usable = ", ".join(_usable(load_catalog(settings.catalog)))
            likely = get_close_matches(settings.kind or name, self.known_providers(), n=1)
            meant = f" (did you mean {likely[0]!r}?)" if likely else ""
            raise ProviderError(
                f"no adapter is known for provider {name!r}{meant}",
                error_class=ErrorClass.account,
                code="unknown_provider",
                hint=f"use one of {usable}, or set the provider's kind to one of them, or describe it in a catalog",
            )
        made = factory(name, settings)
        self._providers[name, profile] = made
        return made

    def known_providers(self) -> list[str]:
        """What jobs may name here: what the catalogs say an adapter of, and what the settings say is like one of those."""
        known = _usable(load_catalog(self.settings.catalog))
        for name, given in self.settings.providers.items():
            provider = name.partition("/")[0]
            catalog = load_catalog(given.catalog or self.settings.catalog)
            if _dialect(catalog, given.kind or provider) in ADAPTERS:
                known.append(provider)
        return list(dict.fromkeys(known))

    def window_of(self, job: JobRef) -> Window:
        """How long the doubt about a create call may last."""
        provider = self.settings.provider(job.provider, job.profile) or ProviderSettings()
        inline = traits_of(self.provider_of(job)).inline
        call_timeout_s = provider.inline_create_timeout_s if inline else provider.create_timeout_s
        return Window(self.settings.create_visibility_s, call_timeout_s, inline=inline)

    def provider_of(self, job: JobRef) -> BatchProvider:
        return self.provider(job.provider, job.profile)

    async def is_running(self, tenant: str, key: str) -> bool:
        """Whether a workflow runs this job now. Called from within an activity, whose client it uses."""
        from temporalio import activity
        from temporalio.client import WorkflowExecutionStatus
        from temporalio.service import RPCError, RPCStatusCode

        handle = activity.client().get_workflow_handle(job_workflow_id(tenant, key))
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return description.status is WorkflowExecutionStatus.RUNNING

    async def close(self) -> None:
        """Close all connections; the context can be used again afterwards."""
        providers, self._providers = list(self._providers.values()), {}
        for provider in providers:
            await provider.close()
