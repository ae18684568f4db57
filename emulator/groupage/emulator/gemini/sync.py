"""models:generateContent and models:embedContent: the same answers, at once, at full price."""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.emulator.answers import Answer, BadBody
from groupage.emulator.calls import ApiError, Call, Handler, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.faults import RequestRule
from groupage.emulator.gemini.answers import reply_to
from groupage.emulator.gemini.errors import error_of, refusal, rule_error
from groupage.emulator.gemini.replies import refuse, truncate
from groupage.emulator.outcomes import odd_json
from groupage.emulator.sync_calls import Limiter, bill, take_time

Disturb = Callable[[dict[str, Any]], None]


def handler(core: Emulator) -> Handler:
    limiter = Limiter(core)

    async def handle(call: Call) -> Reply:
        check_pace(limiter, call)
        body, model = await call.json(), call.request.path_params["model"]
        try:
            made = reply_to(model, body, int(core.clock.now()), core.settings.answer_bytes)
        except BadBody as error:
            raise refusal(400, str(error)) from error
        return deliver(call, made, await take_time(call, made))

    return handle


def check_pace(limiter: Limiter, call: Call) -> None:
    """Raises ApiError 429. The wait stands among the error's details, and in no header."""
    try:
        limiter.check(call.account)
    except ApiError as error:
        wait_s = int(error.reply.headers.get("retry-after-ms", "0")) / 1000
        raise refusal(429, retry_s=wait_s) from error


def deliver(
    call: Call, made: Answer, rule: RequestRule | None, *, cut: Disturb = truncate, deny: Disturb = refuse
) -> Reply:
    """Bill it, and answer as the plan wants it; `cut` and `deny` change a reply of the model's."""
    bill(call, made, rule)
    if rule is None:
        return Reply(200, made.body)
    if rule.kind in ("http", "credit"):
        status, word, message = rule_error(rule)
        headers = {} if rule.retry_after is None else {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(error_of(status, word, message), status, headers)
    if rule.kind == "empty_body":
        return Reply(200, b"{}")
    if rule.kind == "odd_json":
        return Reply(200, odd_json(made.body))
    reply = orjson.loads(made.body)
    (cut if rule.kind == "truncated" else deny)(reply)
    return json_reply(reply)
