"""How servers that speak OpenAI's batch API differ, as plain values out of the catalog: no branches elsewhere.

What is unsure there can be overridden in a catalog of one's own, or per profile in the worker's settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupage.activities.settings import ProviderSettings
from groupage.schemas import ProviderLimits
from groupage.schemas.catalog import Fact, ProviderFacts, choose_window, provider_facts


@dataclass(frozen=True, slots=True)
class Compatibility:
    """One dialect of OpenAI's batch API."""

    base_url: str
    """Where it is if nothing else is set; empty: it has to be set."""
    base_url_env: str
    root_env: str
    """Another variable, for the address under which the API is mounted; the adapter makes a base URL of it."""
    api_key_env: str
    needs_key: bool
    """True: calls to `base_url` itself are pointless without a key. Any other address may do without."""
    windows: tuple[str, ...]
    """Choices of completion_window, see `choose_window`."""
    list_takes_parameters: bool
    """False: listings come in one page, newest or oldest first, and take no `limit` or `after`."""
    metadata: bool
    """False: batches keep no metadata; they are found by their input file's name instead."""
    expires_after: bool
    """False: uploads take no expiry."""
    expiry_bounds_s: tuple[int, int]
    """What an expiry may be; a setting outside is moved to the nearer bound."""
    output_expires_after: bool
    """True: result files have no expiry of their own, but take one."""
    file_sizes: bool
    """False: listings do not tell a file's true size, so a partial upload cannot be told by it."""
    file_purposes: tuple[str, ...]
    """By what purposes inputs and results are listed."""
    files_page: int
    """Files a page of their listing."""
    create_extra: Mapping[str, Any]
    """More fields for the create call's body."""

    def window(self, left_s: float | None) -> str:
        """The completion_window for a batch whose job's deadline is so many seconds away."""
        return choose_window(self.windows, left_s)


def facts_of(name: str, settings: ProviderSettings, model: str = "") -> ProviderFacts:
    """What the catalog says of a profile's provider."""
    return provider_facts(name, settings.kind, model=model, path=settings.catalog)


def limits_of(name: str, settings: ProviderSettings, model: str) -> ProviderLimits:
    """What one batch may hold by the catalog, unless the profile says otherwise."""
    return facts_of(name, settings, model).limits(
        max_requests=settings.max_requests,
        max_bytes=settings.max_bytes,
        max_line_bytes=settings.max_line_bytes,
        max_tokens=settings.max_tokens,
        max_inputs=settings.max_inputs,
    )


def limits_of_translated(
    name: str, settings: ProviderSettings, model: str, *, native: bool, min_requests: int | None = None
) -> ProviderLimits:
    """The same where portable bodies are translated on their way out; `native` ones are not."""
    facts = facts_of(name, settings, model)
    # A translated body may be longer than the one that was counted: by half, where messages are tiny.
    most = facts.max_bytes.value // (1 if native else 2)
    return facts.limits(
        max_requests=settings.max_requests,
        max_bytes=settings.max_bytes or most,
        max_line_bytes=settings.max_line_bytes,
        max_tokens=settings.max_tokens,
        max_inputs=settings.max_inputs,
        min_requests=min_requests,
    )


def compatibility_of(name: str, settings: ProviderSettings) -> Compatibility:
    """The dialect of a profile's server. Raises CatalogError where the user's catalog is wrong."""
    facts = facts_of(name, settings)
    return Compatibility(
        base_url=_text(facts.base_url),
        base_url_env=_text(facts.base_url_env),
        root_env=_text(facts.root_env),
        api_key_env=_text(facts.api_key_env),
        needs_key=facts.needs_key.value,
        windows=(settings.completion_window,) if settings.completion_window else tuple(facts.windows.value),
        list_takes_parameters=facts.list_takes_parameters.value,
        metadata=facts.metadata.value,
        expires_after=facts.expires_after.value,
        expiry_bounds_s=facts.expiry_bounds_s,
        output_expires_after=facts.output_expires_after.value,
        file_sizes=facts.file_sizes.value,
        file_purposes=tuple(facts.file_purposes.value),
        files_page=facts.files_page.value,
        create_extra=facts.create_extra.value if facts.create_extra else {},
    )


def _text(fact: Fact[str] | None) -> str:
    return fact.value if fact else ""
