"""Rows and replies of Vertex: whose they are, what they say, what they repeat."""

import orjson
import pytest
from groupage.activities.answers_vertex import read_line, read_reply, status_error
from groupage.activities.providers.native_bodies import native_body
from groupage.activities.providers.vertex_bodies import echo_of, labelled
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
REQUEST = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "yes"}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 5,
        "cachedContentTokenCount": 4,
    },
    "modelVersion": "gemini-2.5-flash",
}
CLAUDE = {
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5-20251001",
    "content": [{"type": "text", "text": "yes"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 3},
}


def row(**fields):
    return orjson.dumps({"request": REQUEST | {"labels": {"groupage_id": WIRE}}, "status": "", **fields}) + b"\n"


def test_a_row_of_geminis_is_joined_by_its_label_and_read_with_thoughts_and_cached_tokens():
    answer = read_line(row(response=GEMINI, processed_time="2026-11-29T00:00:00Z"), "/generateContent")
    assert (answer.wire_id, answer.outcome, answer.error_class, answer.text) == (WIRE, Outcome.succeeded, None, "yes")
    usage = answer.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (10, 4, 8, 5)
    assert (answer.echo, answer.says_nothing) == (None, False), "with an id nothing else is asked"


def test_a_row_of_claudes_is_joined_by_its_custom_id():
    line = orjson.dumps({"custom_id": WIRE, "request": {"messages": []}, "response": CLAUDE, "status": ""})
    answer = read_line(line, "/rawPredict")
    assert (answer.wire_id, answer.outcome, answer.text) == (WIRE, Outcome.succeeded, "yes")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 3)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"custom_id": WIRE}, WIRE),
        ({"wire_id": WIRE}, WIRE),
        ({"custom_id": "theirs", "wire_id": WIRE}, WIRE),
        ({"custom_id": "theirs"}, "theirs"),
        ({"custom_id": 7}, None),
        ({"request": REQUEST}, None),
        ({"request": REQUEST | {"labels": {"team": "a"}}}, None),
        ({"request": REQUEST | {"labels": {"groupage_id": "theirs"}}}, "theirs"),
        ({"request": REQUEST | {"labels": None}}, None),
        ({}, None),
    ],
)
def test_the_id_is_ours_wherever_it_stands_and_a_foreign_one_is_seen_as_foreign(fields, found):
    answer = read_line(orjson.dumps({"response": GEMINI, **fields}), "")
    assert answer.wire_id == found
    assert (answer.echo is not None) == (found is None and "request" in fields)


@pytest.mark.parametrize(
    ("status", "outcome", "kind"),
    [
        ('Bad Request: {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}', "failed", "invalid"),
        ('{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}', "failed", "rate_limit"),
        ("RESOURCE_EXHAUSTED: try later", "failed", "rate_limit"),
        ("Too Many Requests", "failed", "rate_limit"),
        ("error 503 of the backend", "failed", "transient"),
        ("Internal Server Error: {broken", "failed", "transient"),
        ("PERMISSION_DENIED", "failed", "forbidden"),
        ("NOT_FOUND: no such model", "failed", "invalid"),
        ({"code": 14, "message": "overloaded"}, "failed", "transient"),
        ("CANCELLED", "cancelled", "cancelled"),
        ("something", "failed", "unknown"),
        (7, "failed", "unknown"),
    ],
)
@pytest.mark.parametrize("response", [None, {}, ""])
def test_what_failed_says_so_in_its_status(status, outcome, kind, response):
    answer = read_line(row(status=status, response=response), "")
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, Outcome(outcome), ErrorClass(kind))


def test_a_status_keeps_the_providers_own_words():
    answer = read_line(row(status='Bad Request: {"error": {"code": 400, "message": "why"}}'), "")
    assert (answer.code, answer.message) == ("http_400", "why")
    assert read_line(row(status="odd thing happened"), "").message == "odd thing happened"
    assert status_error("Gateway Timeout")["code"] == 504


def test_an_answer_beside_a_status_is_an_answer():
    assert read_line(row(status="warning", response=GEMINI), "").outcome is Outcome.succeeded


def test_errors_of_claudes_own_are_read_as_such():
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    assert read_line(row(response=overloaded), "").error_class is ErrorClass.transient
    assert read_reply(WIRE, 529, overloaded, claude=True).error_class is ErrorClass.transient
    invalid = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    assert read_reply(WIRE, 400, invalid, claude=True).error_class is ErrorClass.invalid
    google = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}
    assert read_reply(WIRE, 429, [google], claude=True).error_class is ErrorClass.rate_limit


def test_EX_a_row_with_nothing_but_the_request_says_nothing():
    for empty in ({}, {"response": None}, {"status": None}, {"response": {}, "status": "", "processed_time": ""}):
        answer = read_line(orjson.dumps({"request": REQUEST | {"labels": {"groupage_id": WIRE}}, **empty}), "")
        assert (answer.says_nothing, answer.wire_id) == (True, None)


@pytest.mark.parametrize(
    ("body", "code", "wire_id"),
    [
        (row(response=GEMINI)[:-20] + b"\n", "not_json", WIRE),
        (row(response=GEMINI).replace(b"yes", b"\xff\xfe"), "not_utf8", WIRE),
        (b'["no object"]', "not_an_object", None),
        (b"{}", "no_response", None),
        (b"7", "not_an_object", None),
        (row(response={}, processed_time="2026-11-29T00:00:00Z"), "empty_body", WIRE),
        (row(response={"odd": 1}), "not_an_answer", WIRE),
        (row(response="text"), "empty_body", WIRE),
        (b'{"a":"\\"groupage_id\\":\\"x\\""', "not_json", None),
        (b'{"groupage_id":"%b","wire_id":"%b' % (WIRE.encode(), b"gzzzzzz-abcdefghijklm-r0-s0-7"), "not_json", WIRE),
    ],
)
def test_RP_12_damaged_rows_are_unreadable_and_keep_an_id_that_is_beyond_doubt(body, code, wire_id):
    answer = read_line(body, "")
    assert (answer.outcome, answer.code, answer.wire_id) == (Outcome.unreadable, code, wire_id)


def test_a_byte_order_mark_is_no_damage():
    assert read_line(b"\xef\xbb\xbf" + row(response=GEMINI), "").outcome is Outcome.succeeded


# ----- bodies -----


def test_our_label_stands_beside_a_bodys_own():
    ours = {"groupage_id": WIRE}
    for given, labels in (
        (REQUEST, ours),
        ({}, ours),
        (REQUEST | {"labels": {"team": "a"}}, {"team": "a", **ours}),
        (REQUEST | {"labels": {}}, ours),
        (REQUEST | {"labels": None}, ours),
        ({"contents": [{"parts": [{"functionCall": {"args": {"labels": 1}}}]}]}, ours),
    ):
        assert orjson.loads(labelled(WIRE, orjson.dumps(given))) == given | {"labels": labels}


def test_a_body_without_room_for_a_label_goes_as_it_is_and_is_joined_by_what_it_asks():
    full = REQUEST | {"labels": {f"k{n}": "v" for n in range(64)}}
    for request in (full, REQUEST | {"labels": ["odd"]}):
        text = orjson.dumps(request)
        assert labelled(WIRE, text) == text
        assert read_line(orjson.dumps({"request": request, "response": GEMINI}), "").echo == echo_of(request)


def test_numbers_of_any_size_pass_through_unchanged():
    body = b'{"model":"gemini-2.5-flash","contents":[],"labels":{"a":"b"},"big":123456789012345678901234567890}'
    _, _, request = native_body("vertex", "/generateContent", body)
    assert request["big"] == 123456789012345678901234567890
    from groupage.activities.providers.exact_json import dumps

    assert b"123456789012345678901234567890" in labelled(WIRE, dumps(request))


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"model":7}', b'{"model":""}'])
def test_a_body_without_a_model_is_invalid(body):
    with pytest.raises(ProviderError) as error:
        native_body("vertex", "/generateContent", body)
    assert error.value.error_class is ErrorClass.invalid


ASKED = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"data": "a+/b", "mimeType": "x"}}]}],
    "generationConfig": {"temperature": 0.7, "maxOutputTokens": 50, "stopSequences": []},
}


@pytest.mark.parametrize(
    "change",
    [
        lambda v: dict(reversed(v.items())),
        lambda v: v | {"labels": {"any": "thing"}},
        lambda v: v | {"generationConfig": v["generationConfig"] | {"maxOutputTokens": 50.0}},
    ],
    ids=["order", "labels", "50.0"],
)
def test_what_is_the_same_request_has_the_same_exact_digest(change):
    assert echo_of(change(ASKED)) == echo_of(ASKED)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: {"generation_config": v["generationConfig"], "contents": v["contents"]},
        lambda v: v | {"generationConfig": {"temperature": 0.7, "maxOutputTokens": 50}},
        lambda v: v | {"generationConfig": v["generationConfig"] | {"temperature": 0.699999988079071}},
        lambda v: v | {"systemInstruction": None, "tools": []},
        lambda v: orjson.loads(orjson.dumps(v).replace(b"a+/b", b"a-_b=")),
        lambda v: v | {"generationConfig": v["generationConfig"] | {"responseLogprobs": False, "seed": 0}},
    ],
    ids=["snake_case", "empty lists", "32-bit floats", "nulls", "other base64", "defaults"],
)
def test_what_a_server_may_write_otherwise_has_the_same_loose_digest(change):
    changed = echo_of(change(ASKED))
    assert changed.loose == echo_of(ASKED).loose
    assert changed.exact != echo_of(ASKED).exact


@pytest.mark.parametrize(
    "change",
    [
        lambda v: orjson.loads(orjson.dumps(v).replace(b"hi", b"ho")),
        lambda v: v | {"generationConfig": v["generationConfig"] | {"temperature": 0.71}},
        lambda v: v | {"generationConfig": v["generationConfig"] | {"maxOutputTokens": 51}},
        lambda v: v | {"contents": v["contents"] * 2},
        lambda v: v | {"contents": [{"role": "user", "parts": list(reversed(v["contents"][0]["parts"]))}]},
    ],
    ids=["text", "temperature", "limit", "twice", "order of parts"],
)
def test_another_request_has_other_digests(change):
    changed = echo_of(change(ASKED))
    assert (changed.loose == echo_of(ASKED).loose, changed.exact == echo_of(ASKED).exact) == (False, False)
