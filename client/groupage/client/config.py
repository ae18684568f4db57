"""Where a process finds its store and its Temporal server.

Sources, strongest first: arguments, environment (`GROUPAGE_*`), the TOML file named by
`GROUPAGE_CONFIG` or else `config.toml` in the user's configuration directory, defaults. Temporal's
own settings (address, namespace, TLS, API key) are Temporal's: `TEMPORAL_ADDRESS`,
`TEMPORAL_PROFILE`, `temporal.toml`; nothing of them is repeated here. A file in the working
directory is not read: it could send somebody's credentials elsewhere.
"""

import os
from pathlib import Path
from typing import Any, TypeVar

from groupage.schemas.errors import UsageError
from platformdirs import user_config_path, user_state_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from temporalio.envconfig import ClientConfig, ClientConnectConfig

CONFIG_VARIABLE = "GROUPAGE_CONFIG"

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

    model_config = SettingsConfigDict(env_prefix="GROUPAGE_", env_nested_delimiter="__", extra="ignore")

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
        toml = (TomlConfigSettingsSource(settings_cls, path),) if path else ()
        return (init_settings, env_settings, *toml)

    @property
    def store_url(self) -> str:
        return self.store or (self.state_dir / "store").as_uri()


def load_settings(kind: type[S], **given: Any) -> S:
    """Settings from all sources; arguments that are None count as not given. UsageError names what is wrong."""
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        found = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()
        )
        raise UsageError(
            f"settings are wrong: {found}", hint="see GROUPAGE_* in the environment and the configuration file"
        ) from error


def temporal_connect_config() -> ClientConnectConfig | None:
    """Keyword arguments for `Client.connect` from Temporal's envconfig, or None where no server is configured."""
    try:
        config = ClientConfig.load_client_connect_config()
    except RuntimeError as error:
        raise UsageError(f"Temporal's client configuration cannot be read: {error}") from error
    return config if config.get("target_host") else None
