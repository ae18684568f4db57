"""One request at a time through models:generateContent, on the SDK's own connections."""

import asyncio
import time

import orjson
import pytest
from gemini_world import EMBEDDING, FLASH
from groupage.activities.providers.base import SyncCall
from groupage.emulator.answers import expected_text
from groupage.schemas import ErrorClass, Outcome
from job_world import CHAT, chat_body

WIRE = "gabcdef-abcdefghijklm-r0-s0-1"


def call_of(body, endpoint=CHAT, timeout_s=20.0):
    return SyncCall(WIRE, endpoint, orjson.dumps(body), timeout_s)


async def test_a_portable_request_is_answered(world):
    answer = await world.adapter.complete(call_of(chat_body(1, FLASH)))
    assert (answer.wire_id, answer.outcome) == (WIRE, Outcome.succeeded)
    assert answer.text == expected_text(CHAT, chat_body(1, FLASH))
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert answer.request_id


async def test_a_native_request_goes_as_it_is_and_names_its_model_in_the_path(world):
    body = {
        "model": f"models/{FLASH}",
        "contents": [{"parts": [{"text": "hello"}]}],
        "cachedContent": "cachedContents/x",
    }
    answer = await world.adapter.complete(call_of(body, "/generateContent"))
    assert answer.outcome is Outcome.succeeded, answer.message
    assert 0 < answer.usage.cached_tokens < answer.usage.input_tokens


async def test_embeddings_by_sync(world):
    answer = await world.adapter.complete(call_of({"model": EMBEDDING, "input": "a text"}, "/v1/embeddings"))
    assert len(answer.body["embedding"]["values"]) == 8
    assert answer.usage.input_tokens > 0


async def test_a_tool_call_and_its_signature_come_back_and_go_in_again(world):
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    body = chat_body(2, "gemini-3-flash-preview") | {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
    }
    answer = await world.adapter.complete(call_of(body))
    (call,) = answer.tool_calls
    assert call["function"]["name"] == "look_up"
    assert "word" in orjson.loads(call["function"]["arguments"])
    assert call["extra_content"]["google"]["thought_signature"]
    history = [
        *body["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "it is there"},
    ]
    again = await world.adapter.complete(call_of(body | {"messages": history, "tool_choice": "auto"}))
    assert again.outcome is Outcome.succeeded, again.message
    assert again.text


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"kind": "http", "status": 429, "retry_after": 5}, ErrorClass.rate_limit),
        ({"kind": "http", "status": 400}, ErrorClass.invalid),
        ({"kind": "http", "status": 400, "message": "API key not valid."}, ErrorClass.account),
        ({"kind": "http", "status": 403}, ErrorClass.account),
        ({"kind": "http", "status": 404}, ErrorClass.invalid),
        ({"kind": "http", "status": 500}, ErrorClass.transient),
        ({"kind": "http", "status": 503}, ErrorClass.transient),
        ({"kind": "http", "status": 504}, ErrorClass.transient),
        ({"kind": "credit"}, ErrorClass.account),
        ({"kind": "empty_body"}, ErrorClass.unreadable),
    ],
)
async def test_errors_are_classed_and_tried_once(world, emulator, rule, kind):
    emulator.faults(requests=[{"share": 1, **rule}])
    answer = await world.adapter.complete(call_of(chat_body(3, FLASH)))
    assert answer.error_class is kind, answer.message
    assert answer.retry_after_s == rule.get("retry_after")
    assert world.calls("sync") == 1


async def test_a_wait_that_is_told_among_the_details_is_heeded(tmp_path, make_world):
    from provider_world import Emulator

    slow = Emulator(tmp_path / "slow", "--sync-rpm", "6")
    try:
        adapter = make_world(provider={"base_url": slow.base_url.removesuffix("/v1")}).adapter
        answers = [await adapter.complete(call_of(chat_body(n, FLASH))) for n in range(2)]
    finally:
        slow.close()
    assert (answers[0].outcome, answers[1].error_class) == (Outcome.succeeded, ErrorClass.rate_limit)
    assert 5 < answers[1].retry_after_s <= 10


@pytest.mark.parametrize(("kind", "outcome"), [("truncated", Outcome.truncated), ("refused", Outcome.refused)])
async def test_RP_14_RP_16_truncated_and_refused_are_answers_of_their_own(world, emulator, kind, outcome):
    emulator.faults(requests=[{"share": 1, "kind": kind}])
    answer = await world.adapter.complete(call_of(chat_body(4, FLASH)))
    assert (answer.outcome, answer.error_class) == (outcome, None)
    assert answer.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"action": "drop_after"}, "connection_lost"),
        ({"action": "html"}, "not_json"),
        ({"action": "slow", "seconds": "30s"}, "timeout"),
        ({"action": "cut"}, "connection_lost"),
    ],
    ids=["lost", "PO-22 html", "timeout", "cut"],
)
async def test_a_reply_that_does_not_come_may_have_been_paid(world, emulator, fault, code):
    emulator.faults(calls=[{"call": "sync", **fault}])
    began = time.monotonic()
    answer = await world.adapter.complete(call_of(chat_body(5, FLASH), timeout_s=1.0))
    assert (answer.error_class, answer.code) == (ErrorClass.transient, code), answer.message
    assert time.monotonic() - began < 10
    assert world.calls("sync") == 1


async def test_many_slow_calls_at_once_need_no_thread_each(world, emulator):
    emulator.faults(calls=[{"call": "sync", "action": "slow", "seconds": "1s"}])
    calls = [world.adapter.complete(call_of(chat_body(n, FLASH))) for n in range(60)]
    began = time.monotonic()
    assert {answer.outcome for answer in await asyncio.gather(*calls)} == {Outcome.succeeded}
    assert time.monotonic() - began < 15


async def test_a_request_that_nothing_can_say_is_invalid_and_not_sent(world):
    answer = await world.adapter.complete(call_of(chat_body(1, FLASH) | {"logit_bias": {"1": 2}}))
    assert answer.error_class is ErrorClass.invalid
    assert world.calls("sync") == 0
