"""Whether a job's provider is one that somebody knows, asked before the job takes its key."""

from difflib import get_close_matches

from groupage.schemas.catalog import load_catalog
from groupage.schemas.errors import StoreError, UsageError
from groupage.store.known import told_providers
from groupage.store.objects import Store


def check_known(store: Store, provider: str) -> bool:
    """Whether the provider is in the catalog that everybody has, or a worker of this store has told that it knows it.

    False where no worker has told anything yet: it may be known to the one that comes. Raises UsageError where
    workers have told what they know, and this is not among it. Blocks, if the catalog does not know it.
    """
    if load_catalog().get(provider) is not None:
        return True
    try:
        told = told_providers(store)
    except StoreError:
        # A client may have no right to list: the worker will say whether it knows the name.
        return False
    if not told or provider in told:
        return bool(told)
    likely = get_close_matches(provider, sorted(told), n=1)
    meant = f" (did you mean {likely[0]!r}?)" if likely else ""
    raise UsageError(
        f"no worker of {store.url} knows provider {provider!r}{meant}; nothing was sent",
        hint="write it as in the worker's catalog or settings; if it is new there, or its worker is of an older version, start that worker first, anew",
    )
