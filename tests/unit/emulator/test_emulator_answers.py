"""Answers are a function of the question."""

import base64
import contextlib
import struct

import orjson
import pytest
from groupage.emulator import expected_embeddings, expected_text, question_of
from groupage.emulator.answers import BadBody, answerer
from groupage.schemas import ENDPOINTS
from hypothesis import given
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"


def chat(text, **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}]} | more


def text_of(body):
    return orjson.loads(body)["choices"][0]["message"]["content"]


@given(st.text(min_size=1), st.one_of(st.none(), st.integers(1, 200)))
def test_the_fast_and_the_slow_way_say_the_same(text, cap):
    fast = chat(text) if cap is None else chat(text, max_tokens=cap)
    slow = fast | {"n": 1}
    answers = [answerer(CHAT)(body, 7) for body in (fast, slow)]
    assert text_of(answers[0].body) == text_of(answers[1].body) == expected_text(CHAT, fast)
    assert answers[0][:3] == answers[1][:3]
    assert orjson.loads(answers[0].body) == orjson.loads(answers[1].body)


def test_questions_that_differ_have_answers_that_differ():
    texts = {expected_text(CHAT, chat(f"What is {number}?")) for number in range(5000)}
    assert len(texts) == 5000


def test_the_question_is_what_is_asked_not_how():
    plain = question_of(CHAT, chat("Hello"))
    assert plain == question_of(CHAT, chat("Hello", model="other", max_tokens=9, temperature=0.5))
    assert plain == question_of(CHAT, {"model": "m", "messages": [{"content": "Hello", "role": "user"}]})
    assert plain != question_of(CHAT, chat("Hello "))


def test_RP_01_some_answers_hold_line_separators_raw():
    raw = [answerer(CHAT)(chat(f"q{number}"), 1).body for number in range(300)]
    odd = [body for body in raw if "\u2028".encode() in body]
    assert odd
    assert len(odd) < 40
    assert all(b"\n" not in body for body in raw)
    assert all(len(orjson.loads(body)["choices"]) == 1 for body in odd)


def test_an_answer_keeps_within_the_limit_it_was_given():
    answer = answerer(CHAT)(chat("Tell me everything", max_tokens=5), 1)
    assert answer.output_tokens == 5
    assert orjson.loads(answer.body)["choices"][0]["finish_reason"] == "stop"


def test_the_size_of_an_answer_can_be_set():
    assert 1500 < len(expected_text(CHAT, chat("x"), size=2000)) < 2200


@pytest.mark.parametrize(
    ("endpoint", "body", "param"),
    [
        (CHAT, {"model": "m"}, "messages"),
        (CHAT, {"messages": [{"role": "user", "content": "x"}]}, "model"),
        (CHAT, {"model": "m", "messages": ["x"]}, "messages"),
        ("/v1/embeddings", {"model": "m"}, "input"),
        ("/v1/completions", {"model": "m", "prompt": ""}, "prompt"),
    ],
)
def test_a_body_without_a_question_is_refused(endpoint, body, param):
    with pytest.raises(BadBody) as refusal:
        answerer(endpoint)(body, 1)
    assert refusal.value.param == param


def test_embeddings_have_the_dimensions_asked_for_in_both_encodings():
    body = {"model": "m", "input": ["a", "b"], "dimensions": 5}
    plain = orjson.loads(answerer("/v1/embeddings")(body, 1).body)["data"]
    coded = orjson.loads(answerer("/v1/embeddings")(body | {"encoding_format": "base64"}, 1).body)["data"]
    assert [one["embedding"] for one in plain] == expected_embeddings(body)
    for vector, one in zip(expected_embeddings(body), coded, strict=True):
        assert struct.unpack("<5f", base64.b64decode(one["embedding"])) == pytest.approx(vector)
        assert sum(value * value for value in vector) == pytest.approx(1, abs=1e-4)


def test_structured_output_fits_its_schema():
    schema = {
        "type": "object",
        "properties": {
            "label": {"enum": ["a", "b"]},
            "score": {"type": "integer", "minimum": 3, "maximum": 5},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
            "sure": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "$defs": {"tag": {"type": "string"}},
    }
    body = chat("x", response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})
    value = orjson.loads(text_of(answerer(CHAT)(body, 1).body))
    assert value["label"] in ("a", "b")
    assert 3 <= value["score"] <= 5
    assert len(value["tags"]) == 2
    assert isinstance(value["sure"], bool)
    assert "[" in value["note"]
    assert orjson.loads(expected_text(CHAT, body)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "model",
    "messages",
    "input",
    "prompt",
    "instructions",
    "max_tokens",
    "max_completion_tokens",
    "dimensions",
    "encoding_format",
    "response_format",
    "text",
    "tools",
    "tool_choice",
]


@given(st.sampled_from(ENDPOINTS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8), st.booleans())
def test_whatever_a_body_holds_it_is_answered_or_refused(endpoint, body, sound):
    if sound:
        body = body | {"model": "m", "messages": [{"role": "user", "content": "x"}], "input": "x", "prompt": "x"}
    with contextlib.suppress(BadBody):
        orjson.loads(answerer(endpoint)(body, 1).body)


@given(JSON)
def test_whatever_a_schema_holds_it_is_followed_or_refused(schema):
    wish = {"type": "json_schema", "json_schema": {"schema": {"properties": {"x": schema}}}}
    with contextlib.suppress(BadBody):
        orjson.loads(answerer(CHAT)(chat("x", response_format=wish), 1).body)


def test_a_forced_tool_is_called():
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"type": "number"}}}}}]
    reply = orjson.loads(answerer(CHAT)(chat("x", tools=tools, tool_choice="required"), 1).body)
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    call = choice["message"]["tool_calls"][0]["function"]
    assert call["name"] == "f"
    assert isinstance(orjson.loads(call["arguments"])["x"], int)
    free = orjson.loads(answerer(CHAT)(chat("x", tools=tools), 1).body)
    assert free["choices"][0]["finish_reason"] == "stop"
