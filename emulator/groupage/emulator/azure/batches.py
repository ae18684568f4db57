"""Azure's batches: OpenAI's with no enforced end, and with the odd spellings of its samples on the older surface."""

from datetime import UTC, datetime
from typing import Any

from groupage.emulator.azure.accounts import is_legacy
from groupage.emulator.azure.errors import refusal
from groupage.emulator.azure.files import EXPIRY_LEAST_S, is_processed
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.life import Batch, view
from groupage.emulator.openai import batches as openai
from groupage.emulator.openai.accounts import bad_request, expiry_of, limit_of, page_of
from groupage.emulator.shown import visible
from groupage.schemas import ENDPOINTS

NEVER_S = 100 * 365 * 86_400.0
"""The window of a batch that is not ended when its 24 hours are over."""

WORDS = {
    "validating": "Validating",
    "in_progress": "InProgress",
    "finalizing": "Finalizing",
    "completed": "Completed",
    "failed": "Failed",
    "expired": "Expired",
    "cancelling": "Canceling",
    "cancelled": "canceled",
}
"""How the samples of Microsoft's REST guide spell states."""


async def create(call: Call) -> Reply:
    body = await call.json()
    given, window = str(body.get("endpoint")), body.get("completion_window")
    endpoint = given if given.startswith("/v1/") else f"/v1{given}"
    if endpoint not in ENDPOINTS:
        raise bad_request(f"Invalid value: '{given}'.", "endpoint")
    if window != "24h":
        raise bad_request(f"Invalid value: '{window}'. Value must be '24h'.", "completion_window")
    source = call.core.find_file(call.account, str(body.get("input_file_id")))
    if source is None or source.purpose != "batch":
        raise refusal(404, f"The file '{body.get('input_file_id')}' does not exist.", "fileNotFound")
    if not is_processed(call, source):
        raise refusal(400, f"The file '{source.id}' is not processed yet.", "invalidPayload")
    batch = call.core.new_batch(
        account=call.account,
        endpoint=endpoint,
        source=source,
        metadata=openai.metadata_of(body.get("metadata")),
        output_expires_s=expiry_of(body.get("output_expires_after"), "output_expires_after", EXPIRY_LEAST_S),
        lag_s=call.lag_s,
        dialect="azure",
        window_s=NEVER_S,
    )
    return json_reply(_shown(call, batch, batch.created_at))


def _shown(call: Call, batch: Batch, now: float) -> dict[str, Any]:
    shown = openai.shape(batch, view(batch, now), now)
    if not is_legacy(call.request):
        return shown
    word = shown["status"]
    times = {name: _iso(value) for name, value in shown.items() if name.endswith("_at")}
    return shown | times | {"status": WORDS.get(word, word) if isinstance(word, str) else word}


def _iso(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000Z")


async def retrieve(call: Call) -> Reply:
    return json_reply(_shown(call, openai.found(call), call.core.clock.now()))


async def list_(call: Call) -> Reply:
    """Newest first."""
    request, core, now = call.request, call.core, call.core.clock.now()
    seen = [_shown(call, batch, now) for batch in visible(core, call.account)]
    return json_reply(page_of(seen, request.query_params.get("after"), limit_of(request, 20, 100)))


async def cancel(call: Call) -> Reply:
    batch, now = openai.found(call), call.core.clock.now()
    seen = view(batch, now)
    if seen.ended:
        raise refusal(409, f"Cannot cancel a batch that is {seen.status}.", "Conflict")
    call.core.cancel_batch(batch)
    return json_reply(_shown(call, call.core.state.batches[batch.id], call.core.clock.now()))
