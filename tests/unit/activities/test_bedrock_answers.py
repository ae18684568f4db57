"""Every family's output, read and judged; damaged lines; errors of records."""

import orjson
import pytest
from groupage.activities.answers_bedrock import read_line, read_output, usage_of_headers
from groupage.schemas import ErrorClass, Outcome

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"


def line(**fields):
    return orjson.dumps({"recordId": WIRE, "modelInput": {"messages": []}, **fields}) + b"\n"


def claude(stop="end_turn", content=None, **usage):
    content = [{"type": "text", "text": "yes"}] if content is None else content
    message = {"type": "message", "role": "assistant", "model": "claude-x", "content": content, "stop_reason": stop}
    return message | {"usage": {"input_tokens": 10, "output_tokens": 3, **usage}}


def converse(stop="end_turn", content=None, **usage):
    content = [{"text": "yes"}] if content is None else content
    message = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop}
    return message | {"usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13, **usage}}


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
OUTPUTS = {
    "claude": claude(),
    "converse": converse(),
    "openai": {"choices": [CHOICE], "usage": {"prompt_tokens": 10, "completion_tokens": 3}},
    "llama": {"generation": "yes", "prompt_token_count": 10, "generation_token_count": 3, "stop_reason": "stop"},
    "titan": {
        "inputTextTokenCount": 10,
        "results": [{"tokenCount": 3, "outputText": "yes", "completionReason": "FINISH"}],
    },
    "mistral": {"outputs": [{"text": "yes", "stop_reason": "stop"}]},
    "command": {"text": "yes", "finish_reason": "COMPLETE"},
    "generations": {"generations": [{"text": "yes", "finish_reason": "COMPLETE"}]},
    "deepseek": {"choices": [{"text": "yes", "stop_reason": "stop"}]},
}


@pytest.mark.parametrize("family", OUTPUTS)
def test_the_answer_of_every_family_is_read(family):
    answer = read_line(line(modelOutput=OUTPUTS[family]), "/v1/chat/completions")
    assert (answer.wire_id, answer.outcome, answer.error_class, answer.text) == (WIRE, Outcome.succeeded, None, "yes")
    assert answer.body == OUTPUTS[family]
    assert answer.model is None, "the model that was asked names version and region; prices go by it"
    if family not in {"mistral", "command", "generations", "deepseek"}:
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 3)


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        (claude("max_tokens"), Outcome.truncated),
        (claude("model_context_window_exceeded"), Outcome.truncated),
        (claude("pause_turn"), Outcome.truncated),
        (claude("refusal", []), Outcome.refused),
        (claude("stop_sequence"), Outcome.succeeded),
        (converse("max_tokens"), Outcome.truncated),
        (converse("guardrail_intervened"), Outcome.refused),
        (converse("content_filtered", []), Outcome.refused),
        (converse("malformed_tool_use", []), Outcome.failed),
        ({**OUTPUTS["llama"], "stop_reason": "length"}, Outcome.truncated),
        ({**OUTPUTS["llama"], "amazon-bedrock-guardrailAction": "INTERVENED"}, Outcome.refused),
        ({**OUTPUTS["llama"], "amazon-bedrock-guardrailAction": "NONE"}, Outcome.succeeded),
        ({"results": [{"outputText": "", "completionReason": "CONTENT_FILTERED"}]}, Outcome.refused),
        ({"results": [{"outputText": "ye", "completionReason": "LENGTH"}]}, Outcome.truncated),
        ({"outputs": [{"text": "ye", "stop_reason": "length"}]}, Outcome.truncated),
        ({"text": "ye", "finish_reason": "MAX_TOKENS"}, Outcome.truncated),
        ({"text": "", "finish_reason": "ERROR_TOXIC"}, Outcome.refused),
        ({"choices": [CHOICE | {"finish_reason": "length"}]}, Outcome.truncated),
        ({"choices": [CHOICE | {"finish_reason": "content_filter"}]}, Outcome.refused),
    ],
)
def test_RP_14_RP_16_why_an_answer_ended_decides_its_outcome(output, outcome):
    answer = read_output(WIRE, output)
    assert answer.outcome is outcome
    assert answer.outcome.answered == (answer.error_class is None)


def test_a_reason_that_is_not_known_is_told_and_no_known_one_is():
    for output in (claude("brand_new"), converse("brand_new"), OUTPUTS["llama"] | {"stop_reason": "brand_new"}):
        answer = read_output(WIRE, output)
        assert (answer.outcome, answer.code) == (Outcome.succeeded, "stop_brand_new")
        assert "brand_new" in answer.message
    for output in OUTPUTS.values():
        assert read_output(WIRE, output).code == ""
    # Here it may be the stop sequence that was met.
    assert read_output(WIRE, {"choices": [CHOICE | {"stop_reason": "END"}]}).code == ""


def test_an_answer_of_llamas_that_is_null_has_no_text():
    answer = read_output(WIRE, OUTPUTS["llama"] | {"generation": None})
    assert (answer.outcome, answer.text) == (Outcome.succeeded, None)
    assert read_output(WIRE, OUTPUTS["llama"] | {"generation": {"a": 1}}).outcome is Outcome.unreadable


def test_CO_06_what_is_cached_for_an_hour_is_counted_of_what_is_written():
    hours = {"ephemeral_1h_input_tokens": 4, "ephemeral_5m_input_tokens": 1}
    usage = read_output(WIRE, claude(cache_creation_input_tokens=5, cache_creation=hours)).usage
    assert (usage.input_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens) == (15, 5, 4)
    assert read_output(WIRE, claude(cache_creation=hours)).usage == usage
    details = [{"ttl": "1h", "inputTokens": 3}, {"ttl": "5m", "inputTokens": 2}, "odd"]
    usage = read_output(WIRE, converse(cacheWriteInputTokens=5, cacheDetails=details)).usage
    assert (usage.input_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens) == (15, 5, 3)


def test_CO_06_tokens_from_and_to_the_cache_are_part_of_the_input():
    usage = read_output(WIRE, claude(cache_read_input_tokens=90, cache_creation_input_tokens=5)).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (105, 90, 5)
    usage = read_output(WIRE, converse(cacheReadInputTokens=90, cacheWriteInputTokens=5)).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (105, 90, 5)
    usage = read_output(WIRE, converse(cacheReadInputTokenCount=90, cacheWriteInputTokenCount=0)).usage
    assert (usage.input_tokens, usage.cached_tokens) == (100, 90)
    usage = read_output(WIRE, claude(output_tokens=30, output_tokens_details={"thinking_tokens": 20})).usage
    assert (usage.output_tokens, usage.reasoning_tokens) == (30, 20)


def test_tool_calls_have_openais_shape():
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]
    answer = read_output(WIRE, claude("tool_use", blocks))
    wanted = [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    assert (answer.outcome, answer.text, answer.tool_calls) == (Outcome.succeeded, None, wanted)
    use = [{"text": "so"}, {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}}]
    answer = read_output(WIRE, converse("tool_use", use))
    assert (answer.text, answer.tool_calls) == ("so", wanted)


@pytest.mark.parametrize("output", [{"embedding": [0.1], "inputTextTokenCount": 4}, {"embeddings": [[0.1]]}])
def test_vectors_are_answers_without_text(output):
    answer = read_output(WIRE, output)
    assert (answer.outcome, answer.text) == (Outcome.succeeded, None)
    assert usage_of_headers({"x-amzn-bedrock-input-token-count": "4"}).input_tokens == 4
    assert usage_of_headers({}) is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"errorCode": 400, "errorMessage": "max_tokens: Field required"}, ErrorClass.invalid),
        ({"errorCode": "400", "errorMessage": "bad"}, ErrorClass.invalid),
        (
            {"errorCode": 400, "errorMessage": "Too many tokens, please wait before trying again."},
            ErrorClass.rate_limit,
        ),
        ({"errorCode": 400, "errorMessage": "Input exceeds the maximum size"}, ErrorClass.invalid),
        ({"errorCode": 403, "errorMessage": "no access"}, ErrorClass.forbidden),
        ({"errorCode": 403, "errorMessage": "INVALID_PAYMENT_INSTRUMENT"}, ErrorClass.account),
        ({"errorCode": 408, "errorMessage": ""}, ErrorClass.transient),
        ({"errorCode": 424, "errorMessage": ""}, ErrorClass.transient),
        ({"errorCode": 429, "errorMessage": "slow down"}, ErrorClass.rate_limit),
        ({"errorCode": 500, "errorMessage": "oops"}, ErrorClass.transient),
        ({"errorCode": 0, "errorMessage": ""}, ErrorClass.unknown),
        ({"errorCode": "ThrottlingException", "errorMessage": ""}, ErrorClass.rate_limit),
        ({"errorCode": "NobodyKnows", "errorMessage": ""}, ErrorClass.unknown),
        ({"errorMessage": "no code"}, ErrorClass.unknown),
        ("a bare text", ErrorClass.unknown),
    ],
)
def test_errors_of_records_are_classed(error, kind):
    answer = read_line(line(error=error), "")
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome.failed, kind)


def test_records_that_their_job_left_undone_are_not_their_own_fault():
    answer = read_line(line(error={"errorCode": 400, "errorMessage": "The batch job was stopped."}), "")
    assert (answer.outcome, answer.error_class) == (Outcome.cancelled, ErrorClass.cancelled)
    answer = read_line(line(error={"errorCode": 408, "errorMessage": "Job expired before the record ran"}), "")
    assert (answer.outcome, answer.error_class) == (Outcome.expired, ErrorClass.expired)


@pytest.mark.parametrize(
    ("raw", "wire", "code"),
    [
        (b"[1]\n", None, "not_an_object"),
        (b'{"modelOutput":{"content":[]}}\n', None, "not_an_answer"),
        (line(), WIRE, "no_output"),
        (line(modelOutput={}), WIRE, "empty_body"),
        (line(modelOutput="text"), WIRE, "empty_body"),
        (line(modelOutput={"hello": 1}), WIRE, "not_an_answer"),
        (line(modelOutput={"content": [7], "role": "assistant"}), WIRE, "not_an_answer"),
        (line(modelOutput={"choices": []}), WIRE, "not_an_answer"),
        (line(modelOutput=claude())[:60] + b"\n", WIRE, "not_json"),
        (line(modelOutput=claude())[:-2] + b"\xff}\n", WIRE, "not_utf8"),
        (b'{"recordId":7,"modelOutput":{}}\n', None, "empty_body"),
    ],
)
def test_RP_12_what_cannot_be_read_is_unreadable_and_never_raises(raw, wire, code):
    answer = read_line(raw, "")
    assert (answer.wire_id, answer.outcome, answer.code) == (wire, Outcome.unreadable, code)


def test_a_bom_in_front_is_no_damage():
    assert read_line(b"\xef\xbb\xbf" + line(modelOutput=claude()), "").text == "yes"


def test_RP_01_separators_of_unicode_stay_in_the_text():
    text = "a\u2028b\u0085c"
    assert read_line(line(modelOutput=claude(content=[{"type": "text", "text": text}])), "").text == text
