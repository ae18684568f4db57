"""How fast things go: sync lanes, their share of the rate limit, and how a remainder is cut for them."""

import math
from dataclasses import dataclass

from groupage.schemas import JobPolicy

SYNC_LANES = 4
"""Sync shards that run at once. More would not be faster (the account's rate limit is the bound), fewer
would leave all calls to one worker."""

SYNC_SHARD_REQUESTS = 500
"""Most requests of one sync shard: what is repeated at worst when a worker dies between two flushes."""


@dataclass(frozen=True, slots=True)
class LanePace:
    """What one lane may use: its part of requests a minute and of concurrent calls, both at least 1."""

    rpm: int
    concurrency: int


def sync_lanes(policy: JobPolicy, shards: int) -> int:
    """How many sync shards run at once: never more than there are shards, requests a minute or calls."""
    return max(1, min(SYNC_LANES, shards, policy.sync_rpm, policy.sync_concurrency))


def lane_pace(policy: JobPolicy, lanes: int, lane: int) -> LanePace:
    """The share of lane `lane` (from 0). The shares of all lanes add up to the policy's numbers exactly."""
    return LanePace(rpm=_share(policy.sync_rpm, lanes, lane), concurrency=_share(policy.sync_concurrency, lanes, lane))


def _share(total: int, parts: int, part: int) -> int:
    return total // parts + (1 if part < total % parts else 0)


def sync_shard_requests(policy: JobPolicy, remainder: int) -> int:
    """Size of the sync shards for `remainder` requests, so that all lanes end at about the same time."""
    if remainder <= 0:
        return SYNC_SHARD_REQUESTS
    lanes = sync_lanes(policy, remainder)
    waves = math.ceil(remainder / (lanes * SYNC_SHARD_REQUESTS))
    return max(1, math.ceil(remainder / (lanes * waves)))


def sync_rate(policy: JobPolicy) -> float:
    """Requests a second through the sync API: the rate limit, or what the open calls can carry."""
    return min(policy.sync_rpm / 60.0, policy.sync_concurrency / max(policy.sync_latency.total_seconds(), 0.001))


def sync_time_s(policy: JobPolicy, remainder: int) -> float:
    """Seconds that `remainder` requests take by sync, without any safety factor; 0 for none."""
    if remainder <= 0:
        return 0.0
    return remainder / sync_rate(policy) + policy.sync_latency.total_seconds()


def shard_requests(requests: int, shards: int) -> int:
    """About how many requests a shard holds; planning knows exactly."""
    return math.ceil(requests / shards) if shards else 0


def poll_s(policy: JobPolicy, span_s: float) -> float:
    """Seconds between polls: the policy's, but at least twenty polls within the job's whole span."""
    return max(0.2, min(policy.poll.total_seconds(), span_s / 20.0))
