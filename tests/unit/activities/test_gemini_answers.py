"""Gemini's responses, read and judged; lines of its batches; Google's errors in our classes."""

import orjson
import pytest
from groupage.activities.answers_gemini import read_line, read_reply, read_response
from groupage.activities.providers.google_errors import read_error
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.portable import translate

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
USAGE = {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 10, "totalTokenCount": 110}


def candidate(reason="STOP", parts=None, **more):
    parts = [{"text": "yes"}] if parts is None else parts
    content = {"content": {"role": "model", "parts": parts}} if parts else {}
    return {"index": 0, **content, **({"finishReason": reason} if reason else {}), **more}


def response(*candidates, **usage):
    return {
        "candidates": list(candidates) or [candidate()],
        "usageMetadata": USAGE | usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r-1",
    }


def line(**fields):
    return orjson.dumps({"key": WIRE, **fields}) + b"\n"


def test_an_answer_is_read():
    answer = read_line(line(response=response()), "/v1/chat/completions")
    assert (answer.wire_id, answer.outcome, answer.error_class, answer.text) == (WIRE, Outcome.succeeded, None, "yes")
    assert (answer.model, answer.request_id, answer.code) == ("gemini-2.5-flash", "r-1", "")
    assert answer.body == response()


def test_CO_06_thoughts_are_output_beside_the_candidates_and_cached_tokens_are_inside_the_prompt():
    usage = read_response(WIRE, response(thoughtsTokenCount=300, totalTokenCount=410)).usage
    assert (usage.input_tokens, usage.cached_tokens) == (100, 90)
    assert (usage.output_tokens, usage.reasoning_tokens) == (310, 300)


def test_CO_06_what_googles_own_tools_brought_in_is_input_beside_the_prompt():
    usage = read_response(WIRE, response(toolUsePromptTokenCount=50, totalTokenCount=160)).usage
    assert (usage.input_tokens, usage.output_tokens) == (150, 10)


def test_CO_06_counts_that_are_missing_or_odd_are_0_and_text_counts():
    body = response()
    body["usageMetadata"] = {"promptTokenCount": "12", "candidatesTokenCount": None, "thoughtsTokenCount": -1}
    usage = read_response(WIRE, body).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (12, 0, 0)


@pytest.mark.parametrize(
    ("given", "outcome", "code"),
    [
        (candidate("SAFETY", []), Outcome.refused, "SAFETY"),
        (candidate("RECITATION", []), Outcome.refused, "RECITATION"),
        (candidate("OTHER", []), Outcome.refused, "OTHER"),
        (candidate("STOP", []), Outcome.refused, "no_parts"),
        (candidate(None, []), Outcome.refused, "no_parts"),
        ({"content": {"role": "model"}, "finishReason": "STOP"}, Outcome.refused, "no_parts"),
        (
            {"content": {"role": "model", "parts": []}, "finishReason": "PROHIBITED_CONTENT"},
            Outcome.refused,
            "PROHIBITED_CONTENT",
        ),
        ({"content": {"role": "model", "parts": None}, "finishReason": "SPII"}, Outcome.refused, "SPII"),
        (candidate("STOP", [{"text": "hm", "thought": True}]), Outcome.refused, "no_parts"),
        # RP-14: thoughts used up the limit.
        (candidate("MAX_TOKENS", []), Outcome.truncated, "MAX_TOKENS"),
    ],
)
def test_RP_16_a_candidate_without_parts_is_no_empty_success(given, outcome, code):
    answer = read_response(WIRE, response(given))
    assert (answer.outcome, answer.error_class, answer.code, answer.text) == (outcome, None, code, None)
    assert answer.usage.input_tokens == 100, "it was paid"


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}, "SAFETY", "the prompt was blocked"),
        ({"promptFeedback": {"blockReason": "OTHER"}, "candidates": []}, "OTHER", "the prompt was blocked"),
        ({"promptFeedback": {"blockReason": "BLOCKLIST", "blockReasonMessage": "a word"}}, "BLOCKLIST", "a word"),
        ({"usageMetadata": USAGE, "modelVersion": "gemini-2.5-flash"}, "no_candidates", ""),
    ],
)
def test_RP_16_no_candidates_with_a_reason_is_a_refusal_with_that_reason(body, code, why):
    answer = read_line(line(response=body), "/generateContent")
    assert (answer.outcome, answer.error_class, answer.code, answer.text) == (Outcome.refused, None, code, None)
    assert why in answer.message


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("STOP", Outcome.succeeded),
        (None, Outcome.succeeded),
        ("FINISH_REASON_UNSPECIFIED", Outcome.succeeded),
        ("MAX_TOKENS", Outcome.truncated),
        ("CONTINUATION", Outcome.truncated),
        ("OTHER", Outcome.truncated),
        *((word, Outcome.refused) for word in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT")),
        *((word, Outcome.refused) for word in ("SPII", "IMAGE_SAFETY", "IMAGE_RECITATION", "MODEL_ARMOR")),
        *((word, Outcome.failed) for word in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NO_IMAGE")),
        ("SOMETHING_NEW", Outcome.succeeded),
    ],
)
def test_RP_14_RP_16_why_an_answer_ended_decides_its_outcome(reason, outcome):
    answer = read_response(WIRE, response(candidate(reason)))
    assert answer.outcome is outcome
    assert answer.outcome.answered == (answer.error_class is None)
    if reason == "SOMETHING_NEW":
        assert answer.code == "finish_SOMETHING_NEW"


def test_every_finish_reason_that_the_sdk_knows_has_its_place_in_the_table():
    from google.genai import types
    from groupage.activities import answers_gemini

    known = {
        word for name in ("_REFUSED", "_CUT_OFF", "_BROKEN", "_NO_REASON") for word in getattr(answers_gemini, name)
    }
    assert {reason.value for reason in types.FinishReason} - known == {"OTHER"}


def test_thoughts_are_no_part_of_the_text():
    parts = [{"text": "let me see", "thought": True}, {"text": "four"}, {"text": " it is", "thoughtSignature": "c2ln"}]
    assert read_response(WIRE, response(candidate(parts=parts))).text == "four it is"


def test_tool_calls_have_openais_shape_with_the_signature_where_google_puts_it():
    parts = [
        {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "g"}},
    ]
    answer = read_response(WIRE, response(candidate(parts=parts)))
    first, second = answer.tool_calls
    assert first == {
        "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }  # fmt: skip
    assert second == {"id": "call_r-1_1", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    assert (answer.outcome, answer.text) == (Outcome.succeeded, None)


def test_a_signature_finds_its_way_back_into_the_next_request():
    parts = [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]
    (call,) = read_response(WIRE, response(candidate(parts=parts))).tool_calls
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "done"},
    ]
    body = translate(
        "gemini", "gemini-3-flash", "/v1/chat/completions", {"model": "gemini-3-flash", "messages": history}
    )
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_of_several_candidates_the_first_speaks_and_one_cut_short_is_reported():
    answer = read_response(WIRE, response(candidate(), candidate("MAX_TOKENS", [{"text": "ye"}])))
    assert (answer.text, answer.outcome) == ("yes", Outcome.truncated)


@pytest.mark.parametrize(
    "body",
    [
        {"embedding": {"values": [0.1]}, "usageMetadata": {"promptTokenCount": 4}},
        {"embedding": {"values": [0.1]}, "tokenCount": "4"},
        {"embeddings": [{"values": [0.1]}], "tokenCount": 4},
    ],
)
def test_vectors_are_answers_without_text(body):
    answer = read_response(WIRE, body)
    assert (answer.outcome, answer.text, answer.usage.input_tokens) == (Outcome.succeeded, None, 4)


ERRORS = [
    ({"code": 3, "message": "bad"}, ErrorClass.invalid),
    ({"code": 400, "status": "INVALID_ARGUMENT", "message": "bad"}, ErrorClass.invalid),
    ({"code": 400, "message": "API key not valid. Please pass a valid API key."}, ErrorClass.account),
    ({"code": 400, "message": "User location is not supported for the API use."}, ErrorClass.account),
    ({"code": 5, "message": "models/x is not found"}, ErrorClass.invalid),
    ({"code": 7, "message": ""}, ErrorClass.forbidden),
    ({"code": 16, "message": ""}, ErrorClass.account),
    ({"code": 8, "message": "Resource has been exhausted"}, ErrorClass.rate_limit),
    ({"code": 8, "message": "Your prepayment credits are depleted."}, ErrorClass.account),
    ({"code": 4, "message": ""}, ErrorClass.transient),
    ({"code": 10, "message": ""}, ErrorClass.transient),
    ({"code": 13, "message": ""}, ErrorClass.transient),
    ({"code": 14, "message": "The model is overloaded."}, ErrorClass.transient),
    ({"code": 503, "status": "UNAVAILABLE", "message": ""}, ErrorClass.transient),
    ({"code": 12, "message": ""}, ErrorClass.invalid),
    ({"code": 3, "message": "Request payload size exceeds the limit: 20971520 bytes."}, ErrorClass.invalid),
    ({"code": 0, "message": ""}, ErrorClass.unknown),
    ({"code": 99, "message": "new"}, ErrorClass.unknown),
    ({"message": "no code"}, ErrorClass.unknown),
    ("a bare text", ErrorClass.unknown),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_errors_of_rows_are_classed_by_number_or_word(error, kind):
    answer = read_line(line(error=error), "")
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome.failed, kind)


def test_rows_that_their_batch_left_undone_are_not_their_own_fault():
    answer = read_line(line(error={"code": 1, "message": "The operation was cancelled."}), "")
    assert (answer.outcome, answer.error_class) == (Outcome.cancelled, ErrorClass.cancelled)
    answer = read_line(line(error={"code": 4, "message": "Batch expired before the request ran"}), "")
    assert (answer.outcome, answer.error_class) == (Outcome.expired, ErrorClass.expired)


VIOLATIONS = "type.googleapis.com/google.rpc.QuotaFailure"


@pytest.mark.parametrize(
    ("violation", "kind"),
    [
        ({"quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "10"}, ErrorClass.rate_limit),
        ({"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}, ErrorClass.quota),
        ({"quotaMetric": "generativelanguage.googleapis.com/batch_enqueued_tokens"}, ErrorClass.quota),
        ({"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier", "quotaValue": "0"}, ErrorClass.account),
    ],
)
def test_what_is_exhausted_tells_whether_waiting_helps(violation, kind):
    details = [
        {"@type": VIOLATIONS, "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"},
    ]
    error = {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota",
        "details": details,
    }
    found = read_error(429, [{"error": error}])
    assert (found.error_class, found.retry_after_s) == (kind, 34.07)
    assert read_reply(WIRE, 429, {"error": error}).retry_after_s == 34.07


def permission_denied(permission):
    """IAM's words for any permission that is lacking, whether or not the resource exists."""
    message = f"Permission '{permission}' denied on resource '//x.googleapis.com/y' (or it may not exist)."
    return {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": message}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            403,
            {
                "error": {
                    "code": 403,
                    "status": "PERMISSION_DENIED",
                    "message": "You do not have permission to access the File abc-1 or it may not exist.",
                }
            },
            ErrorClass.missing,
        ),
        (403, permission_denied("aiplatform.batchPredictionJobs.get"), ErrorClass.forbidden),
        (403, permission_denied("storage.objects.list"), ErrorClass.forbidden),
        (None, permission_denied("storage.objects.get")["error"], ErrorClass.forbidden),
        (404, {"error": {"code": 404, "status": "NOT_FOUND", "message": ""}}, ErrorClass.missing),
        (413, "<html>too large</html>", ErrorClass.too_large),
        (400, {"error": {"code": 400, "message": "", "details": [{"reason": "API_KEY_INVALID"}]}}, ErrorClass.account),
        (502, "<html>", ErrorClass.transient),
        (None, {"code": 8, "message": "Quota of enqueued tokens exceeded"}, ErrorClass.quota),
        (None, [], ErrorClass.unknown),
        (None, {"error": {"error": 7}}, ErrorClass.unknown),
        (418, {"error": {"details": "no list"}}, ErrorClass.invalid),
    ],
)
def test_TE_09_calls_are_classed_by_word_then_number_then_status(status, body, kind):
    assert read_error(status, body).error_class is kind


@pytest.mark.parametrize(
    ("raw", "wire", "code"),
    [
        (b"[1]\n", None, "not_an_object"),
        (b'{"response":{"candidates":7}}\n', None, "not_an_answer"),
        (line(), WIRE, "no_response"),
        (line(response={}), WIRE, "empty_body"),
        (line(response="text"), WIRE, "empty_body"),
        (line(response={"hello": 1}), WIRE, "not_an_answer"),
        (line(response={"candidates": [7]}), WIRE, "not_an_answer"),
        (line(response={"candidates": [{"content": {"parts": [7]}}]}), WIRE, "not_an_answer"),
        (line(response={"candidates": [], "embedding": {}}), WIRE, "not_an_answer"),
        (line(response=response())[:60] + b"\n", WIRE, "not_json"),
        (line(response=response())[:-2] + b"\xff}\n", WIRE, "not_utf8"),
        (b'{"key":7,"response":{}}\n', None, "empty_body"),
    ],
)
def test_RP_12_what_cannot_be_read_is_unreadable_and_never_raises(raw, wire, code):
    answer = read_line(raw, "")
    assert (answer.wire_id, answer.outcome, answer.code) == (wire, Outcome.unreadable, code)


def test_CO_05_what_cannot_be_read_is_counted_all_the_same():
    answer = read_response(WIRE, {"candidates": [7], "usageMetadata": USAGE})
    assert (answer.outcome, answer.usage.input_tokens) == (Outcome.unreadable, 100)


def test_a_bom_in_front_is_no_damage():
    assert read_line(b"\xef\xbb\xbf" + line(response=response()), "").text == "yes"


def test_RP_01_separators_of_unicode_stay_in_the_text():
    text = "a\u2028b\u0085c"
    assert read_line(line(response=response(candidate(parts=[{"text": text}]))), "").text == text
