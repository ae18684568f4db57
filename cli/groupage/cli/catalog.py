"""`groupage catalog`: what is known of the providers, and from where."""

from typing import Any

from groupage.cli.console import Console
from groupage.client.config import load_settings
from groupage.schemas.catalog import Catalog, Fact, ProviderFacts, load_catalog
from groupage.schemas.errors import UsageError
from groupage.workers.settings import Settings


def show_catalog(provider: str | None, model: str, *, as_json: bool) -> int:
    """One provider's facts with their sources, or all providers at a glance. Raises UsageError for an unknown one."""
    console = Console(as_json=as_json)
    catalog = load_catalog(load_settings(Settings).catalog)
    if provider is not None and catalog.get(provider) is None:
        raise UsageError(
            f"no catalog knows provider {provider!r}",
            hint=f"known: {', '.join(catalog.providers)}; others go into a catalog of your own (GROUPAGE_CATALOG)",
        )
    names = catalog.providers if provider is None else (provider,)
    if as_json:
        console.data({name: _document(catalog, name, model) for name in names})
    elif provider is None:
        _overview(console, catalog, model)
    else:
        _facts(console, catalog, provider, model)
    return 0


def _known(catalog: Catalog, name: str, model: str) -> ProviderFacts:
    facts = catalog.get(name, model)
    assert facts is not None
    return facts


def _each(facts: ProviderFacts) -> list[tuple[str, Fact[Any]]]:
    found = ((name, getattr(facts, name)) for name in ProviderFacts.model_fields)
    return [(name, fact) for name, fact in found if isinstance(fact, Fact)]


def _document(catalog: Catalog, name: str, model: str) -> dict[str, Any]:
    facts = _known(catalog, name, model)
    told = {key: _told(catalog, fact) for key, fact in _each(facts)}
    models = {} if model else {pattern: _differences(catalog, name, pattern) for pattern in catalog.patterns(name)}
    return {"title": facts.title, "dialect": facts.dialect, "facts": told, "models": models}


def _differences(catalog: Catalog, name: str, pattern: str) -> dict[str, Any]:
    """What is said of models of one pattern alone."""
    return {key: _told(catalog, fact) for key, fact in catalog.said_of(name, pattern).items()}


def _told(catalog: Catalog, fact: Fact[Any]) -> dict[str, Any]:
    """The fact; `file` is the user's, where it is from there."""
    told: dict[str, Any] = fact.model_dump(mode="json") | {"source": catalog.sources.get(fact.source, fact.source)}
    return told | ({"file": str(catalog.path)} if catalog.is_users(fact) else {})


def _of_models(catalog: Catalog, name: str, model: str) -> list[Fact[Any]]:
    """What is said of some models alone, where it is not asked for one."""
    patterns = () if model else catalog.patterns(name)
    return [fact for pattern in patterns for fact in catalog.said_of(name, pattern).values()]


def _facts(console: Console, catalog: Catalog, name: str, model: str) -> None:
    facts = _known(catalog, name, model)
    title = f"{name}: {facts.title}, by the adapter {facts.dialect}" + (f", for {model}" if model else "")
    rows = [_row(catalog, key, fact) for key, fact in _each(facts)]
    for pattern in () if model else catalog.patterns(name):
        rows += [_row(catalog, f"{key} for {pattern}", fact) for key, fact in catalog.said_of(name, pattern).items()]
    console.table(title, ("fact", "value", "from", "note"), rows)


def _row(catalog: Catalog, key: str, fact: Fact[Any]) -> tuple[str, str, str, str]:
    notes = [text for text in ("unsure" if fact.unsure else "", fact.note) if text]
    source = catalog.sources.get(fact.source, fact.source)
    if catalog.is_users(fact) and source != str(catalog.path):
        source = f"{catalog.path}: {source}"
    return key, _shown(fact.value), source, "; ".join(notes)


def _overview(console: Console, catalog: Catalog, model: str) -> None:
    def marked(text: str, *facts: Fact[Any]) -> str:
        return f"{text} *" if any(map(catalog.is_users, facts)) else text

    rows = []
    for name in catalog.providers:
        facts = _known(catalog, name, model)
        limits = facts.limits()
        requests = _shown(limits.max_requests)
        if limits.min_requests > 1:
            requests = f"{limits.min_requests:,} to {requests}"
        rows.append(
            (
                marked(name, *(fact for _, fact in _each(facts)), *_of_models(catalog, name, model)),
                facts.title,
                facts.dialect,
                marked(requests, facts.min_requests, facts.max_requests),
                marked(f"{limits.max_bytes // 1_000_000:,} MB", facts.max_bytes),
                marked(_shown(facts.windows.value), facts.windows),
                marked(f"{facts.batch_discount.value:.0%}", facts.batch_discount),
                marked(facts.cache_in_batch.value, facts.cache_in_batch),
            )
        )
    columns = ("provider", "", "adapter", "requests", "bytes", "window", "off", "cache")
    console.table("", columns, rows)
    if catalog.path is not None:
        console.say(f"* by {catalog.path}: marked providers have facts from there")
    console.hint("groupage catalog PROVIDER prints all that is known of one, and from where")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
