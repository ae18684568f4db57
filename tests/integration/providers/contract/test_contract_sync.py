"""One request at a time: one attempt a call, and an answer whatever comes of it."""

import asyncio
import time

import orjson
import pytest
from everywhere import everywhere, rows
from groupage.schemas import ErrorClass, Outcome, Route
from job_world import WIRE, call_of, chat_body


@rows("model", lambda record: [(model,) for model in record.sync_models])
async def test_a_portable_request_is_answered(world, model):
    answer = await world.adapter.complete(call_of(chat_body(1, model)))
    assert (answer.wire_id, answer.outcome) == (WIRE, Outcome.succeeded), answer.message
    assert answer.text == world.answer(1, model)
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


@rows("model", lambda record: [(model,) for model in record.tool_models])
async def test_tool_calls_come_back_in_openais_shape(world, model):
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    body = chat_body(2, model) | {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    answer = await world.adapter.complete(call_of(body))
    assert answer.outcome is Outcome.succeeded, answer.message
    (call,) = answer.tool_calls
    assert call["function"]["name"] == "look_up"
    assert "word" in orjson.loads(call["function"]["arguments"])


COMMON = [
    ({"kind": "http", "status": 429, "retry_after": 5}, ErrorClass.rate_limit),
    ({"kind": "credit"}, ErrorClass.account),
    ({"kind": "empty_body"}, ErrorClass.unreadable),
]


@rows("rule found", lambda record: [*COMMON, *record.sync_errors])
async def test_SDK_06_TE_09_errors_are_classed_and_tried_once(world, emulator, rule, found):
    emulator.faults(requests=[{"share": 1, **rule}])
    answer = await world.adapter.complete(call_of(chat_body(3, world.model)))
    assert answer.error_class is found, answer.message
    assert answer.retry_after_s == rule.get("retry_after")
    assert world.calls("sync") == 1


@pytest.mark.parametrize(("kind", "outcome"), [("truncated", Outcome.truncated), ("refused", Outcome.refused)])
@rows("model", lambda record: [(model,) for model in record.models])
async def test_RP_14_RP_16_truncated_and_refused_are_answers_of_their_own(
    world, emulator, record, model, kind, outcome
):
    emulator.faults(requests=[{"share": 1, "kind": kind}])
    answer = await world.adapter.complete(call_of(chat_body(4, model)))
    assert (answer.outcome, answer.error_class) == (outcome, None)
    assert answer.usage.input_tokens > 0


LOST = [
    ({"action": "drop_after"}, "connection_lost"),
    ({"action": "html"}, "not_json"),
    ({"action": "slow", "seconds": "30s"}, "timeout"),
]


def lost(record):
    return [
        (f"{model}-{fault['action']}", model, fault, code)
        for model in record.apis
        for fault, code in [*LOST, *record.lost_replies]
    ]


@rows("name model fault code", lost)
async def test_PO_22_SDK_07_a_reply_that_does_not_come_may_have_been_paid(world, emulator, name, model, fault, code):
    emulator.faults(calls=[{"call": "sync", **fault}])
    began = time.monotonic()
    patience_s = 1.0 if code == "timeout" else 20.0
    answer = await world.adapter.complete(call_of(chat_body(5, model), timeout_s=patience_s))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, code), answer.message
    assert time.monotonic() - began < 25
    # On a busy machine a second may be over before the call has come in; a second try would still be seen.
    assert world.calls("sync") in ({0, 1} if code == "timeout" else {1})


@everywhere()
async def test_a_server_that_is_not_there_answers_nothing(make_world, record, monkeypatch):
    for name in record.unplugged:
        monkeypatch.setenv(name, record.unplugged[name])
    world = make_world()
    answer = await world.adapter.complete(call_of(chat_body(5, world.model)))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, "not_connected")


@everywhere()
async def test_many_slow_calls_at_once_keep_nothing_else_waiting(make_world, emulator):
    world = make_world(provider={"connect_timeout_s": 90.0})
    emulator.faults(calls=[{"call": "sync", "action": "slow", "seconds": "1h"}])
    bodies = [chat_body(n, world.model) for n in range(60)]
    calls = [asyncio.create_task(world.adapter.complete(call_of(body, timeout_s=100.0))) for body in bodies]
    async with asyncio.timeout(90):
        while world.calls("sync") < 60 and not any(call.done() for call in calls):  # noqa: ASYNC110 - the emulator tells nobody
            await asyncio.sleep(0.1)
        await asyncio.to_thread(time.sleep, 0)
    assert not any(call.done() for call in calls), "the shared threads are free though none of the calls has ended"
    emulator.advance_at_once("2h")
    assert {answer.outcome for answer in await asyncio.gather(*calls)} == {Outcome.succeeded}


@everywhere()
async def test_a_whole_shard_goes_by_sync(world, emulator):
    await world.prepare([{"id": f"id {n}", "body": chat_body(n, world.model)} for n in range(20)])
    emulator.faults(requests=[{"share": 0.3, "kind": "http", "status": 503, "times": 1, "routes": ["sync"]}])
    await world.plan(first_route=Route.sync)
    assert (await world.run_sync(0)).outcomes == {Outcome.succeeded: 20}
    assert emulator.creates() == 0
    await world.finalize(1)
    assert [row["text"] for row in world.results()] == [world.answer(n) for n in range(20)]
