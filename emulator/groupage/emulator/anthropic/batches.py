"""/v1/messages/batches: create, look, list, cancel, delete, results; and what the fault plan makes of the look."""

import asyncio
import re
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.anthropic.errors import error_of, refusal
from groupage.emulator.calls import ApiError, Call, FileSpan, Reply, json_reply
from groupage.emulator.life import Batch, View, view
from groupage.emulator.shown import held_back, shown_word, visible
from groupage.schemas.ids import decode_wire_id

MAX_REQUESTS = 100_000
MAX_BYTES = 256 * 1024 * 1024
LIST_MAX, LIST_DEFAULT = 1000, 20
WINDOW_S = 86_400.0
"""Of the API reference."""
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


async def create(call: Call) -> Reply:
    """The form is checked now, each request's params only when it runs: then it ends as errored."""
    core = call.core
    path = core.state.work_path(f"upload-{core.new_id('')}")
    try:
        size = 0
        with path.open("wb") as file:
            async for chunk in call.request.stream():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise ApiError(413, error_of(413, None, None))
                file.write(chunk)
        count, first = await asyncio.to_thread(_as_lines, path)
        batch = core.new_batch(
            account=call.account,
            endpoint="/v1/messages",
            source=path,
            # Not Anthropic's: nothing of it is shown. It lets plans and tests name a batch by what is in it.
            metadata={"groupage_tag": first} if first else None,
            output_expires_s=None,
            lag_s=call.lag_s,
            dialect="anthropic",
            announced=count,
        )
    finally:
        path.unlink(missing_ok=True)
    return json_reply(shape(call, batch))


def _as_lines(path: Path) -> tuple[int, str]:
    """Rewrite a create body as one request a line; (requests, our tag in the first id, or "")."""
    try:
        body = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise refusal(400, "The request body is not valid JSON.") from error
    requests = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(requests, list) or not requests:
        raise refusal(400, "requests: List should have at least 1 item")
    if len(requests) > MAX_REQUESTS:
        raise refusal(400, f"requests: List should have at most {MAX_REQUESTS} items")
    seen: set[str] = set()
    with path.open("wb", buffering=1 << 20) as file:
        for at, request in enumerate(requests):
            custom_id = request.get("custom_id") if isinstance(request, dict) else None
            if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
                raise refusal(400, f"requests.{at}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
            if custom_id in seen:
                raise refusal(400, f"requests.{at}.custom_id: custom_id must be unique: {custom_id!r}")
            if not isinstance(request.get("params"), dict):
                raise refusal(400, f"requests.{at}.params: Field required")
            seen.add(custom_id)
            file.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
    first = decode_wire_id(requests[0]["custom_id"])
    return len(requests), first.tag if first else ""


async def retrieve(call: Call) -> Reply:
    return json_reply(shape(call, _found(call)))


async def list_(call: Call) -> Reply:
    """Newest first. `after_id` goes on to older ones, `before_id` back to newer ones."""
    query, core = call.request.query_params, call.core
    seen = visible(core, call.account)
    limit = query.get("limit", str(LIST_DEFAULT))
    if not limit.isdigit() or not 1 <= int(limit) <= LIST_MAX:
        raise refusal(400, f"limit: Input should be from 1 to {LIST_MAX}")
    size = int(limit)
    ids = [batch.id for batch in seen]
    for name in ("after_id", "before_id"):
        if name in query and query[name] not in ids:
            raise refusal(400, f"{name}: no batch has this id")
    if "before_id" in query:
        end = ids.index(query["before_id"])
        start, more = max(0, end - size), end > size
    else:
        start = ids.index(query["after_id"]) + 1 if "after_id" in query else 0
        end = start + size
        more = end < len(seen)
    page = seen[start:end]
    return json_reply(
        {
            "data": [shape(call, batch) for batch in page],
            "has_more": more,
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        },
        headers={"date": formatdate(core.clock.now(), usegmt=True)},
    )


async def cancel(call: Call) -> Reply:
    batch = _found(call)
    if view(batch, call.core.clock.now()).ended:
        raise refusal(400, f"Batch {batch.id} has ended: it cannot be canceled.")
    call.core.cancel_batch(batch)
    return json_reply(shape(call, call.core.state.batches[batch.id]))


async def delete(call: Call) -> Reply:
    batch = _found(call)
    if not view(batch, call.core.clock.now()).ended:
        raise refusal(400, f"Batch {batch.id} cannot be deleted while it is processing; cancel it first.")
    call.core.delete_batch(batch)
    return json_reply({"id": batch.id, "type": "message_batch_deleted"})


async def results(call: Call) -> Reply:
    batch = _found(call)
    file_id = batch.done.output_file_id if batch.done else None
    if not _has_results(call, batch) or file_id is None:
        raise refusal(404, f"Batch {batch.id} has no available results.")
    path = call.core.state.file_path(file_id)
    return Reply(200, FileSpan(path, 0, path.stat().st_size), {}, "application/x-jsonl")


def _has_results(call: Call, batch: Batch) -> bool:
    now = call.core.clock.now()
    ended_at = view(batch, now).ended_at
    if ended_at is None or batch.done is None or batch.done.output_file_id is None:
        return False
    return not held_back(batch, ended_at, now)


def _found(call: Call) -> Batch:
    batch_id = call.request.path_params["batch_id"]
    batch = call.core.find_batch(call.account, batch_id)
    if batch is None:
        raise refusal(404, f"Message batch with id '{batch_id}' was not found.")
    return batch


def shape(call: Call, batch: Batch) -> dict[str, Any]:
    """The MessageBatch object, with the effects that only change what is shown."""
    now = call.core.clock.now()
    seen = view(batch, now)
    word = "ended" if seen.ended else "canceling" if seen.status == "cancelling" else "in_progress"
    base = str(call.request.base_url).rstrip("/")
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": shown_word(batch, word, word),
        "request_counts": _counts(batch, seen),
        "created_at": _time(batch.created_at),
        "expires_at": _time(batch.created_at + WINDOW_S),
        "ended_at": _time(seen.ended_at),
        "cancel_initiated_at": _time(batch.cancel_at),
        "archived_at": None,
        "results_url": f"{base}/v1/messages/batches/{batch.id}/results" if _has_results(call, batch) else None,
    }


def _counts(batch: Batch, seen: View) -> dict[str, int] | None:
    """The four outcomes are 0 until the whole batch has ended."""
    total = batch.checked.total if batch.checked else batch.announced
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if not seen.ended or batch.done is None:
        counts["processing"] = total
    else:
        counts["succeeded"], counts["errored"] = batch.done.completed, batch.done.failed
        rest = total - batch.done.completed - batch.done.failed
        counts["canceled" if seen.status == "cancelled" else "expired"] = rest
    disturbed = batch.effect("counts")
    if disturbed is None:
        return counts
    if disturbed["counts"] == "null":
        return None
    if disturbed["counts"] == "zero":
        return dict.fromkeys(counts, 0)
    return counts | {"succeeded": counts["succeeded"] + counts["errored"], "errored": 0}


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
