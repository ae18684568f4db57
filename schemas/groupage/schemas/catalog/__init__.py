"""What is known of each provider, as data: limits, windows, minimums, discounts, retention, endpoints, dialects.

The facts stand in `catalog.toml` beside this module, each with its source; a user's own file of the same
shape is merged over it (`catalog` in the settings)::

    facts = provider_facts("groq", path=settings.catalog)
    facts.max_bytes.value

Nothing is read before it is asked for.
"""

from groupage.schemas.catalog.facts import Fact, ProviderFacts, Window, choose_window
from groupage.schemas.catalog.loading import (
    Catalog,
    CatalogError,
    load_catalog,
    provider_facts,
)

__all__ = [
    "Catalog",
    "CatalogError",
    "Fact",
    "ProviderFacts",
    "Window",
    "choose_window",
    "load_catalog",
    "provider_facts",
]
