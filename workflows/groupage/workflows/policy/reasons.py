"""Why whole batches were refused: each distinct reason once, with how much of the job it holds for.

One provider may refuse the batches of one job for several reasons (an endpoint, a window, a model), and who mends
the first alone is asked again.
"""

import re
from collections.abc import Sequence

from pydantic import BaseModel

REASONS_MAX = 5
"""Distinct ones that are kept; what is refused for others is counted together."""

TEXT_MAX = 300

_TAG = re.compile(r"\S+-r\d+-s\d+\b")
"""A submission's tag (ids.submission_tag): it is another one in each shard's message."""


class Reason(BaseModel):
    text: str
    """Empty: of those beyond REASONS_MAX."""
    shards: int = 1
    requests: int = 0


def count_reason(reasons: Sequence[Reason], message: str, requests: int) -> list[Reason]:
    """`reasons` after one more shard, of so many requests, that was refused with this message."""
    text = _TAG.sub("the batch", message)[:TEXT_MAX]
    known = {reason.text for reason in reasons}
    if text not in known and len(known - {""}) >= REASONS_MAX:
        text = ""
    if text not in known:
        return [*reasons, Reason(text=text, requests=requests)]
    return [
        Reason(text=text, shards=one.shards + 1, requests=one.requests + requests) if one.text == text else one
        for one in reasons
    ]


def tell_reasons(reasons: Sequence[Reason]) -> str:
    """In words, what holds for most requests first; a reason that stands alone needs no count."""
    if len(reasons) == 1:
        return reasons[0].text
    ordered = sorted(reasons, key=lambda one: (not one.text, -one.requests, one.text))
    return "; ".join(
        f"{one.text or 'other reasons'} ({_number(one.shards, 'batch', 'batches')}, "
        f"{_number(one.requests, 'request', 'requests')})"
        for one in ordered
    )


def _number(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
