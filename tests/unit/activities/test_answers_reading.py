"""Reading one line or one reply: the shape decides, and nothing raises."""

from typing import Any

import orjson
import pytest
from groupage.activities.answers import classify, read_batch_line, read_reply, read_usage
from groupage.schemas import ErrorClass, Outcome
from hypothesis import given
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
WIRE = "gk3v7q2-4f7xk2m5ab3cd-r0-s7-123"


def chat(content: Any = "four", finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1764400000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 60,
            "prompt_tokens_details": {"cached_tokens": 90},
            "completion_tokens_details": {"reasoning_tokens": 50},
        },
    }


def line(status: int = 200, body: Any = None, error: Any = None, **more: Any) -> bytes:
    row = {
        "id": "batch_req_1",
        "custom_id": WIRE,
        "response": {"status_code": status, "request_id": "q1", "body": body},
    }
    return orjson.dumps({**row, "error": error, **more})


def test_a_good_line_is_an_answer_with_text_model_and_usage():
    answer = read_batch_line(line(200, chat()), CHAT)
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome.succeeded, None)
    assert (answer.text, answer.model, answer.request_id) == ("four", "gpt-4o-mini-2024-07-18", "q1")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (100, 90)
    assert (answer.usage.output_tokens, answer.usage.reasoning_tokens) == (60, 50)


def test_RP_10_a_failed_line_with_a_null_error_is_not_a_success():
    body = {"error": {"message": "bad schema", "type": "invalid_request_error", "code": None}}
    answer = read_batch_line(line(400, body), CHAT)
    assert (answer.outcome, answer.error_class, answer.message) == (Outcome.failed, ErrorClass.invalid, "bad schema")


def test_RP_10_an_error_without_a_body_is_not_a_success():
    vllm = {
        "custom_id": WIRE,
        "response": {"status_code": 400, "request_id": "x", "body": None},
        "error": {"message": "too long"},
    }
    answer = read_batch_line(orjson.dumps(vllm), CHAT)
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome.failed, ErrorClass.invalid)


def test_RP_10_a_200_whose_body_is_an_error_is_not_a_success():
    answer = read_batch_line(line(200, {"error": {"message": "overloaded", "code": "server_error"}}), CHAT)
    assert (answer.outcome, answer.error_class) == (Outcome.failed, ErrorClass.transient)


def test_RP_11_status_zero_with_nothing_else_is_unknown_so_that_it_is_tried_again():
    for body in ({}, None, ""):
        answer = read_batch_line(line(0, body), CHAT)
        assert (answer.outcome, answer.error_class, answer.code) == (Outcome.failed, ErrorClass.unknown, "status_0")


@pytest.mark.parametrize(
    ("raw", "wire_id", "code"),
    [
        (line(200, {}), WIRE, "empty_body"),
        (line(200, chat()).replace(b"four", b"f\xff\xfer"), WIRE, "not_utf8"),
        (line(200, chat())[:-30], WIRE, "not_json"),
        (b'{"custom_id": "cut', None, "not_json"),
        (b"[1]", None, "not_an_object"),
        (b'"x"', None, "not_an_object"),
        (b"null", None, "not_an_object"),
        (b"", None, "not_json"),
        (line(200, {"choices": []}), WIRE, "not_an_answer"),
        (line(200, {"choices": [7]}), WIRE, "not_an_answer"),
        (line(200, "sorry"), WIRE, "empty_body"),
        (orjson.dumps({"custom_id": WIRE}), WIRE, "no_response"),
        (orjson.dumps({"custom_id": WIRE, "response": {"status_code": "200", "body": chat()}}), WIRE, "no_status"),
        (orjson.dumps({"custom_id": 7, "response": None}), None, "no_response"),
    ],
)
def test_RP_12_what_cannot_be_read_is_unreadable_and_keeps_the_id_it_has(raw, wire_id, code):
    answer = read_batch_line(raw, CHAT)
    assert (answer.outcome, answer.error_class) == (Outcome.unreadable, ErrorClass.unreadable)
    assert (answer.wire_id, answer.code) == (wire_id, code)


def test_an_id_is_not_taken_from_an_answers_text():
    quoted = line(200, chat('look: "custom_id": "gk3v7q2-4f7xk2m5ab3cd-r0-s7-999"'))
    assert read_batch_line(quoted[:-30], CHAT).wire_id == WIRE


def test_a_broken_line_with_two_ids_belongs_to_nobody():
    other = WIRE.replace("123", "124")
    raw = f'{{"custom_id": "{WIRE}", "custom_id": "{other}", '.encode()
    assert read_batch_line(raw, CHAT).wire_id is None


@pytest.mark.parametrize(
    ("endpoint", "body", "code"),
    [
        (CHAT, chat("half a", "length"), "length"),
        ("/v1/completions", {"choices": [{"text": "half a", "finish_reason": "length"}]}, "length"),
        (
            RESPONSES,
            {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "half a"}]}],
            },
            "max_output_tokens",
        ),
    ],
)
def test_RP_14_an_answer_cut_at_the_limit_is_truncated(endpoint, body, code):
    answer = read_reply(WIRE, endpoint, 200, body)
    assert (answer.outcome, answer.error_class, answer.text, answer.code) == (Outcome.truncated, None, "half a", code)


@pytest.mark.parametrize(
    ("endpoint", "status", "body"),
    [
        (CHAT, 200, chat("", "content_filter")),
        (CHAT, 200, chat(None, "stop", refusal="I can't help with that")),
        (CHAT, 400, {"error": {"code": "content_filter", "message": "filtered"}}),
        (CHAT, 400, {"error": {"code": "bad", "message": "m", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        (
            RESPONSES,
            200,
            {"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
        ),
        (RESPONSES, 200, {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}),
    ],
)
def test_RP_16_a_refusal_is_an_outcome_of_its_own(endpoint, status, body):
    answer = read_reply(WIRE, endpoint, status, body)
    assert (answer.outcome, answer.error_class) == (Outcome.refused, None)
    assert answer.code


def test_tool_calls_are_read_from_both_chat_shapes():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = read_reply(WIRE, CHAT, 200, chat(None, "tool_calls", tool_calls=[call]))
    assert (answer.outcome, answer.text, answer.tool_calls) == (Outcome.succeeded, None, [call])
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    answer = read_reply(WIRE, RESPONSES, 200, {"status": "completed", "output": [{"type": "reasoning"}, item]})
    assert (answer.outcome, answer.text, answer.tool_calls) == (Outcome.succeeded, None, [item])


def test_embeddings_and_moderations_are_answers_without_text():
    body = {"data": [{"embedding": [0.1], "index": 0}], "model": "e", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    answer = read_reply(WIRE, "/v1/embeddings", 200, body)
    assert (answer.outcome, answer.text, answer.model) == (Outcome.succeeded, None, "e")
    assert read_reply(WIRE, "/v1/moderations", 200, {"results": [{"flagged": False}]}).outcome is Outcome.succeeded
    assert read_reply(WIRE, "/v1/embeddings", 200, {"data": []}).outcome is Outcome.unreadable


def test_an_answer_of_another_endpoint_is_no_answer():
    assert read_reply(WIRE, "/v1/embeddings", 200, chat()).outcome is Outcome.unreadable


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (None, {"code": "batch_expired", "message": "m"}, ErrorClass.expired),
        (None, {"code": "batch_cancelled", "message": "m"}, ErrorClass.cancelled),
        (None, {"code": "request_timeout", "message": "m"}, ErrorClass.transient),
        (None, {"code": "token_limit_exceeded"}, ErrorClass.quota),
        (None, {"code": "brand_new_code"}, ErrorClass.unknown),
        (400, {"code": "context_length_exceeded"}, ErrorClass.invalid),
        (404, {"code": "model_not_found"}, ErrorClass.invalid),
        (413, "too big", ErrorClass.invalid),
        (401, {"code": "invalid_api_key"}, ErrorClass.account),
        (403, {"message": "no access"}, ErrorClass.forbidden),
        (429, {"code": "insufficient_quota"}, ErrorClass.account),
        (429, {"code": "rate_limit_exceeded"}, ErrorClass.rate_limit),
        (429, None, ErrorClass.rate_limit),
        (408, None, ErrorClass.transient),
        (409, None, ErrorClass.transient),
        (500, {"code": None, "type": "server_error"}, ErrorClass.transient),
        (503, None, ErrorClass.transient),  # TE-09: a bare 503 is no permanent error
        (529, "", ErrorClass.transient),
        (302, "moved", ErrorClass.unknown),
    ],
)
def test_the_class_of_an_error_is_ours(status, error, expected):
    assert classify(status, error)[0] is expected


@pytest.mark.parametrize(
    "error",
    [
        {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
        {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."},
        {"type": "Arrearage", "message": ""},
        {"message": "Access denied, please make sure your account is in good standing."},
        {"code": "organization_restricted", "type": "invalid_request_error", "message": "Organization restricted."},
        {"message": "This organization has been disabled."},
    ],
)
def test_QU_06_trouble_of_the_account_in_a_bad_request_is_the_accounts(error):
    assert classify(400, error)[0] is ErrorClass.account
    assert read_batch_line(line(400, {"error": error}), CHAT).error_class is ErrorClass.account


def test_usage_is_read_in_both_spellings_and_odd_values_count_nothing():
    usage = read_usage({"input_tokens": 7, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 5}})
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (7, 5, 2)
    odd = read_usage({"prompt_tokens": "many", "completion_tokens": -4, "prompt_tokens_details": []})
    assert odd is not None
    assert (odd.input_tokens, odd.output_tokens) == (0, 0)
    assert read_usage("free") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "content", "finish_reason", "output", "type", "status", "data", "usage", "error",
             "code", "results", "text", "prompt_tokens", "tool_calls", "refusal", "prompt_tokens_details", "x"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    body=JSON,
    error=JSON,
    status=st.sampled_from([200, 0, 400, 429, 500, None, "200"]),
    endpoint=st.sampled_from([CHAT, RESPONSES, "/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/other"]),
)
def test_no_shape_makes_reading_raise(body, error, status, endpoint):
    raw = orjson.dumps({"custom_id": WIRE, "response": {"status_code": status, "body": body}, "error": error})
    answer = read_batch_line(raw, endpoint)
    assert (answer.error_class is None) == answer.outcome.answered


@given(raw=st.binary(max_size=60))
def test_no_bytes_make_reading_raise(raw):
    answer = read_batch_line(raw, CHAT)
    assert not answer.outcome.answered
