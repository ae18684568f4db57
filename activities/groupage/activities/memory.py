"""Giving back what a step has freed: glibc keeps freed memory in its pools until it is told."""

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Takes some milliseconds. Without effect where libc is another."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
