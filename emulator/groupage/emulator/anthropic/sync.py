"""POST /v1/messages: the same answers, at once, at full price."""

import orjson
from groupage.emulator.answers import Answer, BadBody
from groupage.emulator.anthropic.answers import answerer
from groupage.emulator.anthropic.errors import error_of, refusal
from groupage.emulator.anthropic.lines import refuse, rule_error, truncate
from groupage.emulator.calls import ApiError, Call, Handler, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import odd_json
from groupage.emulator.sync_calls import Limiter, bill, retry_after, take_time

REQUEST_ID = "request-id"


def handler(core: Emulator) -> Handler:
    answer, limiter = answerer(core.settings.answer_bytes), Limiter(core)

    async def handle(call: Call) -> Reply:
        headers = {REQUEST_ID: core.new_id("req_")}
        try:
            limiter.check(call.account)
        except ApiError as error:
            raise ApiError(429, error_of(429, None, None), headers | retry_after(error)) from error
        body = await call.json()
        try:
            made = answer(body, int(core.clock.now()))
        except BadBody as error:
            raise refusal(400, str(error)) from error
        return _reply(call, made, await take_time(call, made), headers)

    return handle


def _reply(call: Call, made: Answer, rule: RequestRule | None, headers: dict[str, str]) -> Reply:
    bill(call, made, rule)
    if rule is not None and rule.kind in ("http", "credit"):
        status, error = rule_error(rule)
        if rule.retry_after is not None:
            headers = headers | {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(error, status, headers)
    if rule is not None and rule.kind == "empty_body":
        return Reply(200, b"{}", headers)
    message = orjson.loads(made.body)
    message["usage"]["service_tier"] = "standard"
    if rule is not None and rule.kind == "odd_json":
        return Reply(200, odd_json(orjson.dumps(message)), headers)
    if rule is not None:
        (truncate if rule.kind == "truncated" else refuse)(message)
    return json_reply(message, 200, headers)
