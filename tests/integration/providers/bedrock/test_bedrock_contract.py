"""What the emulator says, held against botocore's own models of the two services."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime
from typing import Any

import botocore.loaders
import botocore.model
import pytest
from bedrock_world import CLAUDE, NOVA

KEY = "AWS4-HMAC-SHA256 Credential=test-access/20261129/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0"


def service(name: str) -> botocore.model.ServiceModel:
    return botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model(name, "service-2"), name)


def problems(shape: Any, value: Any, at: str = "answer") -> list[str]:
    """Everything in a JSON value that its shape does not allow."""
    kind = shape.type_name
    if getattr(shape, "is_document_type", False):
        return []
    if kind == "structure":
        if not isinstance(value, dict):
            return [f"{at}: no object"]
        names = {member.serialization.get("name", name): name for name, member in shape.members.items()}
        found = [
            f"{at}.{name}: missing" for name in shape.required_members if name not in {names.get(k) for k in value}
        ]
        for name, inner in value.items():
            if name not in names:
                found.append(f"{at}.{name}: unknown")
            else:
                found += problems(shape.members[names[name]], inner, f"{at}.{name}")
        return found
    if kind == "list":
        if not isinstance(value, list):
            return [f"{at}: no list"]
        return [one for n, inner in enumerate(value) for one in problems(shape.member, inner, f"{at}[{n}]")]
    if kind == "map":
        return [one for name, inner in value.items() for one in problems(shape.value, inner, f"{at}.{name}")]
    if kind == "string":
        return _text_problems(shape, value, at)
    if kind == "timestamp":
        return [] if isinstance(value, str) and datetime.fromisoformat(value).tzinfo else [f"{at}: no ISO 8601 time"]
    fits = {"integer": int, "long": int, "boolean": bool, "float": (int, float), "double": (int, float)}.get(kind, str)
    return [] if isinstance(value, fits) else [f"{at}: {value!r} is no {kind}"]


def _text_problems(shape: Any, value: Any, at: str) -> list[str]:
    if not isinstance(value, str):
        return [f"{at}: {value!r} is no text"]
    found = []
    if shape.enum and value not in shape.enum:
        found.append(f"{at}: {value!r} is none of {shape.enum}")
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        found.append(f"{at}: {value!r} does not match {pattern}")
    if len(value) > shape.metadata.get("max", 2**31):
        found.append(f"{at}: too long")
    return found


def ask(emulator, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
    url = emulator.base_url.removesuffix("/v1") + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"authorization": KEY, "content-type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, dict(reply.headers), json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.loads(error.read())


def test_the_check_itself_finds_what_is_wrong():
    shape = service("bedrock").operation_model("GetModelInvocationJob").output_shape
    found = problems(shape, {"jobArn": "x", "status": "Done", "more": 1, "submitTime": "2026-01-01T00:00:00Z"})
    assert any("jobArn" in one and "match" in one for one in found)
    assert any("Done" in one for one in found)
    assert "answer.more: unknown" in found
    assert "answer.roleArn: missing" in found


@pytest.mark.parametrize(
    "effects",
    [
        [],
        [{"effect": "expire", "at": 0.5}],
        [{"effect": "expire", "at": 0}],
        [{"effect": "fail"}],
        [{"effect": "counts", "counts": "null"}],
    ],
    ids=["completed", "partially", "expired", "failed", "no counts"],
)
async def test_jobs_have_the_shape_that_botocore_knows_in_every_state(world, emulator, effects):
    emulator.faults(batches=effects)
    ref = await world.planned()
    submitted = await world.submit(ref)
    model = service("bedrock")
    get, listing = (model.operation_model(f"{name}ModelInvocationJob{s}") for name, s in (("Get", ""), ("List", "s")))
    path = "/model-invocation-job/" + urllib.parse.quote(submitted.batch_id, safe="")
    seen = set()
    for step in ("1s", "4m", "3m", "1h", "1h"):
        status, _, job = ask(emulator, "GET", path)
        assert status == 200
        assert problems(get.output_shape, job) == []
        seen.add(job["status"])
        status, _, page = ask(emulator, "GET", f"/model-invocation-jobs?maxResults=1&nameContains={ref.tag}")
        assert problems(listing.output_shape, page) == []
        assert page["invocationJobSummaries"][0]["jobArn"] == submitted.batch_id
        if effects and effects[0]["effect"] == "fail":
            emulator.advance_at_once(step)
        else:
            emulator.advance(step)
    assert len(seen) > 1
    # By its short id as well.
    assert ask(emulator, "GET", "/model-invocation-job/" + submitted.batch_id[-12:])[0] == 200


async def test_create_stop_and_all_errors_have_the_shapes_that_botocore_knows(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    model = service("bedrock")
    created = model.operation_model("CreateModelInvocationJob")
    uri = submitted.input_files[0]
    good = {
        "jobName": "another",
        "roleArn": "arn:aws:iam::123456789012:role/r",
        "modelId": CLAUDE,
        "inputDataConfig": {"s3InputDataConfig": {"s3Uri": uri}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://groupage/out/"}},
    }
    status, _, answer = ask(emulator, "POST", "/model-invocation-job", good)
    assert (status, problems(created.output_shape, answer)) == (200, [])
    errors = {shape.name: shape.metadata["error"]["httpStatusCode"] for shape in created.error_shapes}
    wrong = [
        {"jobName": "-x"}, {"jobName": "a" * 64}, {"clientRequestToken": "a_b"}, {"roleArn": "me"}, {"modelId": "?"},
        {"timeoutDurationInHours": 23}, {"timeoutDurationInHours": 169}, {"modelInvocationType": "Chat"},
        {"inputDataConfig": {}}, {"outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "gs://x"}}},
    ]  # fmt: skip
    for change in wrong:
        status, headers, answer = ask(emulator, "POST", "/model-invocation-job", good | change)
        kind = headers["x-amzn-errortype"]
        assert (kind, status) == ("ValidationException", errors[kind]), change
        assert answer["message"]
    stop = f"/model-invocation-job/{submitted.batch_id[-12:]}/stop"
    assert ask(emulator, "POST", stop)[::2] == (200, {})
    emulator.finish()
    status, headers, _ = ask(emulator, "POST", stop)
    assert (headers["x-amzn-errortype"], status) == ("ConflictException", errors["ConflictException"])
    status, headers, _ = ask(emulator, "GET", "/model-invocation-job/abcdefabcdef")
    assert (headers["x-amzn-errortype"], status) == ("ResourceNotFoundException", 404)


def test_converse_answers_have_the_shape_that_botocore_knows(emulator):
    shape = service("bedrock-runtime").operation_model("Converse").output_shape
    plain = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    tools = {
        "tools": [{"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object"}}}}],
        "toolChoice": {"any": {}},
    }
    path = f"/model/{urllib.parse.quote(NOVA, safe='')}/converse"
    for body in (plain, plain | {"toolConfig": tools}):
        status, _, answer = ask(emulator, "POST", path, body)
        assert (status, problems(shape, answer)) == (200, [])
    for kind in ("truncated", "refused"):
        emulator.faults(requests=[{"share": 1, "kind": kind}])
        assert problems(shape, ask(emulator, "POST", path, plain)[2]) == []
