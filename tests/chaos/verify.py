"""Whether a run kept the promises: a pure function of its evidence.

Each check answers with violations; a check that has nothing to look at is a violation too, so that
none passes because of an empty hand. tests/unit/chaos feeds it doctored evidence.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from groupage.schemas import ErrorClass, Outcome, Result
from groupage.schemas.ids import decode_tag
from pydantic import ValidationError

from tests.chaos.evidence import Evidence
from tests.chaos.scenario import LINE_FAULTS, MARKER, Line
from tests.side_by_side.providers import tag_of

REFUSAL = "I'm sorry, I can't help with that."
USABLE = frozenset({"answered", "truncated", "refused", "lost"})
"""Endings in the emulator's ledger that are answers; the reader of a `lost` one has not got it."""
NOT_TRIED = frozenset({"token_limit", "fail"})
"""Effects by which a batch ends before any request runs: its shard may be sent again under the same tag."""


class Broken(StrEnum):
    """A promise that was broken; the values are what the table says."""

    run = "runs that did not end"
    outcome = "requests without a right outcome"
    wrong_join = "wrong joins"
    batch_twice = "batches submitted twice"
    paid_twice = "questions paid twice unreported"
    resent = "answered questions sent again"
    orphan_batch = "orphaned batches"
    orphan_file = "orphaned files"
    workflow = "workflows left running"
    sums = "sums that disagree"
    leak = "bodies or keys where they must not be"


@dataclass(frozen=True, slots=True)
class Violation:
    broken: Broken
    text: str


@dataclass(slots=True)
class Verdict:
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """What was looked at, for the table: requests, answers, paid twice and reported, ..."""


def verify(evidence: Evidence) -> Verdict:
    verdict = Verdict()
    for check in CHECKS:
        verdict.violations += check(evidence, verdict.counts)
    return verdict


def _input_lines(evidence: Evidence) -> list[Line]:
    return [line for line in evidence.scenario.lines if line.text.strip()]


def _output_lines(evidence: Evidence) -> list[bytes]:
    return (evidence.output or b"").split(b"\n")[:-1]


def _results(evidence: Evidence) -> Iterator[tuple[Line, Result]]:
    """Lines with their results; those that cannot be read are another check's matter."""
    for line, text in zip(_input_lines(evidence), _output_lines(evidence), strict=False):
        try:
            yield line, Result.model_validate_json(text)
        except ValidationError:
            continue


def check_end(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """The client came to its end, and its exit code says what the lines say."""
    if evidence.exit_code is None:
        yield Violation(Broken.run, "the client did not end in time")
        return
    outcomes = [result.outcome for _, result in _results(evidence)]
    right = 0 if all(outcome is Outcome.succeeded for outcome in outcomes) else 3
    if evidence.exit_code != right:
        yield Violation(Broken.run, f"exit code {evidence.exit_code}, not {right}: {evidence.stderr[-400:]}")
    if evidence.output is None or evidence.summary is None or evidence.ledger is None:
        yield Violation(Broken.run, "output, summary or ledger is missing")
    counts["exit codes"] += 1


def check_outcomes(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """One line per input line, in input order, each with an outcome that its faults allow."""
    given, got = _input_lines(evidence), _output_lines(evidence)
    if evidence.output is None or not evidence.output.endswith(b"\n"):
        yield Violation(Broken.outcome, "the output does not end with a whole line")
    if len(given) != len(got):
        yield Violation(Broken.outcome, f"{len(got)} output lines for {len(given)} input lines")
    late = _was_late(evidence)
    for number, (line, text) in enumerate(zip(given, got, strict=False), 1):
        try:
            result = Result.model_validate_json(text)
        except ValidationError as error:
            yield Violation(Broken.outcome, f"output line {number} is no result: {error}")
            continue
        counts["requests"] += 1
        counts["answers"] += result.outcome.answered
        problem = _outcome_problem(line, result, late=late)
        if problem:
            yield Violation(Broken.outcome, f"output line {number}: {problem}")


def _was_late(evidence: Evidence) -> bool:
    """The job ended at its deadline: only then may a request end unanswered for want of time."""
    summary = evidence.summary or {}
    finished, deadline = summary.get("finished_at"), summary.get("deadline_at")
    accepted = summary.get("accepted_at")
    if not (finished and deadline and accepted):
        return False
    begin, end, due = (datetime.fromisoformat(text) for text in (accepted, finished, deadline))
    # The last tenth is set aside for merging: sync calls end before it (escalation.py).
    return end >= due - (due - begin) * 0.1


def _outcome_problem(line: Line, result: Result, *, late: bool) -> str:
    """What is wrong with how the line ended; "" nothing."""
    found = f"{result.id!r} {result.outcome}, {result.error}"
    error_class = result.error.error_class if result.error else None
    if (error_class is None) != result.outcome.answered:
        return f"{found}: an answer has no error, anything else has one"
    if line.body is None:
        fits = result.outcome is Outcome.failed and error_class is ErrorClass.invalid
        return "" if fits else f"a bad line ended as {found}"
    if result.id != line.id:
        return f"{found}: the id is not {line.id!r}"
    if late and result.outcome in (Outcome.expired, Outcome.cancelled):
        return ""
    fault = LINE_FAULTS.get(line.fault)
    outcomes = fault.outcomes if fault else {Outcome.succeeded}
    fits = result.outcome in outcomes and (error_class is None or bool(fault and error_class in fault.classes))
    return "" if fits else f"{found}, allowed with fault {line.fault or 'none'}: {fault or sorted(outcomes)}"


def check_joins(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """Every answer is the answer to its own question."""
    for line, result in _results(evidence):
        if line.body is None or not result.outcome.answered:
            continue
        counts["joins checked"] += 1
        expected = evidence.scenario.provider.text(line.endpoint, line.body)
        if result.outcome is Outcome.truncated:
            expected = expected[: len(expected) // 2]
        said = [None, REFUSAL] if result.outcome is Outcome.refused else [expected]
        if result.text not in said:
            yield Violation(Broken.wrong_join, f"{line.id!r} got {result.text!r}, not {said}")
        question = evidence.scenario.provider.question(line.endpoint, line.body)
        body = result.body if isinstance(result.body, dict) else {}
        body_id = body.get("id") or body.get("responseId") or ""
        # A prompt that Azure's filter refuses has an error for a body, without an id.
        refused = result.outcome is Outcome.refused and not body_id
        if not refused and not str(body_id).endswith(question):
            yield Violation(
                Broken.wrong_join, f"{line.id!r}: body {body_id!r} answers another question than {question}"
            )
        if result.labels != _labels(line):
            yield Violation(Broken.wrong_join, f"{line.id!r} got labels {result.labels}")
    if not counts["joins checked"]:
        yield Violation(Broken.wrong_join, "no answer at all was there to check")


def _labels(line: Line) -> dict[str, str]:
    return dict(json.loads(line.text).get("labels", {}))


def check_batches(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """No two batches for one shard and round, but where the plan made the provider refuse the first."""
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for batch in evidence.batches:
        counts["provider batches"] += 1
        tag = tag_of(batch)
        if not tag:
            yield Violation(Broken.batch_twice, f"batch {batch['id']} carries no tag: {batch['metadata']}")
            continue
        by_tag.setdefault(tag, []).append(batch)
    if not by_tag:
        yield Violation(Broken.batch_twice, "the provider saw no batch of ours")
    for tag, batches in by_tag.items():
        tried = [batch for batch in batches if not NOT_TRIED & set(batch["effects"])]
        if len(tried) > 1:
            yield Violation(Broken.batch_twice, f"{tag}: {[(one['id'], one['status']) for one in tried]}")


def check_payments(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """What the provider billed is what was delivered plus what the job reports as waste or as maybe paid twice."""
    billed: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.questions:
        if row["billed"]:
            billed.setdefault(row["question"], []).append(row)
    waste = _waste_of(evidence)
    late = _late_batches(evidence)
    status = {batch["id"]: batch for batch in evidence.batches}
    unreported: list[str] = []
    question_of = evidence.scenario.provider.question
    known = {question_of(line.endpoint, line.body) for line in _input_lines(evidence) if line.body}
    for index, (line, result) in enumerate(_results(evidence)):
        if line.body is None:
            continue
        question = question_of(line.endpoint, line.body)
        rows = billed.get(question, [])
        if result.outcome.answered and not rows:
            yield Violation(Broken.wrong_join, f"{line.id!r} has an answer that the provider never billed")
        excess = len(rows) - result.outcome.answered
        counts["paid without delivery"] += excess
        if excess > 0:
            excess -= sum(row["batch_id"] in late for row in rows)
        if excess > 0 and not waste.get(index):
            unreported += [f"{line.id!r}: {_told(rows)}"] * excess
        yield from _sent_again(line, rows, status)
    for question in billed.keys() - known:
        yield Violation(Broken.paid_twice, f"question {question} is none of this job's")
    summary = evidence.summary or {}
    # Batches that had not ended are told by name and by what they cost later, not by how many requests they had.
    allowance = int(summary.get("maybe_paid_twice", 0)) - sum(summary.get("unsettled", {}).values())
    counts["reported as maybe paid twice"] += allowance
    if len(unreported) > allowance:
        yield Violation(
            Broken.paid_twice,
            f"{len(unreported)} payments without delivery and waste, {allowance} reported as maybe paid twice: "
            + "; ".join(unreported[:5]),
        )
    if not known or not billed:
        yield Violation(Broken.paid_twice, "nothing was billed")


def _waste_of(evidence: Evidence) -> dict[int, Decimal]:
    return {row["index"]: row["waste_usd"] for row in evidence.ledger or [] if row["waste_usd"]}


def _late_batches(evidence: Evidence) -> set[str]:
    """Batches that ended after the job had: it names them or their shards, and a late report tells what they cost."""
    named = " ".join((evidence.summary or {}).get("left_behind", ()))
    reports = [json.loads(data) for name, data in evidence.objects.items() if name.startswith("late/")]
    told = [
        report
        for report in reports
        if (report["batch_id"] in named or f"shard {report['round']}-{report['shard']} " in named)
        and Decimal(report["waste_usd"]) > 0
    ]
    ids = {report["batch_id"] for report in told}
    if ids <= {batch["id"] for batch in evidence.batches}:
        return ids
    # Some APIs give a batch a longer name than the emulator's own: there the tag tells whose it is.
    places = {(report["round"], report["shard"]) for report in told}
    tags = {batch["id"]: decode_tag(tag_of(batch)) for batch in evidence.batches}
    return ids | {id_ for id_, tag in tags.items() if tag and tag[1:] in places}


def _told(rows: list[dict[str, Any]]) -> str:
    return ", ".join(f"{row['route']} {row['batch_id'] or ''} {row['ending']}".replace("  ", " ") for row in rows)


def _sent_again(line: Line, rows: list[dict[str, Any]], batches: dict[str, dict[str, Any]]) -> Iterator[Violation]:
    """Two usable answers: only a batch that was told to stop may still answer what is also sent elsewhere."""
    usable = [row for row in rows if row["ending"] in USABLE and row["ending"] != "lost"]
    by_batch = [row["batch_id"] for row in usable if row["route"] == "batch"]
    in_time = [one for one in by_batch if batches.get(one, {}).get("status") != "cancelled"]
    if len(by_batch) > 1 or (in_time and len(usable) > len(by_batch) and not _stalled(batches, in_time)):
        yield Violation(Broken.resent, f"{line.id!r}: {_told(rows)}")


def _stalled(batches: dict[str, dict[str, Any]], ids: list[str]) -> bool:
    return all("stall" in batches[one]["effects"] for one in ids)


def check_leftovers(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """Nothing lives on at the provider or in Temporal, and no file stays that the summary does not name."""
    counts["leftovers looked for"] += 1
    counts["batches in doubt, reported, ended by a person"] += len(evidence.ended_by_person)
    for batch in evidence.batches:
        if not batch["ended"]:
            yield Violation(Broken.orphan_batch, f"{batch['id']} is {batch['status']}: {batch['metadata']}")
    reported = set((evidence.summary or {}).get("left_behind", ()))
    for file in evidence.files:
        if file["id"] not in reported:
            yield Violation(Broken.orphan_file, f"{file['id']} {file['filename']} ({file['purpose']})")
    for name in evidence.running_workflows:
        yield Violation(Broken.workflow, name)


def check_sums(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """summary.json, ledger.parquet and the lines tell the same."""
    summary, ledger = evidence.summary, evidence.ledger
    if summary is None or ledger is None:
        return
    counts["sums compared"] += 1
    given = _input_lines(evidence)
    results = [result for _, result in _results(evidence)]
    if [row["index"] for row in ledger] != list(range(len(given))):
        yield Violation(Broken.sums, f"the ledger has {len(ledger)} rows, not one for each of {len(given)} requests")
    outcomes = Counter(result.outcome.value for result in results)
    classes = Counter(result.error.error_class.value for result in results if result.error)
    cost = sum((result.cost_usd or Decimal(0) for result in results), Decimal(0))
    compared: list[tuple[str, Any, Any]] = [
        ("requests", summary["requests"], len(given)),
        ("outcomes", _positive(summary["outcomes"]), dict(outcomes)),
        ("outcomes of the ledger", dict(Counter(row["outcome"] for row in ledger)), dict(outcomes)),
        ("error classes", _positive(summary["error_classes"]), dict(classes)),
        ("cost", Decimal(str(summary["cost_usd"])), cost),
        ("cost of the ledger", sum((row["cost_usd"] or Decimal(0) for row in ledger), Decimal(0)), cost),
        (
            "input tokens",
            summary["usage"]["input_tokens"],
            sum(result.usage.input_tokens for result in results if result.usage),
        ),
        (
            "output tokens",
            summary["usage"]["output_tokens"],
            sum(result.usage.output_tokens for result in results if result.usage),
        ),
    ]
    ledger_waste = sum((row["waste_usd"] or Decimal(0) for row in ledger), Decimal(0))
    if Decimal(str(summary["waste_usd"])) < ledger_waste:
        yield Violation(Broken.sums, f"waste: {summary['waste_usd']} in the summary, {ledger_waste} in the ledger")
    for name, said, found in compared:
        if said != found:
            yield Violation(Broken.sums, f"{name}: said {said}, found {found}")
    if sum(outcomes.values()) != len(given):
        yield Violation(Broken.sums, f"{sum(outcomes.values())} outcomes for {len(given)} requests")


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if n}


def check_leaks(evidence: Evidence, counts: Counter[str]) -> Iterator[Violation]:
    """No body in Temporal, no key in Temporal or the store."""
    marker, key = MARKER.encode(), evidence.api_key.encode()
    # json.dumps writes what is not ASCII as escapes; the part before it is the same in both.
    needles = {marker, MARKER.split("Ω")[0].encode()}
    for name, history in evidence.histories.items():
        counts["history bytes"] += len(history)
        if any(needle in history for needle in needles):
            yield Violation(Broken.leak, f"the history of {name} holds text of a request")
        if key in history:
            yield Violation(Broken.leak, f"the history of {name} holds the API key")
    for name, data in evidence.objects.items():
        counts["store bytes"] += len(data)
        if key in data:
            yield Violation(Broken.leak, f"the object {name} holds the API key")
    job = evidence.scenario.key.encode()
    if not any(job in history for history in evidence.histories.values()):
        yield Violation(Broken.leak, "no history of this job was there to be searched")
    if not any(needle in data for data in evidence.objects.values() for needle in needles):
        yield Violation(Broken.leak, "no request of this job was found in the store: was it searched?")


Check = Callable[[Evidence, Counter[str]], Iterator[Violation]]
CHECKS: tuple[Check, ...] = (
    check_end,
    check_outcomes,
    check_joins,
    check_batches,
    check_payments,
    check_leftovers,
    check_sums,
    check_leaks,
)
