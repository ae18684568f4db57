"""What the emulator says for Anthropic, held against the official SDK's own models."""

import orjson
import pytest
from anthropic.types import Message
from anthropic.types.messages import MessageBatchIndividualResponse
from groupage.emulator.answers import BadBody, answerer, expected_text, question_of
from groupage.emulator.anthropic.lines import DIALECT
from groupage.emulator.faults import RequestRule

ENDPOINT = "/v1/messages"


def body(**more):
    return {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **more}


def said(given):
    return orjson.loads(answerer(ENDPOINT)(given, 0).body)


def healthy():
    made = answerer(ENDPOINT)(body(), 0)
    return DIALECT.result(b'"w"', "c", 0, made.body)


def test_an_answer_is_a_message_and_a_function_of_its_question():
    message = Message.model_validate(said(body()))
    assert message.content[0].text == expected_text(ENDPOINT, body())
    assert said(body()) == said(body())
    assert question_of(ENDPOINT, body()) != question_of(ENDPOINT, body(system="Be brief."))
    assert question_of(ENDPOINT, body()) == question_of(ENDPOINT, body(max_tokens=7))


def test_thinking_tools_structured_output_and_caches_look_like_anthropics():
    thought = Message.model_validate(said(body(thinking={"type": "enabled", "budget_tokens": 50})))
    assert thought.content[0].type == "thinking"
    assert 0 < thought.usage.output_tokens_details.thinking_tokens < thought.usage.output_tokens
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [{"name": "count", "input_schema": schema}]
    used = Message.model_validate(said(body(tools=tools, tool_choice={"type": "tool", "name": "count"})))
    assert used.stop_reason == "tool_use"
    assert isinstance(used.content[0].input["n"], int)
    formatted = body(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert set(orjson.loads(said(formatted)["content"][0]["text"])) == {"n"}
    cached = [
        {"role": "user", "content": [{"type": "text", "text": "a" * 400, "cache_control": {"type": "ephemeral"}}]}
    ]
    usage = Message.model_validate(said(body(messages=cached))).usage
    assert usage.cache_read_input_tokens > 0
    assert usage.cache_creation_input_tokens > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"max_tokens": 0},
        {"max_tokens": None},
        {"model": ""},
        {"stream": True},
        {"speed": "fast"},
    ],
    ids=str,
)
def test_what_the_api_refuses_is_refused(bad):
    with pytest.raises(BadBody):
        answerer(ENDPOINT)(body(**bad), 0)


@pytest.mark.parametrize("kind", ["truncated", "refused", "expired", "credit", "duplicate", "unknown_id"])
def test_lines_of_the_fault_plan_are_lines_that_the_sdk_knows(kind):
    lines, errors = DIALECT.faulty(RequestRule(kind=kind, share=1), healthy())
    assert errors == [], "there is one file"
    for line in lines:
        assert line.endswith(b"\n")
        MessageBatchIndividualResponse.model_validate_json(line)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 429, 500, 504, 529])
def test_errors_of_the_fault_plan_have_types_that_the_sdk_knows(status):
    (line,), _ = DIALECT.faulty(RequestRule(kind="http", status=status, share=1), healthy())
    read = MessageBatchIndividualResponse.model_validate_json(line)
    assert read.result.type == "errored"


@pytest.mark.parametrize("ending", ["expired", "cancelled"])
def test_a_request_that_did_not_run_says_so(ending):
    read = MessageBatchIndividualResponse.model_validate_json(DIALECT.unfinished(healthy(), ending))
    assert read.custom_id == "w"
    assert read.result.type == {"expired": "expired", "cancelled": "canceled"}[ending]
