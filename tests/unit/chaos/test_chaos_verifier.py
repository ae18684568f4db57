"""The judge of the chaos runs, fed with doctored evidence: each broken promise is seen, and alone."""

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pytest
from groupage.emulator.answers import ANSWER_BYTES, answerer, expected_text, question_of
from groupage.schemas.ids import job_token, submission_tag

from tests.chaos.evidence import Evidence
from tests.chaos.scenario import MARKER, Kind, Line, Scenario, _line, make_scenario
from tests.chaos.verify import REFUSAL, Broken, verify
from tests.side_by_side.providers import CHAT, PROVIDERS

TAG = submission_tag(job_token("abcdef", "chaos", "run-1-0", "salt"), 0, 0)
OTHER_TAG = submission_tag(job_token("abcdef", "chaos", "run-1-0", "salt"), 1, 0)
COST = Decimal("0.00003")
FAULTS = ("", "", "bad400", "truncated", "refused", "", "")
ENDINGS = {"": "answered", "bad400": "error", "truncated": "truncated", "refused": "refused"}
OUTCOMES = {"": "succeeded", "bad400": "failed", "truncated": "truncated", "refused": "refused", "invalid": "failed"}


def lines_of_the_input() -> list[Line]:
    lines = [_line(1, 0, at, CHAT, fault, "gpt-4o-mini") for at, fault in enumerate(FAULTS)]
    return [*lines, Line(b"[1]", None, CHAT, None, "invalid")]


def result_of(line: Line) -> dict[str, Any]:
    result: dict[str, Any] = {
        "id": line.id,
        "outcome": OUTCOMES[line.fault],
        "text": None,
        "body": None,
        "usage": None,
        "cost_usd": None,
        "provider": "openai",
        "route": "batch",
        "rounds": 1,
        "produced_at": "2026-11-29T15:00:00Z",
        "error": None,
        "labels": json.loads(line.text).get("labels", {}) if line.body else {},
    }
    if result["outcome"] == "failed":
        return result | {"error": {"class": "invalid", "code": "invalid_value", "message": "no"}}
    assert line.body is not None
    text = expected_text(line.endpoint, line.body)
    said = {"truncated": text[: len(text) // 2], "refused": REFUSAL}.get(line.fault, text)
    body = orjson.loads(answerer(line.endpoint, ANSWER_BYTES)(line.body, 0).body)
    return result | {
        "text": said,
        "body": body,
        "cost_usd": float(COST),
        "usage": {"input_tokens": 10, "output_tokens": 20},
    }


def paid(line: Line, **more: Any) -> dict[str, Any]:
    assert line.body is not None
    return {
        "question": question_of(line.endpoint, line.body),
        "route": "batch",
        "batch_id": "batch_1",
        "custom_id": f"{TAG}-0",
        "ending": ENDINGS[line.fault],
        "billed": line.fault != "bad400",
    } | more


def batch(id_: str = "batch_1", tag: str = TAG, **more: Any) -> dict[str, Any]:
    return {"id": id_, "status": "completed", "ended": True, "metadata": {"groupage_tag": tag}, "effects": []} | more


class Run:
    """A run in which all went well, to be doctored."""

    def __init__(self) -> None:
        self.lines = lines_of_the_input()
        self.results = [result_of(line) for line in self.lines]
        self.questions = [paid(line) for line in self.lines if line.body]
        self.batches = [batch()]
        self.ledger = [
            {
                "index": at,
                "outcome": result["outcome"],
                "cost_usd": None if result["cost_usd"] is None else COST,
                "waste_usd": Decimal(0),
            }
            for at, result in enumerate(self.results)
        ]
        answers = sum(result["cost_usd"] is not None for result in self.results)
        self.summary: dict[str, Any] = {
            "requests": len(self.lines),
            "outcomes": dict(Counter(result["outcome"] for result in self.results)),
            "error_classes": {"invalid": 2},
            "usage": {"input_tokens": 10 * answers, "output_tokens": 20 * answers},
            "cost_usd": str(COST * answers),
            "waste_usd": "0",
            "maybe_paid_twice": 0,
            "left_behind": [],
            "accepted_at": "2026-11-29T15:00:00Z",
            "finished_at": "2026-11-29T15:00:10Z",
            "deadline_at": "2026-11-30T15:00:00Z",
        }
        self.evidence_changes: dict[str, Any] = {}

    def evidence(self) -> Evidence:
        scenario = Scenario(1, 0, PROVIDERS["openai"], Kind.batches, self.lines, {}, {}, "24h", [])
        given: dict[str, Any] = {
            "scenario": scenario,
            "api_key": "sk-secret",
            "exit_code": 3,
            "output": b"".join(orjson.dumps(result) + b"\n" for result in self.results),
            "summary": self.summary,
            "ledger": self.ledger,
            "questions": self.questions,
            "batches": self.batches,
            "files": [],
            "histories": {"job/chaos/run-1-0": b"... run-1-0 ..."},
            "objects": {"requests/00000.jsonl.zst": b"".join(line.text for line in self.lines)},
        }
        return Evidence(**given | self.evidence_changes)

    def broken(self) -> set[Broken]:
        return {violation.broken for violation in verify(self.evidence()).violations}


def test_a_good_run_breaks_nothing_and_everything_was_looked_at():
    verdict = verify(Run().evidence())
    assert verdict.violations == []
    assert verdict.counts["requests"] == 8
    assert verdict.counts["joins checked"] == 6
    assert verdict.counts["provider batches"] == 1


def test_a_refusal_may_have_an_error_for_a_body_which_has_no_id():
    run = Run()
    (refused,) = (result for result in run.results if result["outcome"] == "refused")
    refused["body"] = {"error": {"code": "content_filter"}}
    assert run.broken() == set()


def swap_answers(run: Run) -> None:
    first, second = run.results[0], run.results[1]
    for name in ("text", "body"):
        first[name], second[name] = second[name], first[name]


def swap_bodies(run: Run) -> None:
    run.results[0]["body"], run.results[1]["body"] = run.results[1]["body"], run.results[0]["body"]


def lose_a_body(run: Run) -> None:
    run.results[0]["body"] = {}


def swap_lines(run: Run) -> None:
    run.results[0], run.results[1] = run.results[1], run.results[0]


def drop_a_line(run: Run) -> None:
    del run.results[5]


def double_a_line(run: Run) -> None:
    run.results.insert(5, run.results[5])


def give_up(run: Run) -> None:
    run.results[5] |= {
        "outcome": "failed",
        "text": None,
        "body": None,
        "error": {"class": "transient", "code": "500", "message": "m"},
    }


def name_the_wrong_class(run: Run) -> None:
    run.results[2]["error"]["class"] = "transient"


def call_a_truncated_answer_a_success(run: Run) -> None:
    run.results[3]["outcome"] = "succeeded"


def second_batch(**more: Any) -> Callable[[Run], None]:
    def doctor(run: Run) -> None:
        run.batches.append(batch("batch_2", **more))

    return doctor


def also_answered(*, waste: bool = False, allowance: int = 0, **row: Any) -> Callable[[Run], None]:
    """The provider billed the first question once more."""

    def doctor(run: Run) -> None:
        run.questions.append(paid(run.lines[0], **row))
        run.summary["maybe_paid_twice"] = allowance
        run.batches.append(batch("batch_2", OTHER_TAG))
        run.batches.append(batch("batch_late", OTHER_TAG + "1", status="cancelled"))
        if waste:
            run.ledger[0]["waste_usd"] = COST
            run.summary["waste_usd"] = str(COST)

    return doctor


def never_billed(run: Run) -> None:
    run.questions = [row for row in run.questions if row is not run.questions[0]]


def foreign_question(run: Run) -> None:
    run.questions.append(paid(_line(1, 77, 0, CHAT, "", "gpt-4o-mini")))


def changed(**more: Any) -> Callable[[Run], None]:
    def doctor(run: Run) -> None:
        run.evidence_changes |= more

    return doctor


def in_summary(**more: Any) -> Callable[[Run], None]:
    def doctor(run: Run) -> None:
        run.summary |= more

    return doctor


def in_ledger(row: int, /, **more: Any) -> Callable[[Run], None]:
    def doctor(run: Run) -> None:
        run.ledger[row] |= more

    return doctor


FILE = {"id": "file-1", "filename": "f.jsonl", "purpose": "batch"}
LIVE = [batch(status="in_progress", ended=False)]
SYNC = {"route": "sync", "batch_id": None, "custom_id": None}

DOCTORED: list[tuple[str, Callable[[Run], None], set[Broken]]] = [
    ("the client never ended", changed(exit_code=None), {Broken.run}),
    ("exit code 0 although not all succeeded", changed(exit_code=0), {Broken.run}),
    ("the client crashed", changed(exit_code=1), {Broken.run}),
    ("no summary", changed(summary=None), {Broken.run}),
    ("no ledger", changed(ledger=None), {Broken.run}),
    ("a line is missing", drop_a_line, {Broken.outcome, Broken.wrong_join, Broken.paid_twice, Broken.sums}),
    ("a line is there twice", double_a_line, {Broken.outcome, Broken.wrong_join, Broken.sums}),
    ("lines in another order", swap_lines, {Broken.outcome, Broken.wrong_join}),
    ("given up though it would have worked", give_up, {Broken.outcome, Broken.paid_twice, Broken.sums}),
    ("the wrong error class", name_the_wrong_class, {Broken.outcome, Broken.sums}),
    ("truncated called succeeded", call_a_truncated_answer_a_success, {Broken.outcome, Broken.wrong_join, Broken.sums}),
    ("answers swapped", swap_answers, {Broken.wrong_join}),
    ("bodies swapped", swap_bodies, {Broken.wrong_join}),
    ("an answer without its body's id", lose_a_body, {Broken.wrong_join}),
    ("an answer that nobody gave", never_billed, {Broken.wrong_join}),
    ("a batch for one shard twice", second_batch(), {Broken.batch_twice}),
    ("a batch without a tag", second_batch(metadata=None), {Broken.batch_twice}),
    ("answered by a second batch", also_answered(batch_id="batch_2"), {Broken.paid_twice, Broken.resent}),
    ("the same, reported", also_answered(batch_id="batch_2", waste=True), {Broken.resent}),
    ("answered by sync again", also_answered(**SYNC), {Broken.paid_twice, Broken.resent}),
    ("sync paid twice", also_answered(**SYNC, ending="lost"), {Broken.paid_twice}),
    ("more than was reported", also_answered(batch_id="batch_late"), {Broken.paid_twice, Broken.resent}),
    ("somebody else's question", foreign_question, {Broken.paid_twice}),
    ("a live batch", changed(batches=LIVE), {Broken.orphan_batch}),
    ("a file", changed(files=[FILE]), {Broken.orphan_file}),
    ("a workflow", changed(running_workflows=["job/chaos/run-1-0/r0-s000"]), {Broken.workflow}),
    ("a wrong sum of outcomes", in_summary(outcomes={"succeeded": 8}), {Broken.sums}),
    ("a wrong cost", in_summary(cost_usd="1"), {Broken.sums}),
    ("a wrong sum of tokens", in_summary(usage={"input_tokens": 1, "output_tokens": 1}), {Broken.sums}),
    ("a ledger row twice", in_ledger(1, index=0), {Broken.sums}),
    ("a ledger that disagrees", in_ledger(0, outcome="failed"), {Broken.sums}),
    ("waste in the ledger alone", in_ledger(0, waste_usd=COST), {Broken.sums}),
    (
        "a prompt in the history",
        changed(histories={"w": f"run-1-0 what does {MARKER} mean".encode()}),
        {Broken.leak},
    ),
    ("a prompt in the history, escaped", changed(histories={"w": b"run-1-0 zebra-\\u03a9mega-7319"}), {Broken.leak}),
    ("the key in the history", changed(histories={"w": b"run-1-0 sk-secret"}), {Broken.leak}),
    ("the key in the store", changed(objects={"o": f"{MARKER} sk-secret".encode()}), {Broken.leak}),
]


@pytest.mark.parametrize(("doctor", "expected"), [(d, e) for _, d, e in DOCTORED], ids=[n for n, _, _ in DOCTORED])
def test_each_broken_promise_is_seen(doctor, expected):
    run = Run()
    doctor(run)
    assert run.broken() == expected


@pytest.mark.parametrize(
    "doctor",
    [
        pytest.param(also_answered(**SYNC, ending="lost", allowance=1), id="a lost reply that is reported"),
        pytest.param(second_batch(effects=["token_limit"], status="failed"), id="a batch refused for its quota"),
        pytest.param(in_summary(waste_usd="1"), id="waste of lines that are no request's"),
    ],
)
def test_what_the_job_reports_or_the_plan_explains_is_no_violation(doctor):
    run = Run()
    doctor(run)
    assert run.broken() == set()


def test_a_late_batch_is_explained_only_if_the_job_names_it_and_its_cost_is_on_record():
    run = Run()
    run.questions[0] |= SYNC
    run.questions.append(paid(run.lines[0], batch_id="batch_late"))
    run.batches.append(batch("batch_late", OTHER_TAG, status="cancelled"))
    assert run.broken() == {Broken.paid_twice}
    run.summary["left_behind"] = ["batch batch_late of shard 0-0 had not ended"]
    assert run.broken() == {Broken.paid_twice}
    objects = run.evidence().objects | {
        "late/0-0.json": b'{"batch_id":"batch_late","round":0,"shard":0,"waste_usd":"0.1"}'
    }
    run.evidence_changes["objects"] = objects
    assert run.broken() == set()


@pytest.mark.parametrize(("shard", "broken"), [(0, set()), (1, {Broken.paid_twice})])
def test_a_late_batch_is_known_by_its_tag_where_its_name_is_not_the_emulators_id(shard, broken):
    run = Run()
    run.questions[0] |= SYNC
    run.questions.append(paid(run.lines[0], batch_id="gemini_late"))
    run.batches.append(batch("gemini_late", OTHER_TAG, status="cancelled"))
    run.summary["left_behind"] = ["batch batches/late0815 had not ended"]
    report = {"batch_id": "batches/late0815", "round": 1, "shard": shard, "waste_usd": "0.1"}
    run.evidence_changes["objects"] = run.evidence().objects | {"late/1-0.json": json.dumps(report).encode()}
    assert run.broken() == broken


def test_a_file_that_the_summary_names_is_explained():
    run = Run()
    run.evidence_changes["files"] = [FILE]
    run.summary["left_behind"] = ["file-1"]
    assert run.broken() == set()


def test_unanswered_at_the_deadline_is_an_outcome_only_of_a_job_that_ended_there():
    run = Run()
    error = {"class": "not_sent", "code": "deadline", "message": "m"}
    run.results[0] |= {"outcome": "expired", "text": None, "body": None, "error": error}
    assert Broken.outcome in run.broken()
    run.summary["deadline_at"] = run.summary["finished_at"]
    assert Broken.outcome not in run.broken()


def test_a_run_that_left_no_traces_does_not_pass():
    nothing = {"output": None, "summary": None, "ledger": None, "questions": [], "batches": []}
    run = Run()
    run.evidence_changes = nothing | {"exit_code": None, "histories": {}, "objects": {}}
    assert run.broken() >= {
        Broken.run,
        Broken.outcome,
        Broken.wrong_join,
        Broken.batch_twice,
        Broken.paid_twice,
        Broken.leak,
    }


def test_a_seed_makes_the_same_scenarios_and_a_short_series_has_every_kind():
    series = [make_scenario(5, number) for number in range(10)]
    assert series == [make_scenario(5, number) for number in range(10)]
    assert {scenario.kind for scenario in series} == set(Kind)
    assert all(scenario.kills for scenario in series)
    assert make_scenario(6, 0) != series[0]
