"""Every reader reads what only orjson refuses, and gives the numbers of a tool call back digit by digit."""

from collections.abc import Callable
from typing import NamedTuple

import orjson
import pytest
from groupage.activities.answers import read_batch_line
from groupage.activities.answers_anthropic import read_result_line
from groupage.activities.answers_bedrock import read_line as read_bedrock
from groupage.activities.answers_gemini import read_line as read_gemini
from groupage.activities.answers_vertex import read_line as read_vertex
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.sync_replies import read_sync
from groupage.activities.providers.vertex_tables import line_of
from groupage.schemas import ErrorClass, Outcome

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"


class Shape(NamedTuple):
    """One provider's line. In `body` TEXT stands for the answer's text, ARGS for a call's arguments; %s is the text
    of the JSON that is told besides.
    """

    line: str
    body: str
    read: Callable[[bytes], Answer]
    call: str = ""


OPENAI = Shape(
    '{"custom_id":"%s","response":{"status_code":200,"request_id":"q","body":%s},"error":null}',
    '{"choices":[{"message":{"content":TEXT},"finish_reason":"stop"}],"more":%s,"usage":{"prompt_tokens":9}}',
    lambda line: read_batch_line(line, "/v1/chat/completions"),
)
CLAUDE = (
    '{"type":"message","role":"assistant","content":[{"type":"text","text":TEXT}],"stop_reason":"end_turn",'
    '"more":%s,"usage":{"input_tokens":9}}'
)
CLAUDE_CALL = (
    '{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":ARGS}],'
    '"stop_reason":"tool_use","usage":{"input_tokens":9}}'
)
GEMINI = (
    '{"candidates":[{"content":{"parts":[{"text":TEXT}]},"finishReason":"STOP"}],"more":%s,'
    '"usageMetadata":{"promptTokenCount":9}}'
)
GEMINI_CALL = (
    '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":ARGS}}]},"finishReason":"STOP"}],'
    '"usageMetadata":{"promptTokenCount":9}}'
)
NOVA = '{"output":{"message":{"content":[{"text":TEXT}]}},"stopReason":"end_turn","more":%s,"usage":{"inputTokens":9}}'
NOVA_CALL = (
    '{"output":{"message":{"content":[{"toolUse":{"toolUseId":"t","name":"f","input":ARGS}}]}},'
    '"stopReason":"tool_use","usage":{"inputTokens":9}}'
)
ANTHROPIC_LINE = '{"custom_id":"%s","result":{"type":"succeeded","message":%s}}'
BEDROCK_LINE = '{"recordId":"%s","modelInput":{},"modelOutput":%s}'
GEMINI_LINE = '{"key":"%s","response":%s}'
VERTEX_LINE = '{"request":{"labels":{"groupage_id":"%s"}},"status":"","response":%s}'
SHAPES = {
    "openai": OPENAI,
    "anthropic": Shape(ANTHROPIC_LINE, CLAUDE, read_result_line, CLAUDE_CALL),
    "bedrock claude": Shape(BEDROCK_LINE, CLAUDE, lambda line: read_bedrock(line, "/invoke"), CLAUDE_CALL),
    "bedrock nova": Shape(BEDROCK_LINE, NOVA, lambda line: read_bedrock(line, "/invoke"), NOVA_CALL),
    "gemini": Shape(GEMINI_LINE, GEMINI, lambda line: read_gemini(line, ""), GEMINI_CALL),
    "vertex gemini": Shape(VERTEX_LINE, GEMINI, lambda line: read_vertex(line, ""), GEMINI_CALL),
    "vertex claude": Shape(VERTEX_LINE, CLAUDE, lambda line: read_vertex(line, ""), CLAUDE_CALL),
}
MORE = {
    "half a pair": r'"\udc00"',
    "NaN": '[{"logprob":NaN}]',
    "Infinity": "-Infinity",
    "beyond a float": "1e400",
    "deep": "[" * 1100 + "]" * 1100,
}

every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
@every_shape
def test_an_answer_that_one_reader_of_json_refuses_is_an_answer(shape, more):
    body = shape.body.replace("TEXT", r'"cut \ud83d"') % more
    answer = shape.read((shape.line % (WIRE, body)).encode() + b"\n")
    assert (answer.wire_id, answer.outcome, answer.code) == (WIRE, Outcome.succeeded, "")
    assert (answer.text, answer.usage.input_tokens) == ("cut \ufffd", 9)
    orjson.dumps(answer.body)


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_a_row_of_a_table_is_read_like_a_line(more):
    reply = GEMINI.replace("TEXT", r'"cut \ud83d"') % more
    made = line_of(["wire_id", "response", "status"], {"f": [{"v": WIRE}, {"v": reply}, {"v": None}]})
    answer = read_vertex(made, "")
    assert (answer.wire_id, answer.outcome, answer.text) == (WIRE, Outcome.succeeded, "cut \ufffd")


ARGUMENTS = '{"parcel":9400111899223197428490,"amount":0.12345678901234567890,"list":[-9223372036854775809]}'


@pytest.mark.parametrize("beside", ["", r',"cut":"\ud83d"'], ids=["", "half a pair"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES.values() if shape.call])
def test_numbers_in_a_tool_call_keep_all_their_digits(shape, beside):
    arguments = ARGUMENTS[:-1] + beside + "}"
    answer = shape.read((shape.line % (WIRE, shape.call.replace("ARGS", arguments))).encode())
    assert (answer.wire_id, answer.outcome) == (WIRE, Outcome.succeeded)
    (call,) = answer.tool_calls
    readable = arguments.replace(r"\ud83d", "\ufffd")
    assert call["function"]["arguments"] == readable
    assert readable in orjson.dumps(answer.body).decode()
    assert answer.usage.input_tokens == 9


def test_arguments_that_are_nested_deeply_are_arguments():
    arguments = '{"a":' + "[" * 300 + "]" * 300 + "}"
    answer = read_result_line((ANTHROPIC_LINE % (WIRE, CLAUDE_CALL.replace("ARGS", arguments))).encode())
    assert answer.outcome is Outcome.succeeded
    assert orjson.loads(answer.tool_calls[0]["function"]["arguments"])["a"]


def synced(content: bytes, status: int = 200) -> Answer:
    call = SyncCall(WIRE, "/v1/messages", b"{}", 1.0)
    return read_sync(call, status, content, lambda body: Answer(WIRE, Outcome.succeeded, body=body), lambda: None)


def test_a_reply_that_one_reader_of_json_refuses_is_a_reply():
    assert synced(rb'{"a":"\ud83d","b":NaN}').body == {"a": "\ufffd", "b": None}
    assert synced(rb'{"a":' + b"[" * 1100 + b"]" * 1100 + b"}").body["a"]


def test_RP_12_a_reply_that_is_not_utf8_was_paid_for_and_is_not_asked_for_at_once_again():
    answer = synced(b'{"a":"\xff"}')
    assert (answer.error_class, answer.code) == (ErrorClass.unreadable, "not_utf8")


@pytest.mark.parametrize("content", [b"<html>", rb'{"a":"\ud83d', b"", b"[NaN", b"<p>\xff"])
def test_PO_22_a_page_or_half_an_answer_is_none(content):
    answer = synced(content)
    assert (answer.error_class, answer.code) == (ErrorClass.transient, "not_json")


def test_numbers_in_a_replys_tool_call_keep_all_their_digits():
    from groupage.activities.answers_anthropic import read_reply

    content = CLAUDE_CALL.replace("ARGS", ARGUMENTS).encode()
    call = SyncCall(WIRE, "/v1/messages", b"{}", 1.0)
    answer = read_sync(call, 200, content, lambda body: read_reply(WIRE, 200, body), lambda: None)
    assert answer.tool_calls[0]["function"]["arguments"] == ARGUMENTS
