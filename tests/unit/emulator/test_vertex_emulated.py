"""The emulated Vertex's pure parts: questions behind native rows, rows under faults, rows as the server writes them."""

import orjson
import pytest
from groupage.activities.answers_vertex import read_line
from groupage.emulator import answers
from groupage.emulator.answers import BadBody
from groupage.emulator.dialects import dialect_of
from groupage.emulator.faults import RequestRule
from groupage.emulator.vertex.answers import answerer, expected_text, question_of, reply_to
from groupage.emulator.vertex.data import BadInput, as_records
from groupage.emulator.vertex.lines import DIALECT
from groupage.emulator.vertex.rows import as_server_writes, split
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.portable import translate

CHAT = "/v1/chat/completions"
GEMINI = "publishers/google/models/gemini-2.5-flash"
CLAUDE = "publishers/anthropic/models/claude-haiku-4-5@20251001"
WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
PORTABLE = {
    "messages": [{"role": "system", "content": "be terse"}, {"role": "user", "content": "what is 2 + 2?"}],
    "max_tokens": 60,
}


def record_of(model):
    name = model.rpartition("/")[2]
    request = translate("vertex", name, CHAT, {"model": name, **PORTABLE})
    if model == GEMINI:
        return {"model": model, "key": "row 1", "kept": {}, "request": request | {"labels": {"groupage_id": WIRE}}}
    return {"model": model, "key": WIRE, "kept": {"custom_id": WIRE}, "request": request}


@pytest.mark.parametrize("model", [GEMINI, CLAUDE])
def test_a_portable_request_asks_the_same_question_as_everywhere(model):
    record, portable = record_of(model), {"model": model.rpartition("/")[2], **PORTABLE}
    assert question_of(record) == answers.question_of(CHAT, portable)
    assert expected_text(record) == answers.expected_text(CHAT, portable)


@pytest.mark.parametrize(
    ("model", "request_"),
    [
        (GEMINI, {}),
        (GEMINI, {"contents": []}),
        (GEMINI, record_of(GEMINI)["request"] | {"labels": {"Key": "v"}}),
        (GEMINI, record_of(GEMINI)["request"] | {"labels": {"k": "v" * 64}}),
        (GEMINI, record_of(GEMINI)["request"] | {"labels": {f"k{n}": "v" for n in range(65)}}),
        (CLAUDE, {}),
        (CLAUDE, record_of(CLAUDE)["request"] | {"anthropic_version": "bedrock-2023-05-31"}),
        (CLAUDE, record_of(CLAUDE)["request"] | {"model": "claude"}),
        (CLAUDE, record_of(CLAUDE)["request"] | {"messages": [7]}),
    ],
)
def test_what_vertex_would_refuse_is_refused(model, request_):
    with pytest.raises(BadBody):
        reply_to(model, request_, 0)


def healthy(model):
    record = record_of(model)
    return DIALECT.result(b'"k"', "code", 1, answerer(200)(record, 0).body)


@pytest.mark.parametrize("model", [GEMINI, CLAUDE])
@pytest.mark.parametrize(
    ("kind", "outcome", "error_class"),
    [
        ("truncated", Outcome.truncated, None),
        ("refused", Outcome.refused, None),
        ("credit", Outcome.failed, ErrorClass.account),
        ("http", Outcome.failed, ErrorClass.transient),
        ("status_zero", Outcome.failed, ErrorClass.unknown),
        ("empty_body", Outcome.unreadable, ErrorClass.unreadable),
        ("invalid_utf8", Outcome.unreadable, ErrorClass.unreadable),
        ("malformed", Outcome.unreadable, ErrorClass.unreadable),
    ],
)
def test_each_fault_is_what_the_reader_sees(model, kind, outcome, error_class):
    (line,), none = DIALECT.faulty(RequestRule(kind=kind, share=1), healthy(model))
    assert none == []
    assert line.endswith(b"\n")
    answer = read_line(line, "")
    assert (answer.wire_id, answer.outcome, answer.error_class) == (WIRE, outcome, error_class)


@pytest.mark.parametrize("model", [GEMINI, CLAUDE])
def test_rows_that_are_too_many_too_few_or_nobodys(model):
    line = healthy(model)
    assert read_line(line, "").text == expected_text(record_of(model), 200)

    def lines(kind):
        return DIALECT.faulty(RequestRule(kind=kind, share=1), line)[0]

    assert lines("duplicate") == [line, line]
    assert lines("missing") == []
    assert [read_line(one, "").wire_id for one in lines("unknown_id")] == [
        WIRE,
        "not-of-this-batch",
    ]
    assert read_line(lines("not_an_object")[0], "").code == "not_an_object"
    assert read_line(lines("expired")[0], "").says_nothing
    assert read_line(DIALECT.unfinished(line, "cancelled"), "").says_nothing


def test_a_refused_row_repeats_its_request():
    record = record_of(GEMINI)
    record["request"] = {"labels": {"groupage_id": WIRE}}
    with pytest.raises(BadBody) as error:
        answerer(200)(record, 0)
    answer = read_line(DIALECT.refused(b'"k"', "code", 1, error.value), "")
    assert (answer.wire_id, answer.error_class, answer.code) == (WIRE, ErrorClass.invalid, "INVALID_ARGUMENT")


def test_the_worker_finds_the_dialect_and_its_answers():
    assert dialect_of("vertex") is DIALECT
    assert answers.question_of("vertex", record_of(CLAUDE)) == question_of(record_of(CLAUDE))


def test_a_server_writes_a_request_in_its_own_way():
    given = {
        "system_instruction": {"parts": [{"text": "x"}]},
        "contents": [],
        "labels": {"a_b": "c"},
        "top": {"n": 1, "no": False},
    }
    assert as_server_writes(given) == {
        "labels": {"a_b": "c"},
        "systemInstruction": {"parts": [{"text": "x"}]},
        "top": {"n": 1.0},
    }


def test_rows_go_round_the_files_and_an_empty_file_is_none(tmp_path):
    found = split(iter([b"1\n", b"2\n", b"3\n"]), tmp_path, 2)
    assert [(name, path.read_bytes()) for name, path in found] == [
        ("predictions_0001.jsonl", b"1\n3\n"),
        ("predictions_0002.jsonl", b"2\n"),
    ]
    assert [name for name, _ in split(iter([b"1\n"]), tmp_path, 4)] == ["predictions_0001.jsonl"]
    assert split(iter([]), tmp_path, 1) == []


@pytest.mark.parametrize(
    ("model", "lines", "said"),
    [
        (GEMINI, [b""], "no rows"),
        (GEMINI, [b"{"], "Row 1 is not valid JSON"),
        (GEMINI, [b'{"request":{}}', b'{"request":7}'], "Row 2 has no request"),
        (GEMINI, [b'{"request":{}}'] * 4, "at most 3"),
        (CLAUDE, [b'{"request":{}}'], "no custom_id"),
        (CLAUDE, [b'{"custom_id":"a","request":{}}'] * 2, "one that is taken"),
    ],
)
def test_an_input_that_is_no_list_of_requests_is_told_with_its_row(tmp_path, model, lines, said):
    (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(BadInput, match=said):
        as_records(tmp_path / "in", tmp_path / "out", model, 3, columns=False)


def test_records_keep_what_comes_back_with_the_result(tmp_path):
    (tmp_path / "in").write_bytes(b'{"request":{"a":12345678901234567890123}}\n\n{"extra":1,"request":{"b":2}}\n')
    assert as_records(tmp_path / "in", tmp_path / "out", GEMINI, 3, columns=True) == 2
    first, second = (tmp_path / "out").read_bytes().split(b"\n")[:-1]
    assert b"12345678901234567890123" in first
    assert orjson.loads(second)["kept"] == {"extra": 1}
