"""Batches: batchGenerateContent, asyncBatchEmbedContent, look, list, cancel, delete. Input by file only.

A batch is shown as an operation whose metadata is the batch. Lines are checked when it is created, as far as
their form goes; a bad one fails the batch.
"""

import asyncio
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.gemini.accounts import page_of
from groupage.emulator.gemini.answers import ENDPOINT
from groupage.emulator.gemini.errors import RPC_CODES, refusal
from groupage.emulator.gemini.files import FILE_LIFE_S
from groupage.emulator.gemini.names import code_of, find, result_id
from groupage.emulator.gemini.questions import camel
from groupage.emulator.jobs import live_jobs, with_window
from groupage.emulator.life import Batch, View, view
from groupage.emulator.shown import held_back, shown_word, visible, zulu

WINDOW_S = 48 * 3600.0
"""After it a batch expires, and all its results with it, by Google's documentation."""
PAGE_DEFAULT, PAGE_MAX = 50, 1000
MAX_REQUESTS = 200_000
"""Nothing is published."""
LINE_MAX_BYTES = 64 * 1024 * 1024
_TYPES = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_WORDS = {
    "validating": "PENDING",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    # The API has no word for it.
    "cancelling": "RUNNING",
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "expired": "EXPIRED",
}


class BadInput(ValueError):
    """The input is no list of requests: the batch fails."""


async def create(call: Call) -> Reply:
    return await _create(call, embeddings=False)


async def create_embeddings(call: Call) -> Reply:
    return await _create(call, embeddings=True)


async def _create(call: Call, *, embeddings: bool) -> Reply:
    core, model = call.core, call.request.path_params["model"]
    asked = (await call.json()).get("batch") or {}
    # The SDK itself writes file_name where embeddings are asked for, and fileName elsewhere.
    name, display_name = camel(asked.get("inputConfig") or {}).get("fileName"), asked.get("displayName")
    if not isinstance(display_name, str) or not display_name:
        raise refusal(400, "* BatchGenerateContentRequest.batch.display_name: display_name is required")
    if not isinstance(name, str):
        raise refusal(501, "Only input by file is emulated: set batch.input_config.file_name")
    file = core.find_file(call.account, name.removeprefix("files/"))
    if file is None:
        raise refusal(404, f"File {name} was not found.")
    _check_quota(call)
    records = core.state.work_path(f"upload-{core.new_id('')}")
    problem, count = "", 0
    try:
        most = core.settings.max_requests or MAX_REQUESTS
        path = core.state.file_path(file.id)
        try:
            count = await asyncio.to_thread(as_records, path, records, model, most)
        except BadInput as error:
            problem = str(error)
        metadata = {"displayName": display_name, "model": f"models/{model}", "file": name}
        batch = _new_batch(call, metadata | ({"embeddings": "yes"} if embeddings else {}), records, count, problem)
    finally:
        records.unlink(missing_ok=True)
    return json_reply(shape(batch, core.clock.now()))


def as_records(source: Path, target: Path, model: str, most: int) -> int:
    """Write the lines, the model in front, for the worker; returns how many. Raises BadInput."""
    prefix = b'{"model":%b,' % orjson.dumps(model)
    number = 0
    with source.open("rb") as lines, target.open("wb") as records:
        for line in lines:
            if line.isspace():
                continue
            number += 1
            try:
                record = orjson.loads(line)
                key, request = record["key"], record["request"]
            except (ValueError, KeyError, TypeError):
                raise BadInput(f"Line {number} of the input file is not valid: key and request are required.") from None
            if not isinstance(key, str) or not isinstance(request, dict) or len(line) > LINE_MAX_BYTES:
                raise BadInput(f"Line {number} of the input file is not valid.")
            records.write(prefix + line.strip()[1:] + b"\n")
    if not number:
        raise BadInput("The input file is empty.")
    if number > most:
        raise BadInput(f"Too many requests in the batch: {number}, at most {most}.")
    return number


def _new_batch(call: Call, metadata: dict[str, str], records: Path, count: int, problem: str) -> Batch:
    """Like any other batch, with a window of its own; a bad input has the effect `fail`."""
    core = call.core
    if problem:
        records.touch()
    batch = core.new_batch(
        account=call.account,
        endpoint=ENDPOINT,
        source=records,
        metadata=metadata,
        output_expires_s=int(FILE_LIFE_S),
        lag_s=call.lag_s,
        dialect=ENDPOINT,
        announced=count,
    )
    return with_window(core, batch, WINDOW_S, problem, "INVALID_ARGUMENT")


def _check_quota(call: Call) -> None:
    limit = call.core.settings.max_jobs
    if limit is not None and len(live_jobs(call.core, call.account, ENDPOINT)) >= limit:
        raise refusal(429, f"You exceeded your current quota: at most {limit} concurrent batch jobs.")


async def retrieve(call: Call) -> Reply:
    return json_reply(shape(_found(call), call.core.clock.now()))


async def list_(call: Call) -> Reply:
    """Newest first."""
    core = call.core
    now = core.clock.now()
    seen = visible(core, call.account, ENDPOINT)
    begin, end, more = page_of(call.request, len(seen), PAGE_DEFAULT, PAGE_MAX)
    return json_reply({"operations": [shape(batch, now) for batch in seen[begin:end]]} | more)


async def cancel(call: Call) -> Reply:
    batch = _found(call)
    if view(batch, call.core.clock.now()).ended:
        raise refusal(400, "The batch has ended: it cannot be cancelled.", "FAILED_PRECONDITION")
    call.core.cancel_batch(batch)
    return json_reply({})


async def delete(call: Call) -> Reply:
    batch = _found(call)
    if not view(batch, call.core.clock.now()).ended:
        raise refusal(400, "The batch is still running: cancel it first.", "FAILED_PRECONDITION")
    call.core.delete_batch(batch)
    return json_reply({})


def _found(call: Call) -> Batch:
    batch = find(call, call.request.path_params["batch"])
    if batch is None:
        raise refusal(404)
    return batch


def shape(batch: Batch, now: float) -> dict[str, Any]:
    """The operation, with the effects that only change what is shown."""
    seen, known = view(batch, now), batch.metadata or {}
    kind = "EmbedContentBatch" if "embeddings" in known else "GenerateContentBatch"
    name = f"batches/{code_of(batch)}"
    metadata: dict[str, Any] = {
        "@type": _TYPES + kind,
        "name": name,
        "model": known["model"],
        "displayName": known["displayName"],
        "inputConfig": {"fileName": known["file"]},
        "createTime": zulu(batch.created_at),
        "updateTime": zulu(seen.ended_at or batch.created_at),
        "batchStats": _stats(batch, seen),
        "state": shown_word(batch, seen.status, f"BATCH_STATE_{_WORDS[seen.status]}"),
    }
    operation: dict[str, Any] = {"name": name, "metadata": metadata}
    if seen.ended_at is not None:
        metadata["endTime"] = zulu(seen.ended_at)
        operation |= {"done": True} | _ending(batch, seen, now, kind)
        if "response" in operation:
            metadata["output"] = {"responsesFile": operation["response"]["responsesFile"]}
    return operation


def _ending(batch: Batch, seen: View, now: float, kind: str) -> dict[str, Any]:
    if seen.status == "failed":
        assert batch.checked is not None
        error = batch.checked.errors[0]
        word = "RESOURCE_EXHAUSTED" if error["code"] == "token_limit_exceeded" else error["code"]
        return {"error": {"code": RPC_CODES.get(word, 13), "message": error["message"]}}
    done, hidden = batch.done, held_back(batch, seen.ended_at, now)
    if done is None or done.output_file_id is None or hidden or seen.status == "expired":
        return {}
    return {"response": {"@type": f"{_TYPES}{kind}Output", "responsesFile": f"files/{result_id(batch)}"}}


def _stats(batch: Batch, seen: View) -> dict[str, str] | None:
    """Counts are int64: text in JSON. What is 0 is left out, as everywhere in proto JSON."""
    total = seen.total or (batch.announced if seen.status != "failed" else 0)
    succeeded, failed = seen.completed, seen.failed
    told = batch.effect("counts")
    if told and told["counts"] == "null":
        return None
    if told and told["counts"] == "zero":
        total = succeeded = failed = 0
    if told and told["counts"] == "optimistic":
        succeeded, failed = succeeded + failed, 0
    pending = 0 if seen.ended else total - succeeded - failed
    counts = {
        "requestCount": total,
        "successfulRequestCount": succeeded,
        "failedRequestCount": failed,
        "pendingRequestCount": pending,
    }
    return {name: str(count) for name, count in counts.items() if count}
