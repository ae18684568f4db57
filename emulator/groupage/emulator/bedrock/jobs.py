"""Model invocation jobs: create, look, list, stop; and what the fault plan makes of the look.

Input is read when the job is created; results are put into S3 when somebody looks at a job that has ended
(clients learn of the end by looking). An instance's work survives a kill, as everywhere here.
"""

import asyncio
import re
from datetime import datetime
from typing import Any

import orjson
from groupage.emulator.bedrock.accounts import ACCOUNT, region_of
from groupage.emulator.bedrock.answers import ENDPOINT
from groupage.emulator.bedrock.data import BadInput, Unreadable, as_records, deliver, fetch
from groupage.emulator.bedrock.errors import refusal
from groupage.emulator.bedrock.lines import DIALECT
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.jobs import delivered, live_jobs, to_deliver, with_window
from groupage.emulator.life import Batch, View, view
from groupage.emulator.shown import shown_word, visible, zulu

# Patterns and bounds: botocore's model of `bedrock`.
_PATTERNS = {
    "jobName": r"[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9\+\-\.]){0,63}",
    "clientRequestToken": r"[a-zA-Z0-9]{1,256}(-*[a-zA-Z0-9]){0,256}",
    "roleArn": r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+",
    "modelId": r"[a-zA-Z0-9:./_-]{1,2048}",
}
_LONGEST = {"jobName": 63, "clientRequestToken": 256}
_S3_URI = re.compile(r"s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](?:/[-!_*'().a-z0-9A-Z]+(?:/[-!_*'().a-z0-9A-Z]+)*)?/?")
_HOURS = (24, 168)
_MAX_BYTES = 1_000_000_000
"""Of an input file, by AWS's quotas."""
_PAGE_MAX, _PAGE_DEFAULT = 1000, 100

_WORDS = {
    "in_progress": "InProgress",
    "finalizing": "InProgress",
    "cancelling": "Stopping",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Stopped",
}


async def create(call: Call) -> Reply:
    body = await call.json()
    _check(body)
    core, token = call.core, body.get("clientRequestToken")
    for batch in core.state.batches.values():
        known = batch.metadata or {}
        if batch.account == call.account and token and known.get("clientRequestToken") == token:
            if known["job"] != _canonical(body):
                raise refusal(400, "The clientRequestToken was used with other parameters.", "ConflictException")
            return json_reply({"jobArn": arn_of(batch)})
    _check_quota(call, body["modelId"])
    uri = body["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    fetched = core.state.work_path(f"upload-{core.new_id('')}")
    records = core.state.work_path(f"upload-{core.new_id('')}")
    problem, count = "", 0
    try:
        await asyncio.to_thread(fetch, uri, fetched, _MAX_BYTES)
        target = "/converse" if body.get("modelInvocationType") == "Converse" else "/invoke"
        head = {"model": body["modelId"], "target": target}
        bounds = (core.settings.min_records, core.settings.max_requests or DIALECT.max_requests)
        try:
            count = await asyncio.to_thread(as_records, fetched, records, head, bounds)
        except BadInput as error:
            problem = str(error)
        batch = _new_batch(call, body, records, count, problem)
    except Unreadable as error:
        raise refusal(400, str(error)) from error
    finally:
        fetched.unlink(missing_ok=True)
        records.unlink(missing_ok=True)
    return json_reply({"jobArn": arn_of(batch)})


def _new_batch(call: Call, body: dict[str, Any], records: Any, count: int, problem: str) -> Batch:
    """Like any other batch, with a window of its own; a bad input has the effect `fail`."""
    core = call.core
    batch = core.new_batch(
        account=call.account,
        endpoint=ENDPOINT,
        source=records,
        metadata={
            "clientRequestToken": body.get("clientRequestToken") or core.new_id(""),
            "region": region_of(call.request),
            "job": _canonical(body),
        },
        output_expires_s=None,
        lag_s=call.lag_s,
        dialect="bedrock",
        announced=count,
    )
    window_s = 3600.0 * body.get("timeoutDurationInHours", _HOURS[0])
    return with_window(core, batch, window_s, problem, "ValidationException")


def _canonical(body: dict[str, Any]) -> str:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def _check(body: dict[str, Any]) -> None:
    for name, pattern in _PATTERNS.items():
        value = body.get(name)
        if value is None and name == "clientRequestToken":
            continue
        if (
            not isinstance(value, str)
            or not re.fullmatch(pattern, value)
            or len(value) > _LONGEST.get(name, len(value))
        ):
            raise refusal(400, f"Value '{value}' at '{name}' failed to satisfy constraint: {pattern}")
    for outer, inner in (("inputDataConfig", "s3InputDataConfig"), ("outputDataConfig", "s3OutputDataConfig")):
        uri = ((body.get(outer) or {}).get(inner) or {}).get("s3Uri")
        if not isinstance(uri, str) or not _S3_URI.fullmatch(uri):
            raise refusal(400, f"Value '{uri}' at '{outer}.{inner}.s3Uri' is not an S3 URI")
    hours = body.get("timeoutDurationInHours", _HOURS[0])
    if not isinstance(hours, int) or not _HOURS[0] <= hours <= _HOURS[1]:
        raise refusal(400, f"Value '{hours}' at 'timeoutDurationInHours' must be from {_HOURS[0]} to {_HOURS[1]}")
    if body.get("modelInvocationType", "InvokeModel") not in ("InvokeModel", "Converse"):
        raise refusal(400, "Value at 'modelInvocationType' must be InvokeModel or Converse")


def _check_quota(call: Call, model: str) -> None:
    limit = call.core.settings.max_jobs
    if limit is None:
        return
    live = [batch for batch in live_jobs(call.core, call.account, ENDPOINT) if job_of(batch)["modelId"] == model]
    if len(live) >= limit:
        message = f"You have reached the quota of {limit} concurrent batch inference jobs for {model}."
        raise refusal(400, message, "ServiceQuotaExceededException")


class Deliveries:
    """Looking at one job; the first look after its end puts its results into S3."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def retrieve(self, call: Call) -> Reply:
        batch = _found(call)
        async with self._one_at_a_time:
            await _deliver(call, call.core.state.batches[batch.id])
        return json_reply(shape(batch, call.core.clock.now()))


async def list_(call: Call) -> Reply:
    """Newest first unless asked otherwise. A page's token is how many jobs were seen."""
    query, core = call.request.query_params, call.core
    now = core.clock.now()
    after, before = _moment(query.get("submitTimeAfter")), _moment(query.get("submitTimeBefore"))
    shown = []
    for batch in visible(core, call.account, ENDPOINT):
        job = shape(batch, now)
        if query.get("nameContains", "") not in job["jobName"] or query.get(
            "statusEquals", job.get("status")
        ) != job.get("status"):
            continue
        if (after is None or batch.created_at > after) and (before is None or batch.created_at < before):
            shown.append(job)
    if query.get("sortOrder", "Descending") != "Descending":
        shown.reverse()
    size, start = query.get("maxResults", str(_PAGE_DEFAULT)), query.get("nextToken", "0")
    if not size.isdigit() or not 1 <= int(size) <= _PAGE_MAX or not start.isdigit():
        raise refusal(400, f"Value '{size}' at 'maxResults' must be from 1 to {_PAGE_MAX}")
    end = int(start) + int(size)
    page: dict[str, Any] = {"invocationJobSummaries": shown[int(start) : end]}
    return json_reply(page | ({"nextToken": str(end)} if end < len(shown) else {}))


async def stop(call: Call) -> Reply:
    batch = _found(call)
    seen = view(batch, call.core.clock.now())
    if seen.ended:
        raise refusal(400, f"The job is {_word(batch, seen)}: it cannot be stopped.", "ConflictException")
    call.core.cancel_batch(batch)
    return json_reply({})


def _found(call: Call) -> Batch:
    job_id = call.request.path_params["job"].rpartition("/")[2]
    for batch in visible(call.core, call.account, ENDPOINT):
        if id_of(batch) == job_id:
            return batch
    raise refusal(404, f"Could not find the model invocation job {job_id}.")


async def _deliver(call: Call, batch: Batch) -> None:
    core = call.core
    if not to_deliver(core, batch):
        return
    file_id = batch.done.output_file_id if batch.done else None
    source = job_of(batch)["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    folder = f"{_output(batch).rstrip('/')}/{id_of(batch)}/"
    path = core.state.file_path(file_id) if file_id else None
    await asyncio.to_thread(deliver, batch, path, folder, source.rpartition("/")[2])
    delivered(core, batch)


def job_of(batch: Batch) -> dict[str, Any]:
    """The create request."""
    job: dict[str, Any] = orjson.loads((batch.metadata or {})["job"])
    return job


def _output(batch: Batch) -> str:
    return str(job_of(batch)["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"])


def id_of(batch: Batch) -> str:
    return batch.id[-12:]


def arn_of(batch: Batch) -> str:
    region = (batch.metadata or {})["region"]
    return f"arn:aws:bedrock:{region}:{ACCOUNT}:model-invocation-job/{id_of(batch)}"


def _word(batch: Batch, seen: View) -> str:
    if seen.status == "validating":
        return "Submitted" if batch.checked is None else "Validating"
    if seen.status == "expired":
        return "PartiallyCompleted" if seen.completed + seen.failed else "Expired"
    return _WORDS[seen.status]


def shape(batch: Batch, now: float) -> dict[str, Any]:
    """A job as Get and List show it, with the effects that only change what is shown."""
    seen, job = view(batch, now), job_of(batch)
    shown: dict[str, Any] = {
        "jobArn": arn_of(batch),
        "jobName": job["jobName"],
        "modelId": job["modelId"],
        "clientRequestToken": (batch.metadata or {})["clientRequestToken"],
        "roleArn": job["roleArn"],
        "status": shown_word(batch, seen.status, _word(batch, seen)),
        "submitTime": _time(batch.created_at),
        "lastModifiedTime": _time(seen.ended_at or batch.created_at),
        "inputDataConfig": job["inputDataConfig"],
        "outputDataConfig": job["outputDataConfig"],
        "timeoutDurationInHours": job.get("timeoutDurationInHours", _HOURS[0]),
        "jobExpirationTime": _time(batch.created_at + batch.window_s),
        "modelInvocationType": job.get("modelInvocationType", "InvokeModel"),
        "totalRecordCount": seen.total or (batch.announced if seen.status != "failed" else 0),
        "processedRecordCount": seen.completed + seen.failed,
        "successRecordCount": seen.completed,
        "errorRecordCount": seen.failed,
    }
    if seen.ended_at is not None:
        shown["endTime"] = _time(seen.ended_at)
    if seen.status == "failed" and batch.checked and batch.checked.errors:
        shown["message"] = batch.checked.errors[0]["message"]
    return _disturbed(batch, seen, shown)


def _disturbed(batch: Batch, seen: View, shown: dict[str, Any]) -> dict[str, Any]:
    counts = batch.effect("counts")
    names = ("totalRecordCount", "processedRecordCount", "successRecordCount", "errorRecordCount")
    if counts:
        kinds: dict[str, dict[str, Any]] = {
            "null": dict.fromkeys(names),
            "unknown": dict.fromkeys(names),
            "zero": dict.fromkeys(names, 0),
            "optimistic": {"successRecordCount": seen.completed + seen.failed, "errorRecordCount": 0},
        }
        shown |= kinds[counts["counts"]]
    return {name: value for name, value in shown.items() if value is not None}


def _time(at: float) -> str:
    return zulu(at, "milliseconds")


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise refusal(400, f"Value '{text}' is not a timestamp") from error
