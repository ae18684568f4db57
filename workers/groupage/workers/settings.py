"""Settings of a worker process: those of a client and what the activities need.

    GROUPAGE_STORE=s3://bucket/prefix
    GROUPAGE_PROVIDERS__OPENAI__BASE_URL=http://127.0.0.1:8080/v1

or in `config.toml`::

    store = "s3://bucket/prefix"
    [providers.openai]
    api_key_env = "MY_OPENAI_KEY"
    [providers."openai/search"]      # profile `search`
    api_key_env = "SEARCH_OPENAI_KEY"

Secrets stay in this process: jobs name a profile, never a key.
"""

from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.client.config import ClientSettings, told_by
from groupage.schemas import Duration
from groupage.schemas.catalog import CatalogError, load_catalog
from pydantic import Field, field_validator

_WAITS_TYPES = {
    each.name: type(each.default) for each in fields(ActivitySettings) if isinstance(each.default, (int, float))
}
_WAITS = frozenset(_WAITS_TYPES)
_PROVIDER_FIELDS = frozenset(each.name for each in fields(ProviderSettings))


class Settings(ClientSettings):
    """Everything that `groupage worker` reads. Durations are written 20s, 5m."""

    providers: dict[str, ProviderSettings] = Field(default_factory=dict, repr=False)
    """By "openai" or "openai/profile"."""
    catalog: Path | None = None
    """A catalog of one's own (TOML), merged over ours: providers, limits, windows, prices (docs/providers.md)."""

    graceful_shutdown: Duration = timedelta(seconds=20)
    """How long activities may finish after SIGTERM; then they are cancelled and run elsewhere."""
    max_concurrent_activities: int = Field(64, ge=1)
    """Mostly waiting ones: each running shard holds one while it is polled, uploaded or downloaded."""
    threads: int = Field(16, ge=1)
    """Threads for what blocks: object store, compression, parsing."""
    max_cached_workflows: int = Field(500, ge=0)
    """About 65 KiB each, as measured."""
    metrics: str | None = None
    """host:port of a Prometheus endpoint; None: no metrics."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, JSON lines elsewhere."""

    activities: dict[str, float] = Field(default_factory=dict)
    """Waits of the activities by the names of `ActivitySettings`: `create_visibility_s`, `max_poll_s` ..."""

    @field_validator("providers", mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        # A misspelt key would silently mean the default credentials or the default address.
        if isinstance(value, dict):
            for name, given in value.items():
                unknown = sorted(set(given) - _PROVIDER_FIELDS) if isinstance(given, dict) else []
                if unknown:
                    raise ValueError(f"{name}: unknown {', '.join(unknown)}; known: {', '.join(_PROVIDER_FIELDS)}")
        return value

    @field_validator("providers")
    @classmethod
    def _readable_catalogs(cls, value: dict[str, ProviderSettings]) -> dict[str, ProviderSettings]:
        return {
            name: replace(given, catalog=_read_catalog(given.catalog, "providers", name, "catalog"))
            for name, given in value.items()
        }

    @field_validator("catalog", mode="before")
    @classmethod
    def _no_catalog(cls, value: Any) -> Any:
        # A variable that is set to nothing names no file.
        return None if value == "" else value

    @field_validator("catalog")
    @classmethod
    def _readable_catalog(cls, value: Path | None) -> Path | None:
        return _read_catalog(value, "catalog")

    @field_validator("activities")
    @classmethod
    def _known_waits(cls, value: dict[str, float]) -> dict[str, float]:
        unknown = sorted(set(value) - _WAITS)
        if unknown:
            raise ValueError(f"unknown {', '.join(unknown)}; known: {', '.join(sorted(_WAITS))}")
        return value

    def activity_settings(self, spool_dir: Path | None) -> ActivitySettings:
        given = ActivitySettings(
            store_url=self.store_url,
            store_options=self.store_options,
            spool_dir=spool_dir,
            providers=self.providers,
            catalog=self.catalog,
        )
        waits: dict[str, Any] = {name: _WAITS_TYPES[name](value) for name, value in self.activities.items()}
        return replace(given, **waits)


def _read_catalog(given: Path | None, *setting: str) -> Path | None:
    """Its absolute path, read at once: what is wrong in it is told when a process starts, not in the middle of a job."""
    if given is None:
        return None
    path = given.expanduser().absolute()
    try:
        load_catalog(path).check()
    except CatalogError as error:
        raise CatalogError(f"{error}; the setting is {told_by(setting)}", hint=error.hint) from error
    return path
