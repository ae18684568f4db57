"""What the activities need to know of their surroundings: plain values, no environment is read here.

The worker builds these from its own settings (environment, TOML). Secrets live in `ProviderSettings`
only: they are never part of a message, a log line or a repr.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

DEFAULT_PROFILE = "default"


def setting_of(provider: str, profile: str) -> str:
    """How a profile is written in the settings' file: with the quotes that TOML wants around a slash."""
    return f"providers.{provider}" if profile == DEFAULT_PROFILE else f'providers."{provider}/{profile}"'


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One credential profile at one provider, and how to talk to it.

    Timeouts are seconds. They bound single network waits, not whole transfers: a transfer that
    moves may take as long as it needs, one that hangs is dropped (docs/cases.md SDK-07: both SDKs
    would wait 600 s by default).
    """

    kind: str = ""
    """Which provider of the catalog it is like; empty: the provider's own name."""
    base_url: str | None = field(default=None, repr=False)
    """None: the variable or address that the catalog names. It may have a password in it."""
    api_key: str | None = field(default=None, repr=False)
    """None: the variable that the catalog names."""
    api_key_env: str = ""
    """Another variable to read the key from."""
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 60.0
    """Longest silence in a small call."""
    create_timeout_s: float = 60.0
    """Longest duration of the one create call; never more than half the settle window (intents.py)."""
    inline_create_timeout_s: float = 300.0
    """The same where the create call carries the whole input: 256 MB at 1 MB a second. What such a call leaves
    unknown stays so for that much longer."""
    transfer_timeout_s: float = 120.0
    """Longest silence in the middle of an upload or download."""
    max_requests: int | None = None
    max_bytes: int | None = None
    max_line_bytes: int | None = None
    max_tokens: int | None = None
    max_inputs: int | None = None
    """Limits below or above the catalog's, for accounts and servers that differ."""
    completion_window: str = ""
    """How long a batch may take, in the provider's words (24h, 7d); empty: the catalog's choice for the deadline."""
    catalog: Path | None = None
    """A catalog of one's own for this profile; None: the worker's."""
    files_expire_after_s: int = 14 * 86_400
    """Input files delete themselves after this, should every clean-up fail. OpenAI takes 1 h to 30 d,
    Azure 14 to 30 d: 14 d fits both, and what does not fit is moved to the nearer bound. 0: the provider's own way."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    """What only one adapter needs (a bucket, a project, a region), by the names in its own docstring. No secrets."""


@dataclass(frozen=True, slots=True)
class ActivitySettings:
    """Everything that a `Context` takes."""

    store_url: str
    """file:///…, s3://…, gs://…, az://…, memory:///."""
    store_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spool_dir: Path | None = None
    """Local scratch space for files on their way; None: the system's temporary directory."""
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    """By "openai" (its profile `default`) or "openai/work" (its profile `work`)."""
    catalog: Path | None = None
    """A catalog of one's own, merged over ours (groupage.schemas.catalog)."""
    create_visibility_s: float = 120.0
    """The settle window. A create call without a clear answer counts as unknown for this long after its
    intent; only a look after it that finds nothing proves it absent (docs/cases.md SU-02). The call itself has
    to begin within a quarter of it and to end within a further half (intents.py)."""
    not_visible_s: float = 900.0
    """A 404 on a batch that we created means "not visible yet" for this long (docs/cases.md PO-01)."""
    files_late_s: float = 600.0
    """How long an ended batch may lack the files that it must have (docs/cases.md PO-08)."""
    max_poll_s: float = 600.0
    """Longest pause between two looks at a batch."""
    heavy_steps: int = 2
    """Steps that hold a shard's lines in memory (rendering, reading results) at once. They share one
    interpreter, so more would only need more memory; two overlap one's Python with the other's compression."""
    heartbeat_s: float = 5.0
    """Pause between two heartbeats of a working activity."""
    delete_attempts: int = 3
    """Tries for each file in one clean-up; the activity as a whole is retried on top."""
    delete_pause_s: float = 1.0

    def provider(self, name: str, profile: str = DEFAULT_PROFILE) -> ProviderSettings | None:
        """The named profile's settings; None if there are none. The default profile always exists."""
        given = self.providers.get(f"{name}/{profile}")
        if profile == DEFAULT_PROFILE:
            given = self.providers.get(name) or given or ProviderSettings()
        if given is None or given.catalog or self.catalog is None:
            return given
        return replace(given, catalog=self.catalog)
