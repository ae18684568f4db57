"""One request at a time through bedrock-runtime, with the real boto3."""

import asyncio
import base64
import time

import orjson
import pytest
from bedrock_world import CHAT, CLAUDE, LLAMA, NOVA, body_of
from groupage.activities.providers.base import SyncCall
from groupage.emulator.answers import expected_text
from groupage.schemas import ErrorClass, Outcome

WIRE = "gabcdef-abcdefghijklm-r0-s0-1"


def call_of(body, endpoint=CHAT, timeout_s=20.0):
    return SyncCall(WIRE, endpoint, orjson.dumps(body), timeout_s)


@pytest.mark.parametrize("model", [CLAUDE, NOVA, LLAMA, "openai.gpt-oss-20b-1:0", "us." + CLAUDE])
async def test_a_portable_request_is_answered_by_each_family(world, model):
    answer = await world.adapter.complete(call_of(body_of(1, model)))
    assert (answer.wire_id, answer.outcome) == (WIRE, Outcome.succeeded)
    assert answer.text == expected_text(CHAT, body_of(1, model))
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert answer.request_id


@pytest.mark.parametrize("model", [CLAUDE, NOVA, "openai.gpt-oss-20b-1:0"])
async def test_tool_calls_come_back_in_openais_shape(world, model):
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    body = body_of(2, model) | {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    answer = await world.adapter.complete(call_of(body))
    assert answer.outcome is Outcome.succeeded, answer.message
    (call,) = answer.tool_calls
    assert call["function"]["name"] == "look_up"
    assert "word" in orjson.loads(call["function"]["arguments"])


async def test_bytes_in_a_converse_body_are_sent_once_encoded(world, emulator):
    picture = base64.b64encode(b"\x89PNG not really").decode()
    content = [{"text": "what is this?"}, {"image": {"format": "png", "source": {"bytes": picture}}}]
    body = {"model": NOVA, "messages": [{"role": "user", "content": content}]}
    emulator.faults(requests=[{"kind": "http", "status": 429, "match": picture, "times": 1}])
    answer = await world.adapter.complete(call_of(body, "/converse"))
    assert answer.error_class is ErrorClass.rate_limit, "the fault found the picture as it was written"
    assert (await world.adapter.complete(call_of(body, "/converse"))).outcome is Outcome.succeeded
    bad = {
        "model": NOVA,
        "messages": [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": "?"}}}]}],
    }
    assert (await world.adapter.complete(call_of(bad, "/converse"))).error_class is ErrorClass.invalid


async def test_usage_of_embeddings_is_taken_from_the_headers_where_the_body_has_none(world):
    body = {"model": "cohere.embed-english-v3", "input": ["a text"]}
    answer = await world.adapter.complete(call_of(body, "/v1/embeddings"))
    assert answer.body["embeddings"]
    assert answer.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"kind": "http", "status": 429, "retry_after": 5}, ErrorClass.rate_limit),
        ({"kind": "http", "status": 400}, ErrorClass.invalid),
        ({"kind": "http", "status": 400, "code": "ServiceQuotaExceededException"}, ErrorClass.quota),
        ({"kind": "http", "status": 403}, ErrorClass.account),
        ({"kind": "http", "status": 404}, ErrorClass.invalid),
        ({"kind": "http", "status": 408}, ErrorClass.transient),
        ({"kind": "http", "status": 424}, ErrorClass.transient),
        ({"kind": "http", "status": 429, "code": "ModelNotReadyException"}, ErrorClass.transient),
        ({"kind": "http", "status": 500}, ErrorClass.transient),
        ({"kind": "http", "status": 503}, ErrorClass.transient),
        ({"kind": "credit"}, ErrorClass.account),
        ({"kind": "empty_body"}, ErrorClass.unreadable),
    ],
)
async def test_errors_are_classed_and_tried_once(world, emulator, rule, kind):
    emulator.faults(requests=[{"share": 1, **rule}])
    answer = await world.adapter.complete(call_of(body_of(3)))
    assert answer.error_class is kind, answer.message
    assert answer.retry_after_s == rule.get("retry_after")
    assert emulator.state()["calls"]["sync"] == 1


@pytest.mark.parametrize(("kind", "outcome"), [("truncated", Outcome.truncated), ("refused", Outcome.refused)])
@pytest.mark.parametrize("model", [CLAUDE, NOVA, LLAMA])
async def test_RP_14_RP_16_truncated_and_refused_are_answers_of_their_own(world, emulator, kind, outcome, model):
    emulator.faults(requests=[{"share": 1, "kind": kind}])
    answer = await world.adapter.complete(call_of(body_of(4, model)))
    assert (answer.outcome, answer.error_class) == (outcome, None)
    assert answer.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"action": "drop_after"}, "connection_lost"),
        ({"action": "html"}, "not_json"),
        ({"action": "slow", "seconds": "30s"}, "timeout"),
    ],
)
@pytest.mark.parametrize("model", [CLAUDE, LLAMA])
async def test_a_reply_that_does_not_come_may_have_been_paid(world, emulator, fault, code, model):
    emulator.faults(calls=[{"call": "sync", **fault}])
    began = time.monotonic()
    patience_s = 1.0 if code == "timeout" else 9.0
    answer = await world.adapter.complete(call_of(body_of(5, model), timeout_s=patience_s))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, code), answer.message
    assert time.monotonic() - began < 20


async def test_many_slow_calls_at_once_keep_nothing_else_waiting(world, emulator):
    emulator.faults(calls=[{"call": "sync", "action": "slow", "seconds": "2s"}])
    calls = [asyncio.create_task(world.adapter.complete(call_of(body_of(n)))) for n in range(60)]
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await asyncio.to_thread(time.sleep, 0)
    assert time.monotonic() - began < 1.0, "the shared threads are free"
    assert {answer.outcome for answer in await asyncio.gather(*calls)} == {Outcome.succeeded}


async def test_a_converse_call_with_tools_is_fine_by_sync(world):
    tools = {"tools": [{"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object", "properties": {}}}}}]}
    config = {**tools, "toolChoice": {"any": {}}}
    body = {"model": LLAMA, "messages": [{"role": "user", "content": [{"text": "hi"}]}], "toolConfig": config}
    answer = await world.adapter.complete(call_of(body, "/converse"))
    assert answer.tool_calls[0]["function"] == {"name": "t", "arguments": "{}"}
