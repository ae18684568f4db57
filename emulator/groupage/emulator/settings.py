"""What one emulator can be told: where it listens, how fast batches are, which limits it enforces."""

import math
import random
from dataclasses import dataclass
from pathlib import Path

from groupage.schemas import parse_duration

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Turnaround:
    """How long a batch takes, in virtual seconds: the same for all, or drawn per batch from a seed.

    Written `5s`, `uniform:10s,2m` (from, to) or `lognormal:1h,0.8` (median, sigma).
    """

    kind: str
    first: float
    second: float = 0.0

    def of(self, seed: int, number: int) -> float:
        """Seconds for the batch with this number (from 1)."""
        # Not for secrets: it has to be the same again after a restart.
        draw = random.Random(f"{seed}/turnaround/{number}")  # noqa: S311
        if self.kind == "uniform":
            return draw.uniform(self.first, self.second)
        if self.kind == "lognormal":
            return draw.lognormvariate(math.log(self.first), self.second)
        return self.first


def parse_turnaround(text: str) -> Turnaround:
    """Raises ValueError with the three forms."""
    kind, _, rest = text.rpartition(":")
    parts = rest.split(",")
    try:
        if kind == "" and len(parts) == 1:
            return Turnaround("constant", parse_duration(parts[0]).total_seconds())
        if kind == "uniform" and len(parts) == 2:
            low, high = (parse_duration(part).total_seconds() for part in parts)
            return Turnaround("uniform", low, high)
        if kind == "lognormal" and len(parts) == 2:
            median, sigma = parse_duration(parts[0]).total_seconds(), float(parts[1])
            if median > 0 and sigma >= 0:
                return Turnaround("lognormal", median, sigma)
    except ValueError as error:
        raise ValueError(f"turnaround {text!r}: {error}") from error
    raise ValueError(f"turnaround {text!r}: write 5s, uniform:10s,2m or lognormal:1h,0.8")


@dataclass(frozen=True)
class Settings:
    """Limits are OpenAI's (docs/emulator.md) where not said otherwise; None: not enforced."""

    state: Path
    host: str = "127.0.0.1"
    port: int = 0
    turnaround: Turnaround = Turnaround("constant", 5.0)
    speed: float = 1.0
    seed: int = 1
    answer_bytes: int = 320
    """About how long an answer's text is."""
    order: str = "shuffled"
    """Of result lines: shuffled, input or reversed."""
    cancel_s: float = 1.0
    """How long `cancelling` lasts, in virtual seconds."""
    max_requests: int | None = None
    """Of one batch; None: the provider's own limit."""
    max_batch_bytes: int = 200 * MIB
    max_file_bytes: int = 512 * MIB
    max_embedding_inputs: int = 50_000
    file_processing_s: float = 0.5
    """How long Azure takes to make an uploaded file usable, in virtual seconds."""
    max_files: int | None = None
    max_enqueued_tokens: int | None = None
    """Prompt tokens of all live batches of one account and model."""
    min_records: int = 100
    """Of one Bedrock job."""
    max_jobs: int | None = None
    """Live Bedrock jobs of one account and model."""
    batch_deployments: frozenset[str] = frozenset()
    """Azure deployments that take batches alone; the others take both."""
    sync_rpm: int | None = None
    """Sync requests a minute of one account: a token bucket that holds ten seconds' worth."""
    sync_latency_s: float = 0.0
    """Virtual seconds that a sync answer takes."""
    api_key: str | None = None
    """If set, any other key is refused with 401."""
