"""A profile's settings as adapters read them: secrets and headers that can be sent, `options` and their variables."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.secrets import know, know_address

_KEY = re.compile(r"[\x21-\x7e]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_TELLING = re.compile(r"auth|key|token|secret|cookie|pass|credential|signature", re.IGNORECASE)
_SECRET_LENGTH = 16
"""Values of headers that are as long are taken for secrets whatever the header's name."""


def checked(provider: str, settings: ProviderSettings) -> ProviderSettings:
    """The settings with a key and headers that can be sent as they are; their secrets are known from now on.

    A key file ends in a line end, and what is pasted in blanks: they are taken off. Raises ProviderError(account)
    that names the setting, never its value, where more is wrong: HTTP libraries would quote the value in their errors.
    """
    address = know_address(settings.base_url)
    key = read_secret(provider, settings.api_key, "the profile's api_key")
    headers = {}
    for name, value in settings.extra_headers.items():
        told_by = f"the profile's extra_headers {name!r}"
        if _TELLING.search(name) or len(value) >= _SECRET_LENGTH:
            know(value)
        if not _HEADER_NAME.fullmatch(name):
            raise wrong_settings(provider, f"{told_by} is no name of a header")
        headers[name] = _sendable(provider, value, told_by, _HEADER_VALUE)
    return replace(settings, base_url=address, api_key=key or None, extra_headers=headers)


def read_secret(provider: str, value: str | None, told_by: str) -> str:
    """A key or token as it is sent: without blanks around it, "" for none. `told_by`: its variable or setting.

    Raises ProviderError(account) where it cannot be sent.
    """
    know(value)
    return _sendable(provider, value or "", told_by, _KEY)


def secret_of(provider: str, variable: str) -> str:
    """The key or token in an environment variable, "" where there is none."""
    return read_secret(provider, os.environ.get(variable) if variable else None, variable)


def _sendable(provider: str, value: str, told_by: str, allowed: "re.Pattern[str]") -> str:
    text = value.strip()
    if allowed.fullmatch(text):
        return text
    wrong = "a character that is not ASCII" if not text.isascii() else "a blank, a line end or the like within it"
    raise wrong_settings(provider, f"{told_by} has {wrong}: it cannot be sent in a header")


def given_options(provider: str, settings: ProviderSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """All options by name, "" for what is not set: from the profile, else from the variable beside the name, if any.

    Raises ProviderError(account) for an option that is not among them.
    """
    unknown = sorted(set(settings.options) - set(variables))
    if unknown:
        raise wrong_settings(provider, f"unknown option {', '.join(unknown)}; known: {', '.join(variables)}")
    given = {
        name: str(settings.options.get(name) or os.environ.get(variable or " ") or "").strip()
        for name, variable in variables.items()
    }
    for value in given.values():
        know_address(value)
    return given


def wrong_settings(provider: str, detail: str) -> ProviderError:
    """The error for settings that have to be put right by a person."""
    return ProviderError(
        f"provider {provider}: {detail}",
        error_class=ErrorClass.account,
        code="configuration",
        hint="set it in the profile's options or in the environment of the worker",
    )
