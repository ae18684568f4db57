"""An error beside a response or an output: where the model has said nothing, the error counts, and else the answer.

It was a refusal, which is an answer: the request was never asked again.
"""

import orjson
import pytest
from groupage.activities.answers_bedrock import read_line as read_bedrock
from groupage.activities.answers_gemini import read_line as read_gemini
from groupage.activities.answers_vertex import read_line as read_vertex
from groupage.schemas import ErrorClass, Outcome

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
CLAUDE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "yes"}],
    "stop_reason": "end_turn",
}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}]}
SILENT = {"usageMetadata": {"promptTokenCount": 7}, "modelVersion": "m"}
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}}
INTERNAL = {"code": 13, "message": "Internal error"}
ANSWERED = [(GEMINI, Outcome.succeeded), (BLOCKED, Outcome.refused), (CLAUDE, Outcome.succeeded)]


def gemini(response):
    return read_gemini(orjson.dumps({"key": WIRE, "response": response, "error": INTERNAL}), "/generateContent")


def vertex(response, **told):
    request = {"contents": [], "labels": {"groupage_id": WIRE}}
    return read_vertex(orjson.dumps({"request": request, "response": response, "status": "", **told}), "")


def bedrock(output):
    error = {"errorCode": 500, "errorMessage": "oops"}
    return read_bedrock(orjson.dumps({"recordId": WIRE, "modelOutput": output, "error": error}), "/invoke")


def is_passing(answer):
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome.failed, ErrorClass.transient)
    assert answer.usage.input_tokens == 7, "what was billed is counted"


def test_geminis_error_counts_where_nothing_is_said():
    is_passing(gemini(SILENT))
    assert gemini(SILENT).model == "m"
    for response, outcome in ANSWERED[:2]:
        assert gemini(response).outcome is outcome


@pytest.mark.parametrize("told", [{"status": "UNAVAILABLE"}, {"error": INTERNAL}], ids=["status", "error"])
def test_vertexs_error_counts_where_nothing_is_said(told):
    is_passing(vertex(SILENT, **told))
    for response, outcome in ANSWERED:
        assert vertex(response, **told).outcome is outcome


def test_bedrocks_error_counts_where_nothing_is_said():
    is_passing(bedrock({"usage": {"input_tokens": 7}}))
    assert bedrock(CLAUDE).outcome is Outcome.succeeded
