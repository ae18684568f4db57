"""One request at a time: generateContent and rawPredict at the same endpoint as the jobs."""

from groupage.schemas import ErrorClass
from job_world import call_of
from vertex_world import CLAUDE, GEMINI


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
