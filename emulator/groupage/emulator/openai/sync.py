"""The sync endpoints: the same answers, at once, at full price."""

import orjson
from groupage.emulator.answers import Answer, BadBody, answerer
from groupage.emulator.calls import Call, Handler, Reply, json_reply
from groupage.emulator.faults import RequestRule
from groupage.emulator.openai.accounts import bad_request
from groupage.emulator.outcomes import odd_json, refuse, rule_error, truncate
from groupage.emulator.sync_calls import Limiter, bill, take_time


def handler(endpoint: str, limiter: Limiter) -> Handler:
    answer = answerer(endpoint, limiter.core.settings.answer_bytes)

    async def handle(call: Call) -> Reply:
        headers = limiter.check(call.account)
        body = await call.json()
        if body.get("stream"):
            raise bad_request("This emulator does not stream: set stream to false.", "stream")
        try:
            made = answer(body, int(call.core.clock.now()))
        except BadBody as error:
            raise bad_request(str(error), error.param) from error
        return _reply(call, made, await take_time(call, made), headers)

    return handle


def _reply(call: Call, made: Answer, rule: RequestRule | None, headers: dict[str, str]) -> Reply:
    bill(call, made, rule)
    if rule is None:
        return Reply(200, made.body, headers)
    if rule.kind in ("http", "credit"):
        status, error = rule_error(rule)
        if rule.retry_after is not None:
            headers = headers | {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(error, status, headers)
    if rule.kind == "empty_body":
        return Reply(200, b"{}", headers)
    if rule.kind == "odd_json":
        return Reply(200, odd_json(made.body), headers)
    body = orjson.loads(made.body)
    (truncate if rule.kind == "truncated" else refuse)(body)
    return json_reply(body, 200, headers)
