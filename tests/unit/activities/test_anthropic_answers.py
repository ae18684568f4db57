"""Anthropic's result lines and messages, read by every documented type, and what stands for none of them."""

import orjson
import pytest
from anthropic.types.messages import MessageBatchIndividualResponse
from groupage.activities.answers_anthropic import read_message, read_reply, read_result_line, read_usage
from groupage.schemas import ErrorClass, Outcome, Usage
from hypothesis import given
from hypothesis import strategies as st

WIRE = "gk3v9q2-4f7xk2m9ab3cd-r0-s7-123".replace("9", "2")


def message(**fields):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }


def line(result, wire_id=WIRE):
    return orjson.dumps({"custom_id": wire_id, "result": result}) + b"\n"


def succeeded(**fields):
    return line({"type": "succeeded", "message": message(**fields)})


def errored(kind, text="it failed", **details):
    error = {"type": kind, "message": text} | ({"details": details} if details else {})
    return line({"type": "errored", "error": {"type": "error", "error": error, "request_id": "req_7"}})


@pytest.mark.parametrize(
    ("stop", "outcome", "code"),
    [
        ("end_turn", Outcome.succeeded, ""),
        ("stop_sequence", Outcome.succeeded, ""),
        ("tool_use", Outcome.succeeded, ""),
        ("max_tokens", Outcome.truncated, "max_tokens"),
        ("model_context_window_exceeded", Outcome.truncated, "model_context_window_exceeded"),
        ("pause_turn", Outcome.truncated, "pause_turn"),
        ("refusal", Outcome.refused, "refusal"),
        ("a_reason_of_tomorrow", Outcome.succeeded, "stop_a_reason_of_tomorrow"),
        (None, Outcome.succeeded, "stop_None"),
    ],
)
def test_RP_14_the_stop_reason_says_how_an_answer_ended(stop, outcome, code):
    raw = succeeded(stop_reason=stop)
    answer = read_result_line(raw)
    assert (answer.outcome, answer.code, answer.error_class) == (outcome, code, None)
    assert answer.wire_id == WIRE
    assert answer.text == "Hello"
    assert answer.model == "claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("kind", "error_class"),
    [
        ("invalid_request_error", ErrorClass.invalid),
        ("not_found_error", ErrorClass.invalid),
        ("authentication_error", ErrorClass.account),
        ("permission_error", ErrorClass.forbidden),
        ("billing_error", ErrorClass.account),
        ("request_too_large", ErrorClass.too_large),
        ("rate_limit_error", ErrorClass.rate_limit),
        ("timeout_error", ErrorClass.transient),
        ("api_error", ErrorClass.transient),
        ("overloaded_error", ErrorClass.transient),
        ("an_error_of_tomorrow", ErrorClass.unknown),
    ],
)
def test_RP_17_an_errored_line_keeps_its_class_code_and_text(kind, error_class):
    raw = errored(kind)
    answer = read_result_line(raw)
    assert (answer.outcome, answer.error_class) == (Outcome.failed, error_class)
    assert (answer.code, answer.message, answer.request_id) == (kind, "it failed", "req_7")
    if kind not in {"request_too_large", "an_error_of_tomorrow"}:
        MessageBatchIndividualResponse.model_validate_json(raw)


@pytest.mark.parametrize(
    ("result", "outcome", "error_class"),
    [
        ({"type": "canceled"}, Outcome.cancelled, ErrorClass.cancelled),
        ({"type": "expired"}, Outcome.expired, ErrorClass.expired),
        ({"type": "paused", "why": "tea"}, Outcome.failed, ErrorClass.unknown),
        ({"type": None}, Outcome.failed, ErrorClass.unknown),
        ({"type": ["errored"]}, Outcome.failed, ErrorClass.unknown),
        ({}, Outcome.failed, ErrorClass.unknown),
        ({"type": "errored"}, Outcome.failed, ErrorClass.unknown),
        ({"type": "errored", "error": None}, Outcome.failed, ErrorClass.unknown),
        ({"type": "errored", "error": "boom"}, Outcome.failed, ErrorClass.unknown),
        ({"type": "succeeded"}, Outcome.unreadable, ErrorClass.unreadable),
        ({"type": "succeeded", "message": {}}, Outcome.unreadable, ErrorClass.unreadable),
        ({"type": "succeeded", "message": {"content": "text"}}, Outcome.unreadable, ErrorClass.unreadable),
        ({"type": "succeeded", "message": {"content": ["text"]}}, Outcome.unreadable, ErrorClass.unreadable),
        ({"type": "succeeded", "message": [1]}, Outcome.unreadable, ErrorClass.unreadable),
    ],
)
def test_RP_17_every_other_result_has_an_outcome_and_its_id(result, outcome, error_class):
    answer = read_result_line(line(result))
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, outcome, error_class)


def test_an_unknown_result_is_kept_whole():
    answer = read_result_line(line({"type": "paused", "why": "tea"}))
    assert answer.body == {"type": "paused", "why": "tea"}
    assert answer.code == "result_paused"


@pytest.mark.parametrize(
    ("raw", "wire_id", "code"),
    [
        (b"[1]\n", None, "not_an_object"),
        (b"null\n", None, "not_an_object"),
        (b'{"custom_id":"a"}\n', "a", "no_result"),
        (b'{"custom_id":7,"result":[]}\n', None, "no_result"),
        (b'{"custom_id":"%b","result":{"type"' % WIRE.encode(), WIRE, "not_json"),
        (b'{"custom_id":"%b","result":\xff' % WIRE.encode(), WIRE, "not_utf8"),
        (b"", None, "not_json"),
    ],
)
def test_a_line_that_cannot_be_read_is_unreadable(raw, wire_id, code):
    answer = read_result_line(raw)
    assert (answer.wire_id, answer.code, answer.outcome) == (wire_id, code, Outcome.unreadable)


def test_QU_06_a_credit_text_is_the_accounts_trouble_and_not_the_prompts():
    raw = errored("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")
    assert read_result_line(raw).error_class is ErrorClass.account
    limit = errored("rate_limit_error", "You have reached it.", error_code="enforced_spend_limit_reached")
    answer = read_result_line(limit)
    assert (answer.error_class, answer.code) == (ErrorClass.account, "enforced_spend_limit_reached")


def test_tools_are_told_in_openais_shape_and_text_beside_them_is_kept():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Let me "},
        {"type": "text", "text": "look."},
        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": "é", "n": 1}},
    ]
    answer = read_message(WIRE, message(content=content, stop_reason="tool_use"))
    assert answer.text == "Let me look."
    (call,) = answer.tool_calls
    assert (call["id"], call["type"], call["function"]["name"]) == ("toolu_1", "function", "find")
    assert orjson.loads(call["function"]["arguments"]) == {"q": "é", "n": 1}
    only = read_message(WIRE, message(content=content[3:], stop_reason="tool_use"))
    assert only.text is None


def test_an_answer_without_content_is_an_empty_answer_and_a_refusal_says_nothing():
    assert read_message(WIRE, message(content=[])).text == ""
    refused = message(
        content=[], stop_reason="refusal", stop_details={"type": "refusal", "category": "bio", "explanation": "no"}
    )
    answer = read_message(WIRE, refused)
    assert (answer.outcome, answer.code, answer.message, answer.text) == (Outcome.refused, "bio", "no", None)


def test_CO_06_what_touched_the_cache_is_part_of_the_input_and_thinking_part_of_the_output():
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50},
        "output_tokens": 70,
        "output_tokens_details": {"thinking_tokens": 60},
        "service_tier": "batch",
    }
    read = read_usage(usage)
    assert read.input_tokens == 3210
    assert (read.cached_tokens, read.cache_write_tokens) == (3000, 200)
    assert (read.output_tokens, read.reasoning_tokens) == (70, 60)
    assert read_usage({"input_tokens": None, "output_tokens": "5", "output_tokens_details": None}) == Usage()
    assert read_usage(None) is None


@pytest.mark.parametrize("told", [{}, {"cache_creation_input_tokens": 0}, {"cache_creation_input_tokens": None}])
def test_CO_06_what_was_written_to_the_cache_is_counted_where_only_its_parts_are_told(told):
    parts = {"ephemeral_1h_input_tokens": 50, "ephemeral_5m_input_tokens": 7}
    read = read_usage({"input_tokens": 1, "cache_creation": parts, **told})
    assert (read.input_tokens, read.cache_write_tokens, read.cache_write_1h_tokens) == (58, 57, 50)


def test_a_reply_is_judged_by_its_status_first():
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    answer = read_reply(WIRE, 529, body, "req_1")
    assert (answer.outcome, answer.error_class, answer.code) == (
        Outcome.failed,
        ErrorClass.transient,
        "overloaded_error",
    )
    assert read_reply(WIRE, 200, message(), "req_2").request_id == "req_2"
    assert read_reply(WIRE, 502, "<html>").error_class is ErrorClass.transient


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "content", "error", "text", "usage", "message", "result"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_nothing_that_a_line_may_hold_raises(value):
    for raw in (orjson.dumps(value), line(value), line({"type": "succeeded", "message": value})):
        answer = read_result_line(raw)
        assert answer.outcome in Outcome
    assert read_message(WIRE, message(content=value)).wire_id == WIRE
    assert read_reply(None, 400, value).error_class is not None
