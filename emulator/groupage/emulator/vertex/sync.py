"""generateContent and rawPredict: the same answers, at once, at full price."""

from groupage.emulator.answers import BadBody
from groupage.emulator.calls import Call, Handler, Reply
from groupage.emulator.core import Emulator
from groupage.emulator.gemini.errors import refusal
from groupage.emulator.gemini.sync import check_pace, deliver
from groupage.emulator.sync_calls import Limiter, take_time
from groupage.emulator.vertex.answers import is_claude, reply_to
from groupage.emulator.vertex.lines import refuse, truncate


def handler(core: Emulator) -> Handler:
    """Google's models answer generateContent, all others rawPredict."""
    limiter = Limiter(core)

    async def handle(call: Call) -> Reply:
        check_pace(limiter, call)
        path = call.request.path_params
        model = f"publishers/{path['publisher']}/models/{path['model']}"
        if is_claude(model) != call.request.url.path.endswith(":rawPredict"):
            raise refusal(404, f"Publisher Model `{model}` was not found, or it is not served by this method.")
        body = await call.json()
        try:
            made = reply_to(model, body, int(core.clock.now()), core.settings.answer_bytes)
        except BadBody as error:
            raise refusal(400, str(error)) from error
        return deliver(call, made, await take_time(call, made), cut=truncate, deny=refuse)

    return handle
