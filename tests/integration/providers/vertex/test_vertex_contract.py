"""What the emulator says, held against Google's own proto models of the service."""

import json
import re
import urllib.error
import urllib.request

import pytest
from google.cloud.aiplatform_v1.types import (
    BatchPredictionJob,
    GenerateContentResponse,
    ListBatchPredictionJobsResponse,
)
from google.longrunning import operations_pb2
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from groupage.emulator.vertex.jobs import STATES
from vertex_world import CLAUDE, GEMINI, LOCATION, PROJECT

JOBS = f"projects/{PROJECT}/locations/{LOCATION}/batchPredictionJobs"
INT_ENUMS = "$alt=json%3Benum-encoding%3Dint"


def ask(emulator, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{emulator.base_url}/{path}", data, {"content-type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def as_message(message_type, answer):
    """Strictly: an unknown field, a wrong type or an unknown word raises ParseError."""
    message = message_type()
    ParseDict(answer, message_type.pb(message) if hasattr(message_type, "pb") else message)
    return message


def test_the_check_itself_finds_what_is_wrong():
    for wrong in ({"nam": "x"}, {"state": "JOB_STATE_DONE"}, {"createTime": "yesterday"}, {"completionStats": 1}):
        with pytest.raises(ParseError):
            as_message(BatchPredictionJob, wrong)


def test_the_states_are_those_of_the_sdk():
    from google.cloud.aiplatform_v1.types import JobState

    assert [state.name.removeprefix("JOB_STATE_") for state in JobState] == list(STATES)


@pytest.mark.parametrize(
    "effects",
    [
        [],
        [{"effect": "expire", "at": 0.5}],
        [{"effect": "expire", "at": 0}],
        [{"effect": "fail"}],
        [{"effect": "counts", "counts": "unknown"}],
        [{"effect": "queue", "seconds": "2m"}],
    ],
    ids=["completed", "partially", "expired", "failed", "no counts", "queued"],
)
async def test_jobs_have_the_shape_that_the_sdk_knows_in_every_state(world, emulator, effects):
    emulator.faults(batches=effects)
    ref = await world.planned()
    submitted = await world.submit(ref)
    seen = set()
    for step in ("1s", "4m", "3m", "1h", "1h"):
        for query in ("", "?" + INT_ENUMS):
            status, job = ask(emulator, "GET", submitted.batch_id + query)
            assert status == 200
            known = as_message(BatchPredictionJob, job)
            assert isinstance(job["state"], int if query else str)
            assert known.display_name == ref.tag
        seen.add(job["state"])
        status, page = ask(emulator, "GET", f"{JOBS}?pageSize=1&filter=display_name%3D%22{ref.tag}%22")
        listed = as_message(ListBatchPredictionJobsResponse, page)
        assert [one.name for one in listed.batch_prediction_jobs] == [submitted.batch_id]
        if effects and effects[0]["effect"] == "fail":
            emulator.advance_at_once(step)
        else:
            emulator.advance(step)
    assert len(seen) > 1
    assert submitted.batch_id.split("/")[1].isdecimal(), "names have the project's number"


GOOD = {
    "displayName": "another",
    "model": f"publishers/google/models/{GEMINI}",
    "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["gs://groupage/in.jsonl"]}},
    "outputConfig": {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": "gs://groupage/out"}},
}


async def test_create_cancel_delete_and_errors_are_as_the_service_has_them(emulator, gcs):
    gcs.put("in.jsonl", b'{"request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}\n')
    status, job = ask(emulator, "POST", JOBS, GOOD)
    assert status == 200
    as_message(BatchPredictionJob, job)
    for wrong in (
        {"displayName": ""},
        {"displayName": "x" * 129},
        {"model": "gemini"},
        {"labels": {"Key": "v"}},
        {"labels": {"key": "V"}},
        {"inputConfig": {"instancesFormat": "csv", "gcsSource": {"uris": ["gs://groupage/in.jsonl"]}}},
        {"inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["s3://groupage/in.jsonl"]}}},
        {"inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["gs://groupage/none.jsonl"]}}},
        {"outputConfig": {"predictionsFormat": "jsonl"}},
    ):
        status, answer = ask(emulator, "POST", JOBS, GOOD | wrong)
        assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT"), wrong
    status, answer = ask(emulator, "DELETE", job["name"])
    assert (status, answer["error"]["status"]) == (400, "FAILED_PRECONDITION"), "it runs"
    assert ask(emulator, "POST", f"{job['name']}:cancel") == (200, {})
    emulator.finish()
    status, answer = ask(emulator, "POST", f"{job['name']}:cancel")
    assert (status, answer["error"]["status"]) == (400, "FAILED_PRECONDITION"), "it has ended"
    status, answer = ask(emulator, "DELETE", job["name"])
    assert as_message(operations_pb2.Operation, answer).done
    assert ask(emulator, "GET", job["name"])[0] == 404


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not valid JSON"),
        (b'{"contents":[]}', "no request"),
        (b'["x"]', "no request"),
    ],
)
async def test_an_input_that_is_no_list_of_requests_fails_the_job(emulator, gcs, line, why):
    gcs.put("in.jsonl", line + b"\n")
    _, job = ask(emulator, "POST", JOBS, GOOD)
    emulator.advance_at_once("1h")
    for _ in range(100):
        failed = as_message(BatchPredictionJob, ask(emulator, "GET", job["name"])[1])
        if failed.state.name == "JOB_STATE_FAILED":
            break
    assert (failed.error.code, why in failed.error.message) == (3, True)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('display_name="a-1"', {"a-1"}),
        ('display_name!="a-1"', {"a-2", "b-1"}),
        ('display_name:"a-*"', {"a-1", "a-2"}),
        ('NOT display_name:"a-*"', {"b-1"}),
        ("labels.kind=x", {"a-1", "b-1"}),
        ('labels.kind="x" AND display_name:"a-*"', {"a-1"}),
        ("labels.more:*", {"a-2"}),
        ('labels.kind=y OR display_name="b-1"', {"a-2", "b-1"}),
        ('state="JOB_STATE_SUCCEEDED"', set()),
        ('create_time>"2020-01-01T00:00:00Z"', {"a-1", "a-2", "b-1"}),
        ('create_time<"2020-01-01T00:00:00Z"', set()),
        ("", {"a-1", "a-2", "b-1"}),
    ],
)
async def test_listings_are_filtered_as_documented(emulator, gcs, query, found):
    gcs.put("in.jsonl", b'{"request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}\n')
    for name, labels in (("a-1", {"kind": "x"}), ("a-2", {"kind": "y", "more": "1"}), ("b-1", {"kind": "x"})):
        assert ask(emulator, "POST", JOBS, GOOD | {"displayName": name, "labels": labels})[0] == 200
    _, page = ask(emulator, "GET", f"{JOBS}?filter={urllib.request.quote(query)}")
    assert {job["displayName"] for job in page["batchPredictionJobs"]} == found


@pytest.mark.parametrize("query", ["name=x", "display_name", "(state=x)", 'create_time>"soon"'])
async def test_a_filter_that_nobody_understands_is_refused(emulator, query):
    assert ask(emulator, "GET", f"{JOBS}?filter={urllib.request.quote(query)}")[0] == 400


async def test_sync_answers_have_the_shape_that_the_sdk_knows(emulator):
    root = f"projects/{PROJECT}/locations/{LOCATION}/publishers"
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    path = f"{root}/google/models/{GEMINI}:generateContent"
    for kind in (None, "truncated", "refused"):
        emulator.faults(requests=[{"share": 1, "kind": kind}] if kind else [])
        status, answer = ask(emulator, "POST", path, body)
        known = as_message(GenerateContentResponse, answer)
        assert status == 200
        assert known.usage_metadata.total_token_count > 0
        assert MessageToDict(GenerateContentResponse.pb(known)).keys() == answer.keys()
    emulator.faults()
    status, answer = ask(emulator, "POST", f"{root}/anthropic/models/{CLAUDE}:generateContent", body)
    assert (status, answer["error"]["status"]) == (404, "NOT_FOUND"), "Claude answers rawPredict alone"


def test_rows_have_the_columns_that_are_documented(emulator, gcs):
    gcs.put("in.jsonl", b'{"request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}\n')
    _, job = ask(emulator, "POST", JOBS, GOOD)
    emulator.finish()
    _, job = ask(emulator, "GET", job["name"])
    folder = job["outputInfo"]["gcsOutputDirectory"]
    assert re.fullmatch(r"gs://groupage/out/prediction-gemini-2\.5-flash-2\d{3}-[-0-9T:.]+Z", folder)
    row = json.loads(gcs.read(folder.removeprefix("gs://groupage/") + "/predictions.jsonl"))
    assert set(row) == {"status", "processed_time", "request", "response"}
    assert row["status"] == ""
