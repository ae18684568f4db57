"""Importing a provider's SDK at first use, by one thread at a time.

Shards are submitted side by side, so the first calls of a worker import the same packages in several threads.
Google's have failed in that ("SystemError: bad argument to internal function", seen on a busy machine with
google-cloud-aiplatform 2.7), and what stays behind half imported fails every import after it, for as long as
the process lives.

Each SDK is an extra of our package and may not be there. That is a person's matter, as a missing key is: an error of
class account, which asks instead of being tried again for ever, and names the extra.
"""

import importlib
import importlib.util
import sys
import threading

from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

SDKS: dict[str, tuple[str, ...]] = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "azure": ("openai",),
    "bedrock": ("boto3",),
    "gemini": ("httpx2", "google.genai"),
    "vertex": ("google.cloud.aiplatform_v1", "google.cloud.storage", "google.cloud.bigquery"),
}
"""By dialect, which is also the name of the extra: what no job can do without. (Azure with an Entra identity needs
`azure.identity` beside it.)"""

_loading = threading.RLock()
_loaded: set[str] = set()


def check_installed(provider: str, dialect: str, *more: str) -> None:
    """Raise ProviderError(account) where a package of the dialect's SDK is not there. Imports none of them."""
    for module in (*SDKS.get(dialect, ()), *more):
        if not _is_installed(module):
            raise not_installed(f"provider {provider}: its SDK is not installed (no module {module})", dialect)


def not_installed(message: str, extra: str) -> ProviderError:
    return ProviderError(
        message, error_class=ErrorClass.account, code="configuration", hint=f"pip install 'groupage[{extra}]'"
    )


def _is_installed(module: str) -> bool:
    try:
        # Of a dotted name the packages above it are imported; those are Google's namespaces, which hold nothing.
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def load(*modules: str, extra: str) -> None:
    """Import these. After a failure nothing of the named packages stays behind, so that the next call begins anew.

    Raises ProviderError(account) where one of them, or what it needs, is not installed or has another version's names.
    `extra` is the one of ours that brings them.
    """
    if _loaded.issuperset(modules):
        return
    with _loading:
        for module in modules:
            if module in _loaded:
                continue
            before = set(sys.modules)
            try:
                importlib.import_module(module)
            except BaseException as error:
                for name in set(sys.modules) - before:
                    if f"{name}.".startswith(f"{module}.") or f"{module}.".startswith(f"{name}."):
                        del sys.modules[name]
                if isinstance(error, ImportError):
                    raise not_installed(f"the SDK of {extra} cannot be imported: {error}", extra) from error
                raise
            _loaded.add(module)
