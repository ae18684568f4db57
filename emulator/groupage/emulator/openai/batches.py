"""/v1/batches: create, look, list, cancel; and what the fault plan makes of the look."""

from typing import Any

from groupage.emulator.calls import ApiError, Call, Reply, json_reply
from groupage.emulator.life import Batch, View, view
from groupage.emulator.openai.accounts import bad_request, expiry_of, limit_of, page_of
from groupage.emulator.shown import held_back, shown_word, visible
from groupage.emulator.work import error_body
from groupage.schemas import ENDPOINTS

LIST_MAX, LIST_DEFAULT = 100, 20
METADATA_PAIRS, METADATA_KEY, METADATA_VALUE = 16, 64, 512
"""Of the API reference."""


async def create(call: Call) -> Reply:
    body = await call.json()
    endpoint, window = body.get("endpoint"), body.get("completion_window")
    if endpoint not in ENDPOINTS:
        raise bad_request(f"Invalid value: '{endpoint}'. Supported values are: {list(ENDPOINTS)}.", "endpoint")
    if window != "24h":
        raise bad_request(f"Invalid value: '{window}'. Value must be '24h'.", "completion_window")
    source = call.core.find_file(call.account, str(body.get("input_file_id")))
    if source is None:
        raise bad_request(f"No such File object: {body.get('input_file_id')}", "input_file_id", None, status=404)
    if source.purpose != "batch":
        raise bad_request(f"The file's purpose is '{source.purpose}'; it must be 'batch'.", "input_file_id")
    batch = call.core.new_batch(
        account=call.account,
        endpoint=endpoint,
        source=source,
        metadata=metadata_of(body.get("metadata")),
        output_expires_s=expiry_of(body.get("output_expires_after"), "output_expires_after"),
        lag_s=call.lag_s,
    )
    return json_reply(shape(batch, view(batch, batch.created_at), batch.created_at))


def metadata_of(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) > METADATA_PAIRS:
        raise bad_request(f"Invalid 'metadata': expected an object with at most {METADATA_PAIRS} pairs.", "metadata")
    for key, value in given.items():
        if not isinstance(value, str) or len(value) > METADATA_VALUE or len(key) > METADATA_KEY:
            message = (
                f"Invalid 'metadata.{key}': keys up to {METADATA_KEY}, text values up to {METADATA_VALUE} characters."
            )
            raise bad_request(message, "metadata")
    return dict(given)


async def retrieve(call: Call) -> Reply:
    batch = found(call)
    now = call.core.clock.now()
    return json_reply(shape(batch, view(batch, now), now))


async def list_(call: Call) -> Reply:
    """Newest first."""
    request, core = call.request, call.core
    now = core.clock.now()
    seen = visible(core, call.account)
    page = page_of(
        [{"id": batch.id} for batch in seen],
        request.query_params.get("after"),
        limit_of(request, LIST_DEFAULT, LIST_MAX),
    )
    batches = [core.state.batches[item["id"]] for item in page["data"]]
    page["data"] = [shape(batch, view(batch, now), now) for batch in batches]
    return json_reply(page)


async def cancel(call: Call) -> Reply:
    batch = found(call)
    now = call.core.clock.now()
    seen = view(batch, now)
    if seen.ended:
        message = f"Cannot cancel a batch with status '{seen.status}'."
        raise ApiError(409, error_body(message, "invalid_request_error", None))
    call.core.cancel_batch(batch)
    batch = call.core.state.batches[batch.id]
    now = call.core.clock.now()
    return json_reply(shape(batch, view(batch, now), now))


def found(call: Call) -> Batch:
    batch_id = call.request.path_params["batch_id"]
    batch = call.core.find_batch(call.account, batch_id)
    if batch is None:
        raise bad_request(f"No batch found with id '{batch_id}'.", None, None, status=404)
    return batch


def shape(batch: Batch, seen: View, now: float) -> dict[str, Any]:
    """The Batch object, with the effects that only change what is shown."""
    checked, done = batch.checked, batch.done if seen.ended else None
    errors = checked.errors if checked and seen.status == "failed" else []
    shown: dict[str, Any] = {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": checked.model if checked else None,
        "errors": {"object": "list", "data": errors} if errors else None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": shown_word(batch, seen.status, seen.status),
        "output_file_id": done.output_file_id if done else None,
        "error_file_id": done.error_file_id if done else None,
        "created_at": int(batch.created_at),
        "request_counts": {"total": seen.total, "completed": seen.completed, "failed": seen.failed},
        "usage": _usage(done.input_tokens, done.output_tokens) if done else None,
        "metadata": batch.metadata,
    } | _times(batch, seen, now)
    return _disturbed(batch, seen, now, shown)


def _usage(used: int, made: int) -> dict[str, Any]:
    return {
        "input_tokens": used,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used + made,
    }


def _times(batch: Batch, seen: View, now: float) -> dict[str, int | None]:
    course = seen.course
    times: dict[str, float | None] = {"in_progress_at": None, "finalizing_at": None}
    if course is not None and course.ending != "failed" and now >= course.start:
        never_ran = batch.cancel_at is not None and batch.cancel_at < course.start
        times["in_progress_at"] = None if never_ran else course.start
        if course.ending != "cancelled" and now >= course.settled_at:
            times["finalizing_at"] = course.settled_at
    for ending in ("completed", "failed", "expired", "cancelled"):
        times[f"{ending}_at"] = seen.ended_at if seen.status == ending else None
    times["cancelling_at"] = batch.cancel_at
    times["expires_at"] = batch.created_at + 86_400
    return {name: None if at is None else int(at) for name, at in times.items()}


def _disturbed(batch: Batch, seen: View, now: float, shown: dict[str, Any]) -> dict[str, Any]:
    counts = batch.effect("counts")
    if counts:
        shown["request_counts"] = {
            "null": None,
            "unknown": None,
            "zero": {"total": 0, "completed": 0, "failed": 0},
            "optimistic": {"total": seen.total, "completed": seen.completed + seen.failed, "failed": 0},
        }[counts["counts"]]
    if held_back(batch, seen.ended_at, now):
        shown["output_file_id"] = shown["error_file_id"] = None
    return shown
