"""Reading the catalog: ours, and a user's file merged over it.

A provider's facts are, from weak to strong: its dialect's (`[dialects.openai]`), its own (`[providers.groq]`), those
of each pattern that the model's name fits, with or without a path in front of it
(`[providers.groq.models."whisper-*"]`), in the file's order; and each of these first ours, then the user's.
"""

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from groupage.schemas.catalog.facts import PLAIN, Fact, ProviderFacts
from groupage.schemas.errors import UsageError
from groupage.schemas.portable.families import model_name
from pydantic import TypeAdapter, ValidationError

OURS = Path(__file__).parent / "catalog.toml"
_NAMES = tuple(name for name in ProviderFacts.model_fields if name != "name")
_SECTIONS = ("sources", "dialects", "providers")

Table = dict[str, Any]


class CatalogError(UsageError):
    """A catalog file that cannot be used; the message names the file and the key."""


class Catalog:
    """Ours alone, or with a user's file over it."""

    def __init__(self, path: Path | None = None) -> None:
        self._layers = [_read(OURS)]
        if path is not None:
            self._layers.append(_read(path))
        self.path = path
        self._facts: dict[tuple[str, str], ProviderFacts] = {}

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """All names, in the files' order."""
        return tuple(dict.fromkeys(name for layer in self._layers for name in layer["providers"]))

    @cached_property
    def sources(self) -> dict[str, str]:
        """What the short names of sources stand for."""
        return {name: text for layer in self._layers for name, text in layer["sources"].items()}

    def patterns(self, name: str) -> tuple[str, ...]:
        """The patterns of models for which the provider's facts differ."""
        return tuple(dict.fromkeys(self._all_patterns(name)))

    def said_of(self, name: str, pattern: str) -> dict[str, Fact[Any]]:
        """The facts of models that fit one pattern, where they differ."""
        tables = [layer["providers"].get(name, _NOTHING)["models"].get(pattern, {}) for layer in self._layers]
        return {key: fact for table in tables for key, fact in table.items() if isinstance(fact, Fact)}

    @cached_property
    def _users(self) -> frozenset[int]:
        """Which of the facts that the layers hold are the user's: by `id`, a merged one is one of them."""
        facts: list[Fact[Any]] = []
        for layer in self._layers[1:]:
            tables = [*layer["dialects"].values()]
            for provider in layer["providers"].values():
                tables += [provider["facts"], *provider["models"].values()]
            facts += [fact for table in tables for fact in table.values() if isinstance(fact, Fact)]
        return frozenset(map(id, facts))

    def is_users(self, fact: Fact[Any] | None) -> bool:
        """Whether a fact that was got from here is the user's file's."""
        return id(fact) in self._users

    def get(self, name: str, model: str = "") -> ProviderFacts | None:
        """None for a provider that no file knows."""
        if name not in self.providers:
            return None
        names = {model.lower(), model_name(model).lower()}
        fitting = "\n".join(
            each for each in self._all_patterns(name) if any(fnmatchcase(one, each.lower()) for one in names)
        )
        key = (name, fitting)
        if key not in self._facts:
            self._facts[key] = self._merged(name, fitting.split("\n") if fitting else [])
        return self._facts[key]

    def check(self) -> None:
        """Raises CatalogError if a provider's facts are not whole, for whatever model."""
        for name in self.providers:
            self.get(name)
            self._merged(name, list(self.patterns(name)))

    def _all_patterns(self, name: str) -> Iterator[str]:
        for layer in self._layers:
            yield from layer["providers"].get(name, _NOTHING)["models"]

    def _merged(self, name: str, patterns: list[str]) -> ProviderFacts:
        tables = [layer["providers"].get(name, _NOTHING) for layer in self._layers]
        own: Table = {key: value for table in tables for key, value in table["facts"].items()}
        dialect = own.get("dialect", "")
        known = list(dict.fromkeys(each for layer in self._layers for each in layer["dialects"]))
        if dialect not in known:
            said = f"no dialect is called {dialect!r}" if dialect else "it says no dialect"
            raise CatalogError(
                f"catalog {self.path or OURS}: providers.{name}: {said}",
                hint=f"write dialect = one of {', '.join(map(repr, known))}",
            )
        merged: Table = {"title": name}
        for layer in self._layers:
            merged |= layer["dialects"].get(dialect, {})
        merged |= own
        for pattern in patterns:
            for table in tables:
                merged |= table["models"].get(pattern, {})
        try:
            return ProviderFacts(**merged, name=name)
        except ValidationError as error:
            missing = ", ".join(str(problem["loc"][0]) for problem in error.errors())
            raise CatalogError(
                f"catalog {self.path or OURS}: providers.{name}: nothing says {missing}",
                hint="add these keys to your catalog file",
            ) from error


_NOTHING: Table = {"facts": {}, "models": {}}


@lru_cache(16)
def load_catalog(path: Path | None = None) -> Catalog:
    """Ours, with the user's file over it if there is one. Raises CatalogError."""
    return Catalog(path)


def provider_facts(name: str, kind: str = "", *, model: str = "", path: Path | None = None) -> ProviderFacts:
    """The facts of a provider, or of the one that it is said to be like (`kind`).

    A name that nobody knows is one whose server speaks OpenAI's batch API in the plainest way.
    """
    catalog = load_catalog(path)
    facts = catalog.get(name, model) if not kind else None
    facts = facts or catalog.get(kind or name, model) or catalog.get(PLAINEST, model)
    assert facts is not None
    return facts


PLAINEST = "openai-compatible"


def _read(path: Path) -> Table:
    """{"sources": …, "dialects": {name: facts}, "providers": {name: {"facts": …, "models": …}}}, checked key by key."""
    try:
        # Editors of some systems begin a file with a byte order mark; it means nothing.
        raw = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise CatalogError(f"catalog {path}: {error.strerror or error}", hint="name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"catalog {path} is not UTF-8", hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"catalog {path}: not TOML: {error}", hint="mend the file at that place") from error
    _known(path, "", raw, _SECTIONS)
    for section in _SECTIONS:
        _table(path, section, raw.get(section, {}))
    sources = {name: str(text) for name, text in raw.get("sources", {}).items()}
    # Facts of ours have to name a source; whoever writes a file of one's own is the source.
    usual = "" if path == OURS else str(path)
    dialects = {name: _facts(path, f"dialects.{name}", table, usual) for name, table in raw.get("dialects", {}).items()}
    providers: Table = {}
    for name, given in raw.get("providers", {}).items():
        table = dict(_table(path, f"providers.{name}", given))
        models = _table(path, f"providers.{name}.models", table.pop("models", {}))
        providers[name] = {
            "facts": _facts(path, f"providers.{name}", table, usual),
            "models": {
                pattern: _facts(path, f'providers.{name}.models."{pattern}"', facts, usual)
                for pattern, facts in models.items()
            },
        }
    return {"sources": sources, "dialects": dialects, "providers": providers}


def _facts(path: Path, where: str, table: Any, usual_source: str) -> Table:
    """The table's values as they are in ProviderFacts. A bare value stands for a fact of the usual source."""
    _known(path, where, _table(path, where, table), _NAMES)
    found: Table = {}
    for key, given in table.items():
        value = given
        if key not in PLAIN:
            value = {"source": usual_source} | (given if isinstance(given, dict) else {"value": given})
        try:
            found[key] = _adapter(key).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            inside = ".".join(str(part) for part in first["loc"] if part != "value")
            raise CatalogError(
                f"catalog {path}: {where}.{key}{'.' + inside if inside else ''}: {first['msg']}",
                hint='write it as in our catalog: key = { value = …, source = "…" }, or key = value',
            ) from error
    return found


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    annotation: Any = ProviderFacts.model_fields[key].annotation
    return TypeAdapter(annotation)


def _table(path: Path, where: str, given: Any) -> Table:
    if not isinstance(given, dict):
        raise CatalogError(f"catalog {path}: {where}: expected a table", hint=f"write [{where}] and keys below it")
    return given


def _known(path: Path, where: str, table: Table, names: tuple[str, ...]) -> None:
    unknown = [key for key in table if key not in names]
    if unknown:
        raise CatalogError(
            f"catalog {path}: {where + '.' if where else ''}{unknown[0]}: no such key",
            hint=f"known here: {', '.join(names)}",
        )
