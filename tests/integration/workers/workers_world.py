"""What the tests of the worker processes share."""

import asyncio
from collections.abc import Callable


async def eventually(check: Callable[[], bool], within_s: float = 90.0) -> None:
    """Wait until the check holds."""
    for _ in range(int(within_s / 0.1)):
        if check():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"it did not come true within {within_s:.0f} s")
