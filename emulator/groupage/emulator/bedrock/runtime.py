"""bedrock-runtime's InvokeModel and Converse: the same answers, at once, at full price."""

import orjson
from groupage.emulator.answers import Answer, BadBody
from groupage.emulator.bedrock.answers import reply_to
from groupage.emulator.bedrock.errors import TYPE_HEADER, error_of, refusal
from groupage.emulator.bedrock.lines import rule_error
from groupage.emulator.bedrock.replies import refuse, truncate
from groupage.emulator.calls import ApiError, Call, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import odd_json
from groupage.emulator.sync_calls import Limiter, bill, retry_after, take_time


class Runtime:
    """The two handlers; they share one limiter."""

    def __init__(self, core: Emulator) -> None:
        self._limiter = Limiter(core)

    async def invoke(self, call: Call) -> Reply:
        return await self._answer(call, "/invoke")

    async def converse(self, call: Call) -> Reply:
        return await self._answer(call, "/converse")

    async def _answer(self, call: Call, target: str) -> Reply:
        core = call.core
        headers = {"x-amzn-requestid": core.new_id("")}
        try:
            self._limiter.check(call.account)
        except ApiError as error:
            body = error_of(429, None, None)
            raise ApiError(429, body, headers | retry_after(error) | {TYPE_HEADER: body["__type"]}) from error
        asked, model = await call.json(), call.request.path_params["model"]
        try:
            made = reply_to(model, target, asked, int(core.clock.now()), core.settings.answer_bytes, batch=False)
        except BadBody as error:
            raise refusal(400, str(error)) from error
        return _reply(call, made, await take_time(call, made), headers)


def _reply(call: Call, made: Answer, rule: RequestRule | None, headers: dict[str, str]) -> Reply:
    bill(call, made, rule)
    if rule is not None and rule.kind in ("http", "credit"):
        status, message, code = rule_error(rule)
        body = error_of(status, code, message)
        if rule.retry_after is not None:
            headers = headers | {"retry-after": f"{rule.retry_after:g}"}
        return json_reply(body, status, headers | {TYPE_HEADER: body["__type"]})
    headers = headers | {
        "x-amzn-bedrock-input-token-count": str(made.input_tokens),
        "x-amzn-bedrock-output-token-count": str(made.output_tokens),
    }
    if rule is not None and rule.kind == "empty_body":
        return Reply(200, b"{}", headers)
    if rule is None:
        return Reply(200, made.body, headers)
    if rule.kind == "odd_json":
        return Reply(200, odd_json(made.body), headers)
    reply = orjson.loads(made.body)
    (truncate if rule.kind == "truncated" else refuse)(reply)
    return json_reply(reply, 200, headers)
