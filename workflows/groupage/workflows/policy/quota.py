"""How long a shard waits after a quota refusal, or when its batch cannot be seen."""

import hashlib

FIRST_PAUSE_S = 300.0
LONGEST_PAUSE_FACTOR = 12.0
"""5 minutes, doubling up to an hour: enqueued tokens are freed when other batches end, which takes as long."""

POLLS_PER_PAUSE = 10.0
"""A job that polls faster than every 30 s (a test, a demo) also pauses for less at first."""

QUICK_ATTEMPTS = 20
"""After so many the poll does not count any more: what lasts longer is a matter of hours for every job."""

JITTER = 0.2

ATTEMPTS = 200
"""Over a week of hourly attempts, however fast the job polls, and 100 times below the limit of a history."""


def pause_s(attempt: int, poll_s: float, seed: str, retry_after_s: float | None = None) -> float:
    """Seconds before attempt number `attempt` + 1 (attempts count from 1), never less than the provider asked for.

    The jitter spreads a job's shards and is a function of `seed` and attempt: a replay gives the same.
    """
    first_s = min(FIRST_PAUSE_S, POLLS_PER_PAUSE * poll_s)
    grown_s = min(first_s * LONGEST_PAUSE_FACTOR, first_s * 2.0 ** min(max(attempt, 1) - 1, 16))
    if attempt > QUICK_ATTEMPTS:
        longest_s = FIRST_PAUSE_S * LONGEST_PAUSE_FACTOR
        grown_s = min(longest_s, grown_s * 2.0 ** min(attempt - QUICK_ATTEMPTS, 32))
    digest = hashlib.sha256(f"{seed}\x00{attempt}".encode()).digest()
    spread = 1.0 + JITTER * (int.from_bytes(digest[:4], "big") / 0xFFFFFFFF - 0.5)
    return max(grown_s * spread, retry_after_s or 0.0)
