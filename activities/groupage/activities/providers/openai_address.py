"""Where an OpenAI-shaped server is, and the key for it."""

import os

from groupage.activities.providers.compatibility import Compatibility
from groupage.activities.providers.profile_options import secret_of
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.secrets import know_address


def read_address(name: str, settings: ProviderSettings, dialect: Compatibility) -> tuple[str, str]:
    """(base URL, key) from the profile, else from the dialect's environment variables.

    Raises ProviderError(account) where one is missing; a server of one's own may do without a key.
    """
    base_url = know_address(settings.base_url or os.environ.get(dialect.base_url_env or " ") or dialect.base_url)
    if not base_url:
        raise ProviderError(
            f"provider {name}: no address is known",
            error_class=ErrorClass.account,
            code="no_base_url",
            hint=f"set {dialect.base_url_env} or the profile's base_url",
        )
    key_env = settings.api_key_env or dialect.api_key_env
    api_key = settings.api_key or secret_of(name, key_env)
    # A profile that names a variable means that one, wherever its server is.
    if not api_key and (settings.api_key_env or (dialect.needs_key and base_url == dialect.base_url)):
        raise ProviderError(
            f"provider {name}: no API key is known",
            error_class=ErrorClass.account,
            code="no_api_key",
            hint=f"set {key_env} on the worker, or the profile's api_key",
        )
    return base_url, api_key or "none"
