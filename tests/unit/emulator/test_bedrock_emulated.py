"""The emulated Bedrock's pure parts: questions behind native bodies, replies by family, lines under faults."""

import orjson
import pytest
from groupage.emulator import answers
from groupage.emulator.answers import BadBody
from groupage.emulator.bedrock.answers import answerer, expected_text, question_of, reply_to
from groupage.emulator.bedrock.lines import DIALECT
from groupage.emulator.dialects import dialect_of
from groupage.emulator.faults import RequestRule
from groupage.schemas.portable import target_endpoint, translate

CHAT = "/v1/chat/completions"
MODELS = (
    "anthropic.claude-haiku-4-5-20251001-v1:0", "amazon.nova-lite-v1:0", "meta.llama3-1-8b-instruct-v1:0",
    "openai.gpt-oss-20b-1:0",
)  # fmt: skip
PORTABLE = {
    "messages": [{"role": "system", "content": "be terse"}, {"role": "user", "content": "what is 2 + 2?"}],
    "max_tokens": 60,
}


def record_of(model, body=None):
    portable = {"model": model, **(body or PORTABLE)}
    target = target_endpoint("bedrock", model, CHAT)
    native = translate("bedrock", model, CHAT, portable)
    return {"model": model, "target": target, "recordId": "r-1", "modelInput": native}


@pytest.mark.parametrize("model", MODELS)
def test_a_portable_request_asks_the_same_question_in_every_dialect(model):
    record = record_of(model)
    assert question_of(record) == answers.question_of(CHAT, {"model": model, **PORTABLE})
    assert expected_text(record) == answers.expected_text(CHAT, {"model": model, **PORTABLE})


@pytest.mark.parametrize(
    ("model", "body", "key"),
    [
        ("meta.llama3-1-8b-instruct-v1:0", {"prompt": "hi", "max_gen_len": 20}, "generation"),
        ("amazon.titan-text-express-v1", {"inputText": "hi"}, "results"),
        ("mistral.mistral-7b-instruct-v0:2", {"prompt": "hi"}, "outputs"),
        ("cohere.command-r-v1:0", {"message": "hi"}, "text"),
        ("amazon.titan-embed-text-v2:0", {"inputText": "hi", "dimensions": 16}, "embedding"),
        ("cohere.embed-english-v3", {"texts": ["hi", "ho"], "input_type": "search_query"}, "embeddings"),
    ],
)
def test_families_with_bodies_of_their_own_are_answered_in_their_shape(model, body, key):
    assert key in orjson.loads(reply_to(model, "/invoke", body, 0, 100, batch=True).body)


@pytest.mark.parametrize(
    ("model", "target", "body"),
    [
        (MODELS[0], "/invoke", {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}),
        (
            MODELS[0],
            "/invoke",
            {"anthropic_version": "bedrock-2023-05-31", "messages": [{"role": "user", "content": "x"}]},
        ),
        (MODELS[0], "/invoke", {"model": "x"}),
        (MODELS[1], "/converse", {"messages": []}),
        (MODELS[1], "/converse", {"messages": [{"role": "user", "content": [{"text": "x"}]}], "toolConfig": {}}),
        (MODELS[2], "/invoke", {"prompt": ""}),
        (MODELS[1], "/converse", {"messages": [7]}),
    ],
)
def test_bodies_that_bedrock_would_refuse_are_refused(model, target, body):
    with pytest.raises(BadBody):
        reply_to(model, target, body, 0, 100, batch=True)


def healthy():
    made = answerer(100)(record_of(MODELS[0]), 0)
    return DIALECT.result(b'"r-1"', "code", 0, made.body)


def test_lines_echo_their_input_and_errors_too():
    row = orjson.loads(healthy())
    assert list(row) == ["recordId", "modelInput", "modelOutput"]
    with pytest.raises(BadBody) as error:
        answerer(100)({"model": MODELS[0], "target": "/invoke", "modelInput": {"a": 1}}, 0)
    refused = orjson.loads(DIALECT.refused(b'"r-1"', "code", 0, error.value))
    assert refused["modelInput"] == {"a": 1}
    assert refused["error"]["errorCode"] == 400


@pytest.mark.parametrize("kind", ["http", "credit", "status_zero", "empty_body", "truncated", "refused"])
def test_faults_replace_the_output_of_a_line_and_nothing_else(kind):
    (line,), errors = DIALECT.faulty(RequestRule(kind=kind, share=1), healthy())
    row, good = orjson.loads(line), orjson.loads(healthy())
    assert errors == []
    assert (row["recordId"], row["modelInput"]) == ("r-1", good["modelInput"])
    assert row.get("modelOutput") != good["modelOutput"]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("missing", 0),
        ("expired", 0),
        ("duplicate", 2),
        ("unknown_id", 2),
        ("malformed", 1),
        ("not_an_object", 1),
        ("invalid_utf8", 1),
    ],
)
def test_faults_of_whole_lines(kind, count):
    lines, _ = DIALECT.faulty(RequestRule(kind=kind, share=1), healthy())
    assert len(lines) == count
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)


def test_records_that_did_not_run_have_no_line():
    assert DIALECT.unfinished(healthy(), "expired") == b""
    assert dialect_of("bedrock") is DIALECT
