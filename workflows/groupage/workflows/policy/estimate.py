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
It only matters until a job has seen turnarounds of its own."""

PRIOR_WEIGHT = 4.0
TURNAROUNDS_KEPT = 32
"""Past turnarounds that a job carries along: enough for deciles, small in a payload."""

LONGEST_S = 604_800.0


def prior_cdf(seconds: float) -> float:
    """Share of batches that have ended after `seconds` by the prior; linear in the logarithm of time."""
    if seconds <= 0:
        return 0.0
    first_s, first_share = PRIOR[0]
    if seconds <= first_s:
        return first_share * seconds / first_s
    for (low_s, low), (high_s, high) in pairwise(PRIOR):
        if seconds <= high_s:
            return low + (high - low) * math.log(seconds / low_s) / math.log(high_s / low_s)
    return 1.0


def cdf(seconds: float, turnarounds: Sequence[float]) -> float:
    """Share of batches that have ended after `seconds`. `turnarounds` need not be sorted."""
    seen = bisect_right(sorted(turnarounds), seconds)
    return (PRIOR_WEIGHT * prior_cdf(seconds) + seen) / (PRIOR_WEIGHT + len(turnarounds))


def finish_probability(
    turnarounds: Sequence[float], *, elapsed_s: float, within_s: float, completed_share: float = 0.0
) -> float:
    """Probability that a batch that has run for `elapsed_s` ends within `within_s` more seconds.

    `completed_share` is what the provider's counts say; 0 (also: not told) leaves it to the turnarounds.
    """
    if within_s <= 0:
        return 0.0
    elapsed_s = max(0.0, elapsed_s)
    alive = 1.0 - cdf(elapsed_s, turnarounds)
    by_age = 1.0 if alive <= 0 else min(1.0, (cdf(elapsed_s + within_s, turnarounds) - (1.0 - alive)) / alive)
    if not 0.0 < completed_share < 1.0 or elapsed_s <= 0:
        return 1.0 if completed_share >= 1.0 else by_age
    # At the pace so far it needs this much longer; half of the weight, because counts come in bursts.
    needed_s = elapsed_s * (1.0 - completed_share) / completed_share
    by_counts = within_s / (within_s + needed_s)
    return (by_age + by_counts) / 2.0


def still_needed_s(
    turnarounds: Sequence[float], *, elapsed_s: float, completed_share: float = 0.0, quantile: float = 0.5
) -> float:
    """Seconds until such a batch has ended with probability `quantile`, at most LONGEST_S."""
    low, high = 0.0, LONGEST_S
    for _ in range(40):
        middle = (low + high) / 2.0
        chance = finish_probability(turnarounds, elapsed_s=elapsed_s, within_s=middle, completed_share=completed_share)
        if chance >= quantile:
            high = middle
        else:
            low = middle
    return high


def remember(turnarounds: Sequence[float], seconds: float) -> list[float]:
    """The turnarounds with one more, the oldest dropped."""
    return [*turnarounds, round(seconds, 1)][-TURNAROUNDS_KEPT:] if seconds > 0 else list(turnarounds)
