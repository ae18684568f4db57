"""The sync endpoints: the same answers, at once, at full price."""

import asyncio
from dataclasses import dataclass, field

import orjson
from groupage.emulator.answers import Answer, BadBody, answerer
from groupage.emulator.calls import ApiError, Call, Handler, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.faults import RequestRule
from groupage.emulator.openai.accounts import bad_request
from groupage.emulator.outcomes import Ending, ending_of, is_billed, refuse, rule_error, truncate
from groupage.emulator.work import error_body

BURST_S = 10.0


@dataclass(slots=True)
class Limiter:
    """A token bucket per account that refills at `sync_rpm` and holds ten seconds' worth."""

    core: Emulator
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def check(self, account: str) -> dict[str, str]:
        """Headers that tell what is left. Raises ApiError 429 with retry-after in real seconds."""
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


def handler(endpoint: str, limiter: Limiter) -> Handler:
    answer = answerer(endpoint, limiter.core.settings.answer_bytes)

    async def handle(call: Call) -> Reply:
        core = call.core
        headers = limiter.check(call.account)
        body = await call.json()
        if body.get("stream"):
            raise bad_request("This emulator does not stream: set stream to false.", "stream")
        try:
            made = answer(body, int(core.clock.now()))
        except BadBody as error:
            raise bad_request(str(error), error.param) from error
        if core.settings.sync_latency_s:
            await asyncio.sleep(core.clock.real_seconds(core.settings.sync_latency_s))
        rule = (
            core.strikes.sync_request(made.question, await call.request.body()) if core.strikes.plan.requests else None
        )
        return _reply(call, made, rule, headers)

    return handle


def _reply(call: Call, made: Answer, rule: RequestRule | None, headers: dict[str, str]) -> Reply:
    ending = Ending.answered if rule is None else ending_of(rule)
    billed = rule is None or is_billed(rule)
    if call.billed_for_nothing and billed:
        ending = Ending.lost
    used, produced = (made.input_tokens, made.output_tokens) if billed else (0, 0)
    call.core.ledger.add_sync(made.question, used, produced, ending, billed)
    if rule is None:
        return Reply(200, made.body, headers)
    if rule.kind in ("http", "credit"):
        status, error = rule_error(rule)
        if rule.retry_after is not None:
            headers = headers | {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(error, status, headers)
    if rule.kind == "empty_body":
        return Reply(200, b"{}", headers)
    body = orjson.loads(made.body)
    (truncate if rule.kind == "truncated" else refuse)(body)
    return json_reply(body, 200, headers)
