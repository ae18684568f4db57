"""Importing a provider's SDK at first use, by one thread at a time.

Shards are submitted side by side, so the first calls of a worker import the same packages in several threads.
Google's have failed in that ("SystemError: bad argument to internal function", seen on a busy machine with
google-cloud-aiplatform 2.7), and what stays behind half imported fails every import after it, for as long as
the process lives.
"""

import importlib
import sys
import threading

_loading = threading.RLock()
_loaded: set[str] = set()


def load(*modules: str) -> None:
    """Import these. After a failure nothing of the named packages stays behind, so that the next call begins anew."""
    if _loaded.issuperset(modules):
        return
    with _loading:
        for module in modules:
            if module in _loaded:
                continue
            before = set(sys.modules)
            try:
                importlib.import_module(module)
            except BaseException:
                for name in set(sys.modules) - before:
                    if f"{name}.".startswith(f"{module}.") or f"{module}.".startswith(f"{name}."):
                        del sys.modules[name]
                raise
            _loaded.add(module)
