"""A profile's `options` and the environment variables beside them."""

import os
from collections.abc import Mapping

from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError


def given_options(provider: str, settings: ProviderSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """All options by name, "" for what is not set: from the profile, else from the variable beside the name, if any.

    Raises ProviderError(account) for an option that is not among them.
    """
    unknown = sorted(set(settings.options) - set(variables))
    if unknown:
        raise wrong_settings(provider, f"unknown option {', '.join(unknown)}; known: {', '.join(variables)}")
    return {
        name: str(settings.options.get(name) or os.environ.get(variable or " ") or "").strip()
        for name, variable in variables.items()
    }


def wrong_settings(provider: str, detail: str) -> ProviderError:
    """The error for settings that have to be put right by a person."""
    return ProviderError(
        f"provider {provider}: {detail}",
        error_class=ErrorClass.account,
        code="configuration",
        hint="set it in the profile's options or in the environment of the worker",
    )
