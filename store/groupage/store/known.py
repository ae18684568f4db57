"""Which providers the workers of a store know: told by each as it starts, so that a client, which needs no catalog, can
tell a misspelt name before a job takes its key.

One empty object a name, never taken back: `_providers/{name}`. What is not told may still be known, by a worker of an
older version, if nothing at all is told.
"""

from collections.abc import Iterable
from urllib.parse import quote, unquote

from groupage.store.objects import Store

_PREFIX = "_providers"
"""No tenant can be called so."""


def tell_providers(store: Store, names: Iterable[str]) -> None:
    """Raises StoreError."""
    for name in sorted(set(names) - told_providers(store)):
        store.put_new(f"{_PREFIX}/{quote(name, safe='')}", b"")


def told_providers(store: Store) -> set[str]:
    """Empty where no worker has told any. Raises StoreError."""
    return {unquote(key.rpartition("/")[2]) for key in store.list(_PREFIX)}
