"""Where an Azure OpenAI resource is, which of its two surfaces is spoken, and by whom.

Each option is read from the profile's `options`, else from the variable beside it.

================  ==============================  ============================================================
api_version       OPENAI_API_VERSION              a date (2024-10-21): the older paths with `?api-version=`;
                                                  `preview` or `latest`: v1 with that word; none, or `v1`: v1
sync_deployments  GROUPAGE_AZURE_SYNC_DEPLOYMENTS  which deployment answers single requests in place of a batch
                                                  deployment: `batch-name=name, other-batch=other`, or one for all
token_scope       GROUPAGE_AZURE_TOKEN_SCOPE      what an Entra token is asked for
client_id         AZURE_CLIENT_ID                 which managed or workload identity, where there are several
================  ==============================  ============================================================

The address is the profile's `base_url`, else AZURE_OPENAI_BASE_URL, else AZURE_OPENAI_ENDPOINT. All three may be
the resource's root (https://NAME.openai.azure.com) or the base URL of v1 (.../openai/v1).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from groupage.activities.providers.compatibility import Compatibility
from groupage.activities.providers.profile_options import given_options, wrong_settings
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.secrets import know_address

TOKEN_SCOPE = "https://cognitiveservices.azure.com/.default"  # noqa: S105 - an address, not a secret
"""Of Azure OpenAI's own guides; newer ones also name https://ai.azure.com/.default."""

_VARIABLES = {
    "api_version": "OPENAI_API_VERSION",
    "sync_deployments": "GROUPAGE_AZURE_SYNC_DEPLOYMENTS",
    "token_scope": "GROUPAGE_AZURE_TOKEN_SCOPE",
    "client_id": "AZURE_CLIENT_ID",
}
_V1_WORDS = frozenset({"", "v1", "preview", "latest"})
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """Checked values."""

    api_version: str
    token_scope: str
    client_id: str
    sync_deployments: Mapping[str, str]
    """Batch deployment to the one for single requests; "" stands for all others."""

    def sync_deployment(self, deployment: str) -> str:
        """Where single requests for a batch deployment go: a deployment is of one kind alone."""
        return self.sync_deployments.get(deployment) or self.sync_deployments.get("") or deployment

    @property
    def legacy(self) -> bool:
        """Whether the older paths with a dated api-version are spoken."""
        return self.api_version not in _V1_WORDS

    @property
    def query(self) -> dict[str, str]:
        """What v1 takes with each call."""
        return {"api-version": self.api_version} if self.api_version in {"preview", "latest"} else {}


@dataclass(frozen=True, slots=True)
class Address:
    """A resource: its root, and the base URL of v1 in it. Without trailing slashes."""

    root: str
    v1: str


def read_options(settings: ProviderSettings) -> AzureOptions:
    """Raises ProviderError(account) that names what is wrong."""
    given = given_options("azure", settings, _VARIABLES)
    version = given["api_version"].lower()
    if version not in _V1_WORDS and not _DATED.fullmatch(version):
        raise wrong(f"api_version {version!r}: write a date such as 2024-10-21, preview, latest, or v1")
    instead = _deployments(given["sync_deployments"])
    return AzureOptions(version, given["token_scope"] or TOKEN_SCOPE, given["client_id"], instead)


def _deployments(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        batch, equals, name = (piece.strip() for piece in part.rpartition("="))
        if not name or bool(equals) != bool(batch) or batch in found:
            raise wrong(f"sync_deployments {part!r}: write batch-name=name, each once, or one name for all")
        found[batch] = name
    return found


def read_address(settings: ProviderSettings, dialect: Compatibility) -> Address:
    """Raises ProviderError(account) where none is set, or where what is set is no address."""
    given = know_address(settings.base_url or _variable(dialect.base_url_env) or _variable(dialect.root_env))
    if not given:
        raise ProviderError(
            "provider azure: no address is known",
            error_class=ErrorClass.account,
            code="no_base_url",
            hint=f"set {dialect.root_env} (https://NAME.openai.azure.com) on the worker, or the profile's base_url",
        )
    parts = urlsplit(given.strip())
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query:
        raise wrong(f"{given!r} is not an address such as https://NAME.openai.azure.com")
    whole = given.strip().rstrip("/")
    if whole.endswith("/v1"):
        # A base URL as it is; what is in front of it may be a gateway's own path.
        return Address(whole.removesuffix("/v1").removesuffix("/openai"), whole)
    root = whole.removesuffix("/openai")
    return Address(root, f"{root}/openai/v1")


def _variable(name: str) -> str:
    return os.environ.get(name, "") if name else ""


def wrong(detail: str) -> ProviderError:
    """The error for settings that have to be put right by a person."""
    return wrong_settings("azure", detail)
