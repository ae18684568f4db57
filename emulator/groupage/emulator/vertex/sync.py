"""generateContent and rawPredict: the same answers, at once, at full price."""

import asyncio

from groupage.emulator.answers import BadBody
from groupage.emulator.calls import ApiError, Call, Handler, Reply
from groupage.emulator.core import Emulator
from groupage.emulator.gemini.errors import refusal
from groupage.emulator.gemini.sync import deliver
from groupage.emulator.openai.sync import Limiter
from groupage.emulator.vertex.answers import is_claude, reply_to
from groupage.emulator.vertex.lines import refuse, truncate


def handler(core: Emulator) -> Handler:
    """Google's models answer generateContent, all others rawPredict."""
    limiter = Limiter(core)

    async def handle(call: Call) -> Reply:
        try:
            limiter.check(call.account)
        except ApiError as error:
            wait_s = int(error.reply.headers.get("retry-after-ms", "0")) / 1000
            raise refusal(429, retry_s=wait_s) from error
        path = call.request.path_params
        model = f"publishers/{path['publisher']}/models/{path['model']}"
        if is_claude(model) != call.request.url.path.endswith(":rawPredict"):
            raise refusal(404, f"Publisher Model `{model}` was not found, or it is not served by this method.")
        body = await call.json()
        try:
            made = reply_to(model, body, int(core.clock.now()), core.settings.answer_bytes)
        except BadBody as error:
            raise refusal(400, str(error)) from error
        if core.settings.sync_latency_s:
            await asyncio.sleep(core.clock.real_seconds(core.settings.sync_latency_s))
        text = await call.request.body()
        rule = core.strikes.sync_request(made.question, text) if core.strikes.plan.requests else None
        return deliver(call, made, rule, cut=truncate, deny=refuse)

    return handle
