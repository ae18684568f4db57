"""How fast sync calls may start: pure decisions, every moment is an argument (seconds, any clock).

Three brakes together: a token bucket (requests a minute), a limit on calls in flight that adapts to
what the provider bears (additive increase, multiplicative decrease), and a pause of all calls while a
Retry-After runs.
"""

from dataclasses import dataclass, field

from groupage.schemas import ErrorClass
from groupage.schemas.limits import FORBIDDEN_IN_A_ROW

THROTTLING = frozenset({ErrorClass.rate_limit, ErrorClass.transient, ErrorClass.quota})
"""Classes that mean "too much at once" or "in trouble": the limit on calls in flight is halved."""

RETRIED = frozenset({ErrorClass.rate_limit, ErrorClass.transient, ErrorClass.quota, ErrorClass.unknown})
"""Classes whose request is tried again here; all others are final (invariant 6)."""

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0


@dataclass(slots=True)
class Pace:
    """`rpm` and `concurrency` are the most that is allowed; `limit` is what the provider bears now."""

    rpm: int
    concurrency: int
    now: float
    limit: float = field(init=False)
    in_flight: int = field(default=0, init=False)
    _tokens: float = field(init=False)
    _burst: float = field(init=False)
    _filled_at: float = field(init=False)
    _paused_until: float = field(default=float("-inf"), init=False)
    _halved_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self.limit = float(self.concurrency)
        # One second's worth: a fuller bucket would break a provider's own, finer limits at the start.
        self._burst = max(1.0, self.rpm / 60)
        self._tokens = self._burst
        self._filled_at = self.now

    def wait_s(self, now: float) -> float | None:
        """Seconds until a call may start; 0.0: now; None: only after another one has ended."""
        if self.in_flight >= int(self.limit):
            return None
        self._fill(now)
        pause = self.paused_s(now)
        lacking = max(0.0, 1.0 - self._tokens)
        return max(pause, lacking * 60 / self.rpm)

    def start(self, now: float) -> None:
        """A call starts. Only after `wait_s` said 0.0."""
        self._fill(now)
        self._tokens -= 1.0
        self.in_flight += 1

    def paused_s(self, now: float) -> float:
        """Seconds until calls may start again after a Retry-After."""
        return max(0.0, self._paused_until - now)

    def end(
        self,
        now: float,
        started_at: float,
        error_class: ErrorClass | None,
        retry_after_s: float | None,
        left_s: float = float("inf"),
    ) -> None:
        """A call that started at `started_at` has ended; `error_class` None: with an answer. `left_s`: until nothing
        may be sent any more.
        """
        self.in_flight -= 1
        if retry_after_s:
            pause = pause_s(retry_after_s, left_s)
            self._paused_until = max(self._paused_until, now + pause)
            if pause < retry_after_s:
                # Sooner than the server wants: one call asks whether it still does.
                self.limit = 1.0
                self._halved_at = now
        if error_class in THROTTLING:
            # All calls of one burst fail together; they count as one sign, not as many.
            if started_at >= self._halved_at:
                self.limit = max(1.0, self.limit / 2)
                self._halved_at = now
        elif error_class is None:
            self.limit = min(float(self.concurrency), self.limit + 1.0 / self.limit)

    def _fill(self, now: float) -> None:
        gained = max(0.0, now - self._filled_at) * self.rpm / 60
        self._tokens = min(self._burst, self._tokens + gained)
        self._filled_at = max(self._filled_at, now)


def pause_s(retry_after_s: float, left_s: float) -> float:
    """How long to heed a Retry-After: half of the time that is left at most, so that what passes sooner is noticed."""
    return min(retry_after_s, max(0.0, left_s) / 2)


def backoff_s(attempt: int, retry_after_s: float | None, jitter: float) -> float:
    """Seconds before a request's next attempt; `attempt` is the one that failed, `jitter` lies in 0..1.

    Full jitter over the doubling pause, and never less than the server's own wish (SDK-06).
    """
    grown = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt - 1, 16))
    return max(grown * (0.5 + jitter / 2), retry_after_s or 0.0)


@dataclass(slots=True)
class Denials:
    """Whether 403s are about the requests that they answer, or about the account: those in a row, without an answer.

    They come faster than answers do. So a row of them only raises the doubt; what was under way meanwhile decides.
    Each doubt that an answer removes doubles the row that raises the next one: such requests are among the others.
    """

    in_a_row: int = 0
    bound: int = FORBIDDEN_IN_A_ROW

    def add(self, error_class: ErrorClass | None) -> None:
        """A call has ended; `error_class` None: with an answer. Other errors say nothing either way."""
        if error_class is None:
            self.bound *= 2 if self.doubtful else 1
            self.in_a_row = 0
        elif error_class is ErrorClass.forbidden:
            self.in_a_row += 1

    @property
    def doubtful(self) -> bool:
        return self.in_a_row >= self.bound


@dataclass(slots=True)
class Latency:
    """How long a call takes: a running mean and deviation, as TCP reckons its timeouts (RFC 6298)."""

    mean_s: float = 0.0
    deviation_s: float = 0.0
    seen: int = 0

    def add(self, seconds: float) -> None:
        if not self.seen:
            self.mean_s, self.deviation_s = seconds, seconds / 2
        else:
            self.deviation_s += (abs(seconds - self.mean_s) - self.deviation_s) / 4
            self.mean_s += (seconds - self.mean_s) / 8
        self.seen += 1

    @property
    def expected_s(self) -> float:
        """What a call should be given to end; 0.0 while none has been seen."""
        return self.mean_s + 2 * self.deviation_s
