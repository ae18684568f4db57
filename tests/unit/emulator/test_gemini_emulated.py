"""The emulated Gemini's pure parts: questions behind its bodies, replies, lines under faults."""

import orjson
import pytest
from groupage.emulator import answers
from groupage.emulator.answers import BadBody
from groupage.emulator.dialects import dialect_of
from groupage.emulator.faults import RequestRule
from groupage.emulator.gemini.answers import answerer, expected_text, question_of, reply_to
from groupage.emulator.gemini.errors import refusal
from groupage.emulator.gemini.lines import DIALECT
from groupage.emulator.gemini.questions import question
from groupage.schemas.portable import translate

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
FLASH = "gemini-2.5-flash"
FUNCTION = {"name": "look_up", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"n":1}'}}
PORTABLE = {
    "plain": {"messages": [{"role": "user", "content": "what is 2 + 2?"}], "max_tokens": 60},
    "system": {"messages": [{"role": "system", "content": "be terse"}, {"role": "user", "content": "hi"}]},
    "turns": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "and?"},
        ]
    },
    "tools": {
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ],
        "tools": TOOLS,
    },
    "picture": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is it?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                ],
            }
        ]
    },
}


def record_of(portable, model=FLASH):
    body = {"model": model, **portable}
    return {"model": model, "key": "k", "request": translate("gemini", model, CHAT, body)}, body


@pytest.mark.parametrize("name", PORTABLE)
def test_a_portable_request_asks_the_same_question_as_everywhere(name):
    record, body = record_of(PORTABLE[name])
    assert question_of(record) == answers.question_of(CHAT, body)
    assert expected_text(record) == answers.expected_text(CHAT, body)


def test_embeddings_are_the_same_as_everywhere():
    body = {"model": "gemini-embedding-001", "input": "abc", "dimensions": 12}
    request = translate("gemini", "gemini-embedding-001", EMBEDDINGS, body)
    reply = orjson.loads(reply_to("gemini-embedding-001", request, 0).body)
    assert reply["embedding"]["values"] == answers.expected_embeddings(body)[0]
    snake = {"content": request["content"], "output_dimensionality": 12}
    assert reply_to("gemini-embedding-001", snake, 0).body == reply_to("gemini-embedding-001", request, 0).body


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look_up"}}])
def test_a_forced_call_is_made_with_its_signature(choice):
    record, body = record_of(PORTABLE["plain"] | {"tools": TOOLS, "tool_choice": choice})
    parts = orjson.loads(reply_to(FLASH, record["request"], 0).body)["candidates"][0]["content"]["parts"]
    (part,) = parts
    assert part["functionCall"]["name"] == "look_up"
    assert isinstance(part["functionCall"]["args"]["n"], int)
    assert part["thoughtSignature"]
    assert part["functionCall"]["id"] == f"call_{answers.question_of(CHAT, body)}"


def test_json_is_answered_to_either_kind_of_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    record, body = record_of(
        PORTABLE["plain"] | {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
    )
    text = expected_text(record)
    assert orjson.loads(text)["n"] == orjson.loads(answers.expected_text(CHAT, body))["n"]
    capitals = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    config = {"responseMimeType": "application/json", "responseSchema": capitals, "maxOutputTokens": 60}
    assert expected_text({**record, "request": {**record["request"], "generationConfig": config}}) == text


def test_CO_06_thoughts_are_counted_beside_and_billed():
    contents = [{"parts": [{"text": "hi"}]}]
    plain = reply_to(FLASH, {"contents": contents}, 0)
    config = {"thinkingConfig": {"thinkingBudget": 100, "includeThoughts": True}}
    made = reply_to(FLASH, {"contents": contents, "generationConfig": config}, 0)
    usage = orjson.loads(made.body)["usageMetadata"]
    assert usage["candidatesTokenCount"] == plain.output_tokens
    assert made.output_tokens == plain.output_tokens + usage["thoughtsTokenCount"] > plain.output_tokens
    assert usage["totalTokenCount"] == made.input_tokens + made.output_tokens
    off = {"thinkingConfig": {"thinkingBudget": 0}}
    assert reply_to(FLASH, {"contents": contents, "generationConfig": off}, 0).body == plain.body


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"contents": []},
        {"contents": [{"role": "user", "parts": []}]},
        {"contents": [{"role": "system", "parts": [{"text": "x"}]}]},
        {"contents": [{"parts": [{"nothing": 1}]}]},
        {"contents": [{"parts": [7]}]},
        {"contents": "hi"},
        {"model": "models/another", "contents": [{"parts": [{"text": "x"}]}]},
        {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {"maxOutputTokens": 0}},
        {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {"responseSchema": {"type": "OBJECT"}}},
        {"content": {"parts": []}},
        {"content": {"parts": [{"text": ""}]}},
    ],
)
def test_what_google_would_refuse_is_refused(request_):
    with pytest.raises(BadBody):
        question(FLASH, request_)


def healthy():
    record, _ = record_of(PORTABLE["plain"])
    reply = answerer()(record, 0)
    assert DIALECT.result is not None
    return DIALECT.result(b'"k"', "", 0, reply.body)


@pytest.mark.parametrize("kind", ["http", "credit", "status_zero", "missing", "duplicate", "unknown_id", "truncated"])
def test_each_fault_makes_its_lines(kind):
    line = healthy()
    made, errors = DIALECT.faulty(RequestRule(kind=kind, share=1, status=429), line)
    assert errors == []
    rows = [orjson.loads(one) for one in made]
    assert len(rows) == {"missing": 0, "duplicate": 2, "unknown_id": 2}.get(kind, 1)
    if kind in {"http", "credit"}:
        assert rows[0]["error"]["code"] == 8
    if kind == "unknown_id":
        assert [row["key"] for row in rows] == ["k", "not-of-this-batch"]
    if kind == "truncated":
        assert rows[0]["response"]["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_the_dialect_is_found_by_its_name_and_loses_all_at_expiry():
    assert dialect_of("gemini") is DIALECT
    assert DIALECT.expiry_loses_all
    assert DIALECT.unfinished(b"", "expired") == b""


def test_a_wait_stands_among_the_details():
    reply = refusal(429, retry_s=1.5).reply
    body = orjson.loads(reply.body)
    assert body["error"]["details"][0]["retryDelay"] == "1.500s"
    assert reply.headers == {}
