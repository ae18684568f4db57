"""One request at a time through models:generateContent, on the SDK's own connections."""

import orjson
from gemini_world import EMBEDDING, FLASH
from groupage.schemas import ErrorClass, Outcome
from job_world import call_of, chat_body


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


async def test_a_request_that_nothing_can_say_is_invalid_and_not_sent(world):
    answer = await world.adapter.complete(call_of(chat_body(1, FLASH) | {"logit_bias": {"1": 2}}))
    assert answer.error_class is ErrorClass.invalid
    assert world.calls("sync") == 0
