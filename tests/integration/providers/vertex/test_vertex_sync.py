"""One request at a time: generateContent and rawPredict at the same endpoint as the jobs."""

import asyncio
import time

import orjson
import pytest
from groupage.activities.providers.base import SyncCall
from groupage.emulator.answers import expected_text
from groupage.schemas import ErrorClass, Outcome, Route
from job_world import CHAT
from vertex_world import CLAUDE, GEMINI, body_of

WIRE = "gabcdef-abcdefghijklm-r0-s0-1"


def call_of(body, endpoint=CHAT, timeout_s=20.0):
    return SyncCall(WIRE, endpoint, orjson.dumps(body), timeout_s)


@pytest.mark.parametrize("model", [GEMINI, CLAUDE, f"publishers/google/models/{GEMINI}"])
async def test_a_portable_request_is_answered(world, model):
    answer = await world.adapter.complete(call_of(body_of(1, model)))
    assert (answer.wire_id, answer.outcome) == (WIRE, Outcome.succeeded), answer.message
    assert answer.text == expected_text(CHAT, body_of(1, model))
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


async def test_native_requests_go_as_they_are(world):
    gemini = {"model": GEMINI, "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "labels": {"team": "a"}}
    answer = await world.adapter.complete(call_of(gemini, "/generateContent"))
    assert answer.body["candidates"]
    claude = {
        "model": CLAUDE,
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert (await world.adapter.complete(call_of(claude, "/rawPredict"))).body["type"] == "message"
    del claude["anthropic_version"]
    answer = await world.adapter.complete(call_of(claude, "/rawPredict"))
    assert (answer.error_class, "anthropic_version" in answer.message) == (ErrorClass.invalid, True)


@pytest.mark.parametrize("model", [GEMINI, CLAUDE])
async def test_tool_calls_come_back_in_openais_shape(world, model):
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    body = body_of(2, model) | {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    answer = await world.adapter.complete(call_of(body))
    assert answer.outcome is Outcome.succeeded, answer.message
    (call,) = answer.tool_calls
    assert call["function"]["name"] == "look_up"
    assert "word" in orjson.loads(call["function"]["arguments"])


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"kind": "http", "status": 429, "retry_after": 5}, ErrorClass.rate_limit),
        ({"kind": "http", "status": 400}, ErrorClass.invalid),
        ({"kind": "http", "status": 401}, ErrorClass.account),
        ({"kind": "http", "status": 403}, ErrorClass.account),
        ({"kind": "http", "status": 404}, ErrorClass.invalid),
        ({"kind": "http", "status": 499}, ErrorClass.transient),
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
@pytest.mark.parametrize("model", [GEMINI, CLAUDE])
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
        ({"action": "cut"}, "cut_short"),
        ({"action": "slow", "seconds": "30s"}, "timeout"),
    ],
    ids=["reset", "html", "cut", "timeout"],
)
async def test_a_reply_that_does_not_come_may_have_been_paid(world, emulator, fault, code):
    emulator.faults(calls=[{"call": "sync", **fault}])
    began = time.monotonic()
    patience_s = 1.0 if code == "timeout" else 9.0
    answer = await world.adapter.complete(call_of(body_of(5), timeout_s=patience_s))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, code), answer.message
    assert time.monotonic() - began < 20


async def test_a_server_that_is_not_there_answers_nothing(make_world, monkeypatch):
    monkeypatch.setenv("GROUPAGE_VERTEX_API_ENDPOINT", "http://127.0.0.1:9")
    answer = await make_world().adapter.complete(call_of(body_of(5)))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, "not_connected")


async def test_many_slow_calls_at_once_keep_nothing_else_waiting(world, emulator):
    emulator.faults(calls=[{"call": "sync", "action": "slow", "seconds": "2s"}])
    calls = [asyncio.create_task(world.adapter.complete(call_of(body_of(n)))) for n in range(60)]
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await asyncio.to_thread(time.sleep, 0)
    assert time.monotonic() - began < 1.0, "the shared threads are free"
    assert {answer.outcome for answer in await asyncio.gather(*calls)} == {Outcome.succeeded}


async def test_a_whole_shard_goes_by_sync(world, emulator):
    await world.prepare([{"id": f"id {n}", "body": body_of(n)} for n in range(20)])
    emulator.faults(requests=[{"share": 0.3, "kind": "http", "status": 503, "times": 1, "routes": ["sync"]}])
    await world.plan(first_route=Route.sync)
    assert (await world.run_sync(0)).outcomes == {Outcome.succeeded: 20}
    assert emulator.creates() == 0
    await world.finalize(1)
    assert [row["text"] for row in world.results()] == [expected_text(CHAT, body_of(n)) for n in range(20)]
