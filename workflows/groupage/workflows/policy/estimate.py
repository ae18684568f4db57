"""How long a provider batch still needs, *given* how long it has run and what its counts say.

Turnarounds are heavy-tailed: most batches end within an hour or two, some take the whole day, so an
average says little, and a batch that has run for long is likely to run on. The estimate is the
conditional distribution over past turnarounds, blended with a prior that weighs as much as
PRIOR_WEIGHT observations.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from groupage.schemas import JobPolicy

PRIOR: tuple[tuple[float, float], ...] = (
    (30.0, 0.02),
    (300.0, 0.10),
    (1_800.0, 0.35),
    (3_600.0, 0.50),
    (10_800.0, 0.70),
    (21_600.0, 0.80),
    (43_200.0, 0.88),
    (86_400.0, 0.95),
    (604_800.0, 1.0),
)
"""(seconds, share of batches that have ended by then): a guess at what users of hosted batch APIs report.
It only matters until a job has seen turnarounds of its own, and is stretched to the median that the policy
names (JobPolicy.turnaround)."""

MEDIAN_S = 3_600.0

SETTLE_PRIOR: tuple[tuple[float, float], ...] = (
    (15.0, 0.02),
    (60.0, 0.15),
    (150.0, 0.50),
    (300.0, 0.75),
    (600.0, 0.90),
    (1_800.0, 0.97),
    (14_400.0, 1.0),
)
"""(seconds, share of cancelled batches that have ended by then). "Up to ten minutes" say the providers'
pages, 25 were seen (docs/cases.md PO-15). Stretched like PRIOR."""

PRIOR_WEIGHT = 4.0
TURNAROUNDS_KEPT = 32
"""Past turnarounds that a job carries along: enough for deciles, small in a payload."""

POLLS_PER_TURNAROUND = 120
"""Who polls every half second expects batches of a minute: an emulator or an own server."""


def typical_s(policy: JobPolicy) -> float:
    """The median turnaround that is reckoned with until others are seen."""
    told = policy.turnaround if policy.turnaround is not None else POLLS_PER_TURNAROUND * policy.poll
    return max(told.total_seconds(), 0.001)


def _interpolate(seconds: float, curve: Sequence[tuple[float, float]]) -> float:
    """Share at `seconds`; linear in the logarithm of time between the points, 1 beyond the last."""
    if seconds <= 0:
        return 0.0
    first_s, first_share = curve[0]
    if seconds <= first_s:
        return first_share * seconds / first_s
    for (low_s, low), (high_s, high) in pairwise(curve):
        if seconds <= high_s:
            return low + (high - low) * math.log(seconds / low_s) / math.log(high_s / low_s)
    return 1.0


def settle_probability(seconds: float, *, typical_s: float = MEDIAN_S) -> float:
    """Probability that a cancelled batch has ended after `seconds`."""
    return _interpolate(seconds * MEDIAN_S / typical_s, SETTLE_PRIOR)


def cdf(seconds: float, turnarounds: Sequence[float], *, typical_s: float = MEDIAN_S) -> float:
    """Share of batches that have ended after `seconds`. `turnarounds` need not be sorted."""
    seen = bisect_right(sorted(turnarounds), seconds)
    prior = _interpolate(seconds * MEDIAN_S / typical_s, PRIOR)
    return (PRIOR_WEIGHT * prior + seen) / (PRIOR_WEIGHT + len(turnarounds))


def finish_probability(
    turnarounds: Sequence[float],
    *,
    elapsed_s: float,
    within_s: float,
    completed_share: float = 0.0,
    typical_s: float = MEDIAN_S,
) -> float:
    """Probability that a batch that has run for `elapsed_s` ends within `within_s` more seconds.

    `completed_share` is what the provider's counts say; 0 (also: not told) leaves it to the turnarounds.
    """
    if within_s <= 0:
        return 0.0
    elapsed_s = max(0.0, elapsed_s)
    ended = cdf(elapsed_s, turnarounds, typical_s=typical_s)
    then = cdf(elapsed_s + within_s, turnarounds, typical_s=typical_s)
    by_age = 1.0 if ended >= 1.0 else max(0.0, min(1.0, (then - ended) / (1.0 - ended)))
    if not 0.0 < completed_share < 1.0 or elapsed_s <= 0:
        return 1.0 if completed_share >= 1.0 else by_age
    # At the pace so far it needs this much longer; half of the weight, because counts come in bursts.
    needed_s = elapsed_s * (1.0 - completed_share) / completed_share
    by_counts = within_s / (within_s + needed_s)
    return (by_age + by_counts) / 2.0


def remember(turnarounds: Sequence[float], seconds: float) -> list[float]:
    """The turnarounds with one more, the oldest dropped."""
    return [*turnarounds, round(seconds, 1)][-TURNAROUNDS_KEPT:] if seconds > 0 else list(turnarounds)
