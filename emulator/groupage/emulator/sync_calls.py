"""What all sync endpoints do alike: a rate limit, the time a model takes, what the plan wants, and the bill."""

import asyncio
from dataclasses import dataclass, field

from groupage.emulator.answers import Answer
from groupage.emulator.calls import ApiError, Call
from groupage.emulator.core import Emulator
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import Ending, ending_of, is_billed
from groupage.emulator.work import error_body

BURST_S = 10.0


@dataclass(slots=True)
class Limiter:
    """A token bucket per account that refills at `sync_rpm` and holds ten seconds' worth."""

    core: Emulator
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def check(self, account: str) -> dict[str, str]:
        """Headers that tell what is left. Raises ApiError 429 with retry-after in real seconds, in OpenAI's words."""
        rpm = self.core.settings.sync_rpm
        if rpm is None:
            return {}
        now, pace = self.core.clock.now(), rpm / 60.0
        most = max(1.0, pace * BURST_S)
        left, then = self._buckets.get(account, (most, now))
        left = min(most, left + (now - then) * pace)
        headers = {"x-ratelimit-limit-requests": str(rpm), "x-ratelimit-remaining-requests": str(max(0, int(left - 1)))}
        if left < 1:
            self._buckets[account] = (left, now)
            wait = self.core.clock.real_seconds((1 - left) / pace)
            message = f"Rate limit reached: {rpm} requests per min. Please try again in {wait:.3f}s."
            headers |= {"retry-after": str(int(wait) + 1), "retry-after-ms": str(int(wait * 1000) + 1)}
            raise ApiError(429, error_body(message, "requests", "rate_limit_exceeded"), headers)
        self._buckets[account] = (left - 1, now)
        return headers


def retry_after(error: ApiError) -> dict[str, str]:
    """The one header of the limiter's error that other providers send too."""
    return {name: text for name, text in error.reply.headers.items() if name == "retry-after"}


async def take_time(call: Call, made: Answer) -> RequestRule | None:
    """Let the time pass that a model takes to answer; what the plan wants of this answer, if anything."""
    core = call.core
    if core.settings.sync_latency_s:
        await asyncio.sleep(core.clock.real_seconds(core.settings.sync_latency_s))
    if not core.strikes.plan.requests:
        return None
    return core.strikes.sync_request(made.question, await call.request.body())


def bill(call: Call, made: Answer, rule: RequestRule | None) -> None:
    """Into the ledger, as it ends by the plan."""
    ending = Ending.answered if rule is None else ending_of(rule)
    billed = rule is None or is_billed(rule)
    if call.billed_for_nothing and billed:
        ending = Ending.lost
    used, produced = (made.input_tokens, made.output_tokens) if billed else (0, 0)
    call.core.ledger.add_sync(made.question, used, produced, ending, billed)
