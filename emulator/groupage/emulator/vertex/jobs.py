"""Batch prediction jobs: create, look, list, cancel, delete; and what the fault plan makes of the look.

Input is read when the job is created; predictions are put into their place when somebody looks at a job that has
ended (clients learn of the end by looking). An instance's work survives a kill, as everywhere here.
"""

import asyncio
import re
from pathlib import Path

import orjson
from groupage.emulator.calls import Call, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.gemini.accounts import page_of
from groupage.emulator.gemini.errors import RPC_CODES, refusal
from groupage.emulator.jobs import delivered, live_jobs, to_deliver, with_window
from groupage.emulator.life import Batch, View, view
from groupage.emulator.shown import shown_word, visible, zulu
from groupage.emulator.vertex.accounts import number_of
from groupage.emulator.vertex.answers import ENDPOINT
from groupage.emulator.vertex.bigquery_data import BigQueryTables
from groupage.emulator.vertex.data import BadInput, CloudStorage, Json, Place, Unreadable, as_records
from groupage.emulator.vertex.filters import BadFilter, read_filter
from groupage.emulator.vertex.lines import DIALECT
from groupage.emulator.vertex.rows import rows_of

QUEUE_S, RUN_S = 72 * 3600.0, 24 * 3600.0
"""A job that has not begun by then expires; one that has runs so long, by Google's documentation."""
PAGE_DEFAULT, PAGE_MAX = 100, 1000

STATES = (
    "UNSPECIFIED", "QUEUED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED", "PAUSED",
    "EXPIRED", "UPDATING", "PARTIALLY_SUCCEEDED",
)  # fmt: skip
"""By number: google.cloud.aiplatform.v1.JobState."""
_WORDS = {
    "validating": "PENDING",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    "cancelling": "CANCELLING",
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
}
_MODEL = re.compile(r"(projects/[^/]+/locations/[^/]+/)?publishers/[a-z0-9-]+/models/[a-zA-Z0-9.@_-]+|projects/.+")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_GCS_URI = re.compile(r"gs://[a-z0-9][-._a-z0-9]{1,220}[a-z0-9](/.*)?")


def place_of(core: Emulator, job: Json) -> Place:
    """Where the job's data lie."""
    return BigQueryTables(core) if "bigquerySource" in job["inputConfig"] else CloudStorage()


class Looks:
    """Creating a job and looking at one; the first look after its end delivers its predictions."""

    def __init__(self, core: Emulator) -> None:
        self._core = core
        self._one_at_a_time = asyncio.Lock()

    async def create(self, call: Call) -> Reply:
        job, core = await call.json(), call.core
        _check(job)
        _check_quota(call)
        fetched, records = (core.state.work_path(f"upload-{core.new_id('')}") for _ in range(2))
        problem, count = "", 0
        try:
            place = place_of(core, job)
            if isinstance(place, BigQueryTables):
                place.check(job, call.request.path_params["location"])
            columns = await asyncio.to_thread(place.fetch, job, fetched)
            most = core.settings.max_requests or DIALECT.max_requests
            try:
                count = await asyncio.to_thread(
                    lambda: as_records(fetched, records, job["model"], most, columns=columns)
                )
            except BadInput as error:
                problem = str(error)
                records.touch()
            batch = _new_batch(call, job, records, count, problem)
        except Unreadable as error:
            raise refusal(400, str(error)) from error
        finally:
            fetched.unlink(missing_ok=True)
            records.unlink(missing_ok=True)
        return json_reply(_numbered(call, shape(batch, core)))

    async def retrieve(self, call: Call) -> Reply:
        batch = _found(call)
        async with self._one_at_a_time:
            await _deliver(call.core, call.core.state.batches[batch.id])
        return json_reply(_numbered(call, shape(batch, call.core)))


def _new_batch(call: Call, job: Json, records: Path, count: int, problem: str) -> Batch:
    """Like any other batch, with windows of its own; a bad input has the effect `fail`."""
    core, path = call.core, call.request.path_params
    batch = core.new_batch(
        account=call.account,
        endpoint=ENDPOINT,
        source=records,
        metadata={
            "displayName": job["displayName"],
            "parent": f"projects/{number_of(path['project'])}/locations/{path['location']}",
            "job": orjson.dumps(job).decode(),
        },
        output_expires_s=None,
        lag_s=call.lag_s,
        dialect=ENDPOINT,
        announced=count,
    )
    queue = batch.effect("queue")
    waits = queue["seconds"] if queue else 0.0
    window_s = QUEUE_S if waits >= QUEUE_S else waits + RUN_S
    return with_window(core, batch, window_s, problem, "INVALID_ARGUMENT")


def _check(job: Json) -> None:
    name, model, labels = job.get("displayName"), job.get("model"), job.get("labels") or {}
    if not isinstance(name, str) or not 1 <= len(name) <= 128:
        raise refusal(400, "display_name is required, of at most 128 characters.")
    if not isinstance(model, str) or not _MODEL.fullmatch(model):
        raise refusal(400, f"Invalid model: {model!r}")
    if len(labels) > 64 or not all(_LABEL_KEY.fullmatch(k) and _LABEL_VALUE.fullmatch(v) for k, v in labels.items()):
        raise refusal(400, "Invalid labels.")
    source, target = job.get("inputConfig") or {}, job.get("outputConfig") or {}
    for config, format_, here in (
        (source, "instancesFormat", {"gcsSource", "bigquerySource"}),
        (target, "predictionsFormat", {"gcsDestination", "bigqueryDestination"}),
    ):
        wanted = "bigquery" if any(key.startswith("bigquery") for key in config) else "jsonl"
        if config.get(format_) != wanted or len(here & config.keys()) != 1:
            raise refusal(400, f"{format_} must be {wanted}, with one of {', '.join(sorted(here))}.")
    if ("bigquerySource" in source) != ("bigqueryDestination" in target):
        raise refusal(400, "Here input and output must be of one kind: Cloud Storage or BigQuery.")
    uris = [
        *(source.get("gcsSource") or {}).get("uris", ()),
        (target.get("gcsDestination") or {}).get("outputUriPrefix"),
    ]
    if not all(_GCS_URI.fullmatch(uri) for uri in uris if uri is not None) or ("gcsSource" in source and len(uris) < 2):
        raise refusal(400, "Input and output must be gs:// URIs.")


def _check_quota(call: Call) -> None:
    limit = call.core.settings.max_jobs
    if limit is not None and len(live_jobs(call.core, call.account, ENDPOINT)) >= limit:
        raise refusal(429, f"Quota exceeded for concurrent batch prediction jobs: the limit is {limit}.")


async def list_(call: Call) -> Reply:
    """Newest first, those that the filter lets through."""
    core = call.core
    try:
        wanted = read_filter(call.request.query_params.get("filter", ""))
    except BadFilter as error:
        raise refusal(400, str(error)) from error
    jobs = [shape(batch, core) for batch in visible(core, call.account, ENDPOINT)]
    found = [job for job in jobs if wanted({"state": "", "labels": {}} | job)]
    begin, end, more = page_of(call.request, len(found), PAGE_DEFAULT, PAGE_MAX)
    return json_reply({"batchPredictionJobs": [_numbered(call, job) for job in found[begin:end]]} | more)


async def cancel(call: Call) -> Reply:
    batch = _found(call)
    if view(batch, call.core.clock.now()).ended:
        raise refusal(400, "The job has ended: it cannot be cancelled.", "FAILED_PRECONDITION")
    call.core.cancel_batch(batch)
    return json_reply({})


async def delete(call: Call) -> Reply:
    """The record goes; data stay where they are. The reply is an operation, done."""
    batch = _found(call)
    if not view(batch, call.core.clock.now()).ended:
        raise refusal(400, "The job is still running: cancel it first.", "FAILED_PRECONDITION")
    call.core.delete_batch(batch)
    parent, kind = (batch.metadata or {})["parent"], "type.googleapis.com/google.protobuf.Empty"
    return json_reply({"name": f"{parent}/operations/{number(batch)}", "done": True, "response": {"@type": kind}})


def _found(call: Call) -> Batch:
    wanted = call.request.path_params["job"]
    for batch in visible(call.core, call.account, ENDPOINT):
        if number(batch) == wanted:
            return batch
    raise refusal(404, f"The BatchPredictionJob {wanted} does not exist.")


async def _deliver(core: Emulator, batch: Batch) -> None:
    if not to_deliver(core, batch):
        return
    file_id, parts = batch.done.output_file_id if batch.done else None, batch.effect("parts")
    if file_id:
        job, rows = job_of(batch), rows_of(core.state.file_path(file_id), batch)
        place, files = place_of(core, job), parts["files"] if parts else 1
        await asyncio.to_thread(place.deliver, job, zulu(batch.created_at), rows, files)
    delivered(core, batch)


def job_of(batch: Batch) -> Json:
    """The create request."""
    job: Json = orjson.loads((batch.metadata or {})["job"])
    return job


def number(batch: Batch) -> str:
    """A job's id: a long number."""
    return str(int(batch.id[-15:], 16))


def _word(batch: Batch, seen: View) -> str:
    if seen.status == "validating" and batch.checked is None:
        return "QUEUED"
    if seen.status == "expired":
        return "PARTIALLY_SUCCEEDED" if seen.completed + seen.failed else "EXPIRED"
    return _WORDS[seen.status]


def shape(batch: Batch, core: Emulator) -> Json:
    """A job as Get and List show it, with the effects that only change what is shown. The state is a word."""
    now = core.clock.now()
    seen, job = view(batch, now), job_of(batch)
    shown: Json = {
        "name": f"{(batch.metadata or {})['parent']}/batchPredictionJobs/{number(batch)}",
        **{key: job[key] for key in ("displayName", "model", "inputConfig", "outputConfig", "labels") if key in job},
        "state": shown_word(batch, seen.status, f"JOB_STATE_{_word(batch, seen)}"),
        "createTime": zulu(batch.created_at),
        "updateTime": zulu(seen.ended_at or batch.created_at),
    }
    if seen.course is not None and now >= seen.course.start and seen.status not in {"failed", "validating"}:
        shown["startTime"] = zulu(seen.course.start)
    if seen.ended_at is not None:
        shown |= {"endTime": zulu(seen.ended_at), "completionStats": _stats(batch, seen)}
        shown["outputInfo"] = place_of(core, job).output_info(job, zulu(batch.created_at))
    if seen.status == "failed" and batch.checked and batch.checked.errors:
        error = batch.checked.errors[0]
        shown["error"] = {"code": RPC_CODES.get(str(error["code"]), 13), "message": error["message"]}
    return {name: value for name, value in shown.items() if value is not None}


def _stats(batch: Batch, seen: View) -> Json | None:
    """int64 is text in JSON. -1: the service does not know."""
    rest = max(0, (seen.total or batch.announced) - seen.completed - seen.failed)
    counts = (seen.completed, seen.failed, rest)
    told = batch.effect("counts")
    if told:
        if told["counts"] == "null":
            return None
        kinds = {"zero": (0, 0, 0), "unknown": (-1, -1, -1), "optimistic": (seen.completed + seen.failed, 0, rest)}
        counts = kinds[told["counts"]]
    names = ("successfulCount", "failedCount", "incompleteCount")
    return dict(zip(names, map(str, counts), strict=True))


def _numbered(call: Call, job: Json) -> Json:
    """The state as its number where the client asks for enums that way (`$alt=json;enum-encoding=int`)."""
    query, state = call.request.query_params, job.get("state")
    if "enum-encoding=int" not in query.get("$alt", "") or not isinstance(state, str):
        return job
    word = state.removeprefix("JOB_STATE_")
    if state.isdecimal():
        return job | {"state": int(state)}
    return job | {"state": STATES.index(word)} if word in STATES else job
