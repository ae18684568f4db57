"""Going through listings of OpenAI-shaped servers: cursor pages, newest first, or what passes for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from itertools import pairwise
from typing import Any

from groupage.activities.providers.base import CLOCK_SKEW
from groupage.activities.providers.batch_objects import read_time

MAX_PAGES = 10_000
"""A listing that goes on for longer than this goes round in circles."""

Page = Callable[[str | None], Awaitable[dict[str, Any]]]
"""The page after an id; the first one for None."""


async def listed(page: Page, since: datetime | None, *, paged: bool) -> AsyncIterator[dict[str, Any]]:
    """The objects made since then (all for None), from all pages up to one that is wholly older.

    Newest first is what OpenAI's listings look like but not what is promised: the listing is cut short
    only where the page itself is in that order. Objects without an id are left out, those without a
    time are not. `paged` is false for servers whose listing is one page.
    """
    horizon = since - CLOCK_SKEW if since is not None else None
    after: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        listing = await page(after)
        data = listing.get("data")
        items = [item for item in data if _has_id(item)] if isinstance(data, list) else []
        fresh = [item for item in items if item["id"] not in seen]
        seen = {item["id"] for item in items}
        for item in fresh:
            made = read_time(item.get("created_at"))
            if horizon is None or made is None or made >= horizon:
                yield item
        # A server that ignores `after` gives the same page for ever.
        if not fresh or not listing.get("has_more") or not paged:
            return
        if horizon is not None and _wholly_older(fresh, horizon):
            return
        after = items[-1]["id"]


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str) and bool(item["id"])


def _wholly_older(items: list[dict[str, Any]], horizon: datetime) -> bool:
    times = [read_time(item.get("created_at")) for item in items]
    known = [made for made in times if made is not None]
    if len(known) != len(times):
        return False
    return all(made < horizon for made in known) and all(newer >= older for newer, older in pairwise(known))
