"""Where a process finds its store and its Temporal server.

Sources, strongest first: arguments, environment (`GROUPAGE_*`), the TOML file named by
`GROUPAGE_CONFIG` or else `config.toml` in the user's configuration directory, defaults. Temporal's
own settings (address, namespace, TLS, API key) are Temporal's: `TEMPORAL_ADDRESS`,
`TEMPORAL_PROFILE`, `temporal.toml`; nothing of them is repeated here. A file in the working
directory is not read: it could send somebody's credentials elsewhere.
"""

import logging
import os
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from groupage.schemas.errors import UsageError
from platformdirs import user_config_path, user_state_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from temporalio.envconfig import ClientConfig, ClientConnectConfig

PREFIX = "GROUPAGE_"
CONFIG_VARIABLE = "GROUPAGE_CONFIG"

WORKER_SETTINGS = (
    "providers", "catalog", "graceful_shutdown", "max_concurrent_activities", "threads", "max_cached_workflows",
    "metrics", "log_level", "log_format", "activities",
)  # fmt: skip
"""What workers read besides (groupage.workers.settings): a file is shared with them."""

ADAPTERS_PREFIXES = tuple(
    f"{PREFIX}{name}_" for name in ("AZURE", "BEDROCK", "VERTEX", "GEMINI", "ANTHROPIC", "OPENAI_COMPATIBLE", "TEST")
)
"""Variables that adapters and tests read themselves."""

_PATHS = ("state_dir", "store", "catalog")
"""Settings that may be a path."""

log = logging.getLogger(__name__)
_warned: set[str] = set()

S = TypeVar("S", bound=BaseSettings)


def config_file() -> Path | None:
    """The TOML file that is read, or None. One that is named but not there is an error."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise UsageError(f"{CONFIG_VARIABLE} names {path}, which is not a file")
        return path
    default = user_config_path("groupage") / "config.toml"
    return default if default.is_file() else None


class ClientSettings(BaseSettings):
    """What clients and workers must agree on."""

    # Without inputs in errors: they are keys, and the error may end up in a traceback.
    model_config = SettingsConfigDict(
        env_prefix="GROUPAGE_", env_nested_delimiter="__", extra="ignore", hide_input_in_errors=True
    )

    state_dir: Path = Field(default_factory=lambda: user_state_path("groupage"))
    """Local state: the embedded Temporal's database, spool files, the default store."""
    store: str | None = None
    """URL of the object store; None: `store/` under the state directory."""
    store_options: dict[str, str] = Field(default_factory=dict)
    """Options of the store's client, for instance endpoint and region; credentials come from its own environment."""
    task_queue: str | None = None
    """None: `groupage`, or `groupage-{owner}` where that could mix two stores (connection.py)."""

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("store")
    @classmethod
    def _store_url(cls, value: str | None) -> str | None:
        # People write a path where a URL is wanted; what it means is plain.
        if not value:
            return None
        return value if "://" in value else Path(value).expanduser().absolute().as_uri()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        path = config_file()
        file = (InitSettingsSource(settings_cls, init_kwargs=read_file(path, settings_cls)),) if path else ()
        return (init_settings, env_settings, *file)

    @property
    def store_url(self) -> str:
        return self.store or (self.state_dir / "store").as_uri()


def read_file(path: Path, kind: type[BaseSettings]) -> dict[str, Any]:
    """What stands in the TOML file. UsageError with file and line where it is none, or sets what there is not."""
    try:
        # Editors of some systems begin a file with a byte order mark; it means nothing.
        text = path.read_bytes().decode("utf-8-sig")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8", hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path} is not TOML: {error}", hint='write it like `store = "s3://bucket/prefix"`, texts in quotes'
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    known = sorted({*kind.model_fields, *ClientSettings.model_fields, *WORKER_SETTINGS})
    for name in values:
        if name not in known:
            likely = get_close_matches(name, known, n=1)
            meant = f": did you mean {likely[0]}?" if likely else ""
            raise UsageError(
                f"{path}{_line_of(name, text)}: there is no setting {name}{meant}", hint=f"known: {', '.join(known)}"
            )
    return _beside(path.parent, values)


def _beside(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The file's values, paths in it being relative to its own folder: where a command is run from must not matter."""

    def placed(value: Any) -> Any:
        if not isinstance(value, str) or not value or "://" in value:
            return value
        return str(folder.absolute() / Path(value).expanduser())

    found = {name: placed(value) if name in _PATHS else value for name, value in values.items()}
    profiles = found.get("providers")
    if isinstance(profiles, dict):
        found["providers"] = {
            name: given | {"catalog": placed(given["catalog"])}
            if isinstance(given, dict) and "catalog" in given
            else given
            for name, given in profiles.items()
        }
    return found


def _line_of(name: str, text: str) -> str:
    """`, line 3` of a top-level key or table, if it can be told."""
    sets = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    number = next((n for n, line in enumerate(text.split("\n"), 1) if sets.match(line)), None)
    return f", line {number}" if number else ""


def unknown_variables(own: Iterable[str] = ()) -> list[str]:
    """A sentence for each GROUPAGE_* variable that nothing reads; `own` are names that settings point to."""
    known = sorted({PREFIX + name.upper() for name in (*ClientSettings.model_fields, *WORKER_SETTINGS)})
    found = []
    for name in sorted(os.environ):
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper == CONFIG_VARIABLE or name in own:
            continue
        if upper.partition("__")[0] in known or upper.startswith(ADAPTERS_PREFIXES):
            continue
        likely = get_close_matches(upper, [*known, CONFIG_VARIABLE], n=1)
        found.append(f"nothing reads {name}" + (f": did you mean {likely[0]}?" if likely else ""))
    return found


def load_settings(kind: type[S], **given: Any) -> S:
    """Settings from all sources; arguments that are None count as not given. UsageError names what is wrong.

    A variable that looks like a setting and is none is only warned of: it may be somebody else's.
    """
    try:
        settings = kind(**{name: value for name, value in given.items() if value is not None})
    except SettingsError as error:
        named = re.search(r'field "(\w+)"', str(error))
        variable = PREFIX + (named[1].upper() if named else "*")
        raise UsageError(
            f"{variable} is not JSON",
            hint=f"write a JSON object, or one variable for each part: {variable}__NAME=value",
        ) from error
    except ValidationError as error:
        found = "; ".join(
            f"{told_by(problem['loc'])}: {problem['msg'].removeprefix('Value error, ')}" for problem in error.errors()
        )
        raise UsageError(
            f"settings are wrong: {found}", hint="mend it there; `groupage doctor` tells which file is read"
        ) from error
    profiles = getattr(settings, "providers", {}).values()
    for sentence in unknown_variables([each.api_key_env for each in profiles]):
        if sentence not in _warned:
            _warned.add(sentence)
            log.warning(sentence)
    return settings


def told_by(place: tuple[int | str, ...]) -> str:
    """Where a setting comes from: `store_options (GROUPAGE_STORE_OPTIONS)`, or with the file and line."""
    name = ".".join(str(part) for part in place)
    variable = PREFIX + str(place[0]).upper()
    if any(each.upper() == variable or each.upper().startswith(f"{variable}__") for each in os.environ):
        return f"{name} ({variable})"
    path = config_file()
    line = _line_of(str(place[0]), path.read_bytes().decode("utf-8-sig")) if path else ""
    return f"{name} ({path}{line})" if line else name


def temporal_connect_config() -> ClientConnectConfig | None:
    """Keyword arguments for `Client.connect` from Temporal's envconfig, or None where no server is configured."""
    try:
        config = ClientConfig.load_client_connect_config()
    except RuntimeError as error:
        raise UsageError(f"Temporal's client configuration cannot be read: {error}") from error
    return config if config.get("target_host") else None
