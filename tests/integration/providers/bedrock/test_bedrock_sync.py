"""One request at a time through bedrock-runtime, with the real boto3."""

import base64

from bedrock_world import LLAMA, NOVA
from groupage.schemas import ErrorClass, Outcome
from job_world import call_of


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


async def test_a_converse_call_with_tools_is_fine_by_sync(world):
    tools = {"tools": [{"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object", "properties": {}}}}}]}
    config = {**tools, "toolChoice": {"any": {}}}
    body = {"model": LLAMA, "messages": [{"role": "user", "content": [{"text": "hi"}]}], "toolConfig": config}
    answer = await world.adapter.complete(call_of(body, "/converse"))
    assert answer.tool_calls[0]["function"] == {"name": "t", "arguments": "{}"}
