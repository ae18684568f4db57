"""What is refused in an input file, and what each fault makes of a result file."""

import sqlite3

import numpy as np
import orjson
import pytest
from groupage.emulator.answers import expected_text
from groupage.emulator.faults import NO_FAULTS, read_plan
from groupage.emulator.finish import FinishJob, finish
from groupage.emulator.ledger import PAGE_ROW
from groupage.emulator.outcomes import Ending
from groupage.emulator.work import CheckJob, check

CHAT = "/v1/chat/completions"


def body(number):
    return {"model": "m", "messages": [{"role": "user", "content": f"Question {number}"}]}


def line(number, **changes):
    return {"custom_id": f"r-{number}", "method": "POST", "url": CHAT, "body": body(number)} | changes


def encode(lines):
    return b"".join(one if isinstance(one, bytes) else orjson.dumps(one) + b"\n" for one in lines)


class World:
    """One batch's files in a directory."""

    def __init__(self, path):
        self.path = path
        with sqlite3.connect(path / "db.sqlite") as database:
            database.execute("CREATE TABLE asked (rule TEXT, question INTEGER, n INTEGER)")
        database.close()

    def check(self, lines, endpoint=CHAT, **limits):
        (self.path / "source").write_bytes(encode(lines))
        limits = {"max_requests": 100, "max_batch_bytes": 10**6, "max_embedding_inputs": 100} | limits
        paths = {name: self.path / name for name in ("source", "lines", "rows", "ids")}
        return check(CheckJob(code="ab", endpoint=endpoint, created=5, answer_bytes=320, **paths, **limits))

    def finish(self, plan=NO_FAULTS, *, finished, ending="completed", order="shuffled", only_errors=None, lost=0):
        paths = {name: self.path / name for name in ("source", "lines", "rows", "output", "errors", "page", "struck")}
        return finish(
            FinishJob(
                number=1,
                seed=1,
                order=order,
                ending=ending,
                finished=finished,
                only_errors=only_errors,
                lost=lost,
                database=self.path / "db.sqlite",
                plan=plan,
                **paths,
            )
        )

    def raw(self, name):
        path = self.path / name
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []

    def lines(self, name):
        return [orjson.loads(one) for one in self.raw(name)]

    def page(self):
        return np.fromfile(self.path / "page", PAGE_ROW)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.mark.parametrize(
    ("lines", "code", "number"),
    [
        ([line(1), line(2), line(1)], "duplicate_custom_id", 3),
        ([line(1), b"\n", b"{\n"], "invalid_json_line", 3),
        ([line(1), [1]], "invalid_json_line", 2),
        ([line(1), line(2, url="/v1/responses")], "invalid_url", 2),
        ([line(1), line(2, body=body(2) | {"model": "n"})], "mismatched_model", 2),
        ([line(1), line(2, body="x")], "invalid_type", 2),
        ([line(1), line(2, method="GET")], "invalid_method", 2),
        ([line(1), line("", custom_id="")], "missing_required_parameter", 2),
        ([line(1, body={"messages": []})], "missing_required_parameter", 1),
        ([line(1), line(2, custom_id=7)], "invalid_type", 2),
        ([b"\xef\xbb\xbf" + orjson.dumps(line(1)) + b"\n"], "invalid_json_line", 1),
        ([], "empty_file", None),
        ([b"\n", b"  \n"], "empty_file", None),
    ],
)
def test_an_input_that_OpenAI_refuses_is_refused_with_its_physical_line(world, lines, code, number):
    errors = world.check(lines)["errors"]
    assert [(error["code"], error["line"]) for error in errors] == [(code, number)]


def test_limits_of_requests_bytes_and_embedding_inputs_are_enforced(world):
    assert world.check([line(n) for n in range(5)], max_requests=4)["errors"][0]["code"] == "too_many_tasks"
    assert world.check([line(1)], max_batch_bytes=20)["errors"][0]["code"] == "file_too_large"
    inputs = [line(n, url="/v1/embeddings", body={"model": "m", "input": ["a", "b", "c"]}) for n in range(4)]
    refused = world.check(inputs, endpoint="/v1/embeddings", max_embedding_inputs=10)
    assert [(error["code"], error["line"]) for error in refused["errors"]] == [("too_many_inputs", 4)]


@pytest.mark.parametrize(("given", "inputs"), [("a", 1), ([1, 2, 3], 1), (["a", "b"], 2), ([[1, 2], [3], [4]], 3)])
def test_texts_and_lists_of_tokens_are_inputs(world, given, inputs):
    one = [line(1, url="/v1/embeddings", body={"model": "m", "input": given})]
    assert world.check(one, endpoint="/v1/embeddings", max_embedding_inputs=inputs)["errors"] == []
    if inputs > 1:
        assert world.check(one, endpoint="/v1/embeddings", max_embedding_inputs=inputs - 1)["errors"]


def test_all_bad_lines_are_reported_not_only_the_first(world):
    errors = world.check([b"{\n", line(1), b"[]\n", line(1)])["errors"]
    assert [error["line"] for error in errors] == [1, 3, 4]


def test_a_healthy_batch_answers_every_question_in_another_order(world):
    world.check([line(n) for n in range(50)])
    sums = world.finish(finished=50)
    found = world.lines("output")
    for one in found:
        number = int(one["custom_id"].removeprefix("r-"))
        text = one["response"]["body"]["choices"][0]["message"]["content"]
        assert text == expected_text(CHAT, body(number))
    ids = [one["custom_id"] for one in found]
    assert sorted(ids) == sorted(f"r-{n}" for n in range(50))
    assert ids != [f"r-{n}" for n in range(50)]
    assert world.raw("errors") == []
    assert (sums["completed"], sums["failed"], sums["billed"]) == (50, 0, 50)


def test_the_order_of_lines_can_be_set(world):
    world.check([line(n) for n in range(9)])
    world.finish(finished=9, order="input")
    assert [one["custom_id"] for one in world.lines("output")] == [f"r-{n}" for n in range(9)]
    world.finish(finished=9, order="reversed")
    assert [one["custom_id"] for one in world.lines("output")] == [f"r-{n}" for n in reversed(range(9))]


def test_a_body_without_messages_fails_alone(world):
    assert world.check([line(1), line(2, body={"model": "m"})])["errors"] == []
    sums = world.finish(finished=2)
    assert [one["response"]["status_code"] for one in world.lines("errors")] == [400]
    assert (sums["completed"], sums["failed"], sums["billed"]) == (1, 1, 1)


def test_EX_01_an_expired_batch_keeps_and_bills_what_was_finished(world):
    world.check([line(n) for n in range(10)])
    sums = world.finish(finished=1, ending="expired")
    assert len(world.lines("output")) == 1
    assert {one["error"]["code"] for one in world.lines("errors")} == {"batch_expired"}
    assert len(world.lines("errors")) == 9
    assert (sums["completed"], sums["failed"], sums["billed"]) == (1, 0, 1)
    assert list(np.unique(world.page()["ending"], return_counts=True)[1]) == [1, 9]


def test_PF_14_a_cancel_can_lose_finished_lines(world):
    world.check([line(n) for n in range(10)])
    world.finish(finished=6, ending="cancelled", lost=2)
    ids = [one["custom_id"] for one in world.lines("output") + world.lines("errors")]
    assert len(world.lines("output")) == 4
    assert len(set(ids)) == len(ids) == 8


def rules(*given):
    return read_plan({"requests": list(given)})


@pytest.mark.parametrize(
    ("kind", "output", "errors", "completed", "billed", "ending"),
    [
        ("http", 2, 1, 2, 2, "error"),
        ("credit", 2, 1, 2, 2, "error"),
        ("status_zero", 2, 1, 3, 2, "error"),
        ("missing", 2, 0, 3, 2, "missing"),
        ("duplicate", 4, 0, 3, 3, "answered"),
        ("unknown_id", 4, 0, 3, 3, "answered"),
        ("truncated", 3, 0, 3, 3, "truncated"),
        ("refused", 3, 0, 3, 3, "refused"),
        ("empty_body", 3, 0, 3, 3, "damaged"),
        ("invalid_utf8", 3, 0, 3, 3, "damaged"),
        ("malformed", 3, 0, 3, 3, "damaged"),
        ("not_an_object", 3, 0, 3, 3, "damaged"),
        ("expired", 2, 1, 2, 2, "expired"),
    ],
)
def test_each_fault_shows_in_the_files_the_counts_and_the_bill(world, kind, output, errors, completed, billed, ending):
    world.check([line(n) for n in range(3)])
    sums = world.finish(rules({"kind": kind, "lines": [2]}), finished=3)
    assert (len(world.raw("output")), len(world.raw("errors"))) == (output, errors)
    assert (sums["completed"], sums["failed"], sums["billed"]) == (completed, 3 - completed, billed)
    assert Ending(int(world.page()["ending"][1])).name == ending


def test_RP_12_damaged_lines_are_damaged_as_they_say(world):
    world.check([line(n) for n in range(4)])
    world.finish(
        rules(
            {"kind": "empty_body", "lines": [1]},
            {"kind": "invalid_utf8", "lines": [2]},
            {"kind": "malformed", "lines": [3]},
            {"kind": "not_an_object", "lines": [4]},
        ),
        finished=4,
        order="input",
    )
    empty, utf8, malformed, array = world.raw("output")
    assert orjson.loads(empty)["response"] == {"status_code": 200, "request_id": "req_fault", "body": {}}
    with pytest.raises(UnicodeDecodeError):
        utf8.decode()
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(malformed)
    assert isinstance(orjson.loads(array), list)


def test_RP_11_status_zero_has_an_empty_body_and_no_error(world):
    world.check([line(1)])
    world.finish(rules({"kind": "status_zero", "lines": [1]}), finished=1)
    only = world.lines("errors")[0]
    assert (only["response"], only["error"]) == ({"status_code": 0, "request_id": "", "body": {}}, None)


def test_RP_14_a_truncated_answer_ends_early_and_says_so(world):
    world.check([line(1)])
    world.finish(rules({"kind": "truncated", "lines": [1]}), finished=1)
    choice = world.lines("output")[0]["response"]["body"]["choices"][0]
    whole = expected_text(CHAT, body(1))
    assert choice["finish_reason"] == "length"
    assert whole.startswith(choice["message"]["content"])
    assert len(choice["message"]["content"]) == len(whole) // 2


def test_PF_01_only_errors(world):
    world.check([line(n) for n in range(9)])
    sums = world.finish(finished=9, only_errors=400)
    assert world.raw("output") == []
    assert {one["response"]["status_code"] for one in world.lines("errors")} == {400}
    assert (sums["completed"], sums["failed"], sums["cost_usd"]) == (0, 9, 0)


def test_requests_are_chosen_by_their_text_however_it_is_escaped(world):
    escaped = b'{"custom_id":"e","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"\\u00e9\\u65e5"}]}}\n'
    plain = line("p", body={"model": "m", "messages": [{"role": "user", "content": "é日"}]})
    world.check([escaped, plain, line(3)])
    world.finish(rules({"kind": "http", "match": "é日"}), finished=3)
    assert {one["custom_id"] for one in world.lines("errors")} == {"e", "r-p"}


def test_a_rule_with_times_leaves_questions_alone_that_it_has_struck_often_enough(world):
    world.check([line(n) for n in range(4)])
    plan = rules({"kind": "http", "share": 1, "times": 1})
    world.finish(plan, finished=4)
    struck = [row.split() for row in world.raw("struck")]
    assert len(struck) == 4
    name, question = struck[0][0].decode(), int(struck[0][1])
    signed = question - 2**64 if question >= 2**63 else question
    with sqlite3.connect(world.path / "db.sqlite") as database:
        database.execute("INSERT INTO asked VALUES (?, ?, 1)", (name, signed))
    database.close()
    world.finish(plan, finished=4)
    assert (len(world.raw("output")), len(world.raw("errors"))) == (1, 3)


def test_the_same_job_done_twice_writes_the_same_bytes(world):
    world.check([line(n) for n in range(30)])
    plan = rules({"kind": "http", "share": 0.3}, {"kind": "truncated", "share": 0.3})
    world.finish(plan, finished=20, ending="expired")
    first = (world.raw("output"), world.raw("errors"), world.page().tobytes())
    world.finish(plan, finished=20, ending="expired")
    assert first == (world.raw("output"), world.raw("errors"), world.page().tobytes())
