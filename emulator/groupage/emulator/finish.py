"""Writing a batch's output and error file, and its page of the ledger. Runs in the worker process."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from groupage.emulator.dialects import Dialect, dialect_of
from groupage.emulator.faults import FaultPlan, RequestRule, seed_of
from groupage.emulator.ledger import PAGE_ROW, batch_cost
from groupage.emulator.outcomes import (
    FAILED_KINDS,
    Ending,
    ending_of,
    is_billed,
)
from groupage.emulator.work import CHUNK_LINES, ROW, mapped

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FinishJob:
    """`finished` of the requests are done; the others end as `ending` (expired, cancelled) says.

    `only_errors` is the status of every line, or None; `lost` of the finished requests are in no file.
    """

    number: int
    seed: int
    order: str
    ending: str
    finished: int
    only_errors: int | None
    lost: int
    source: Path
    lines: Path
    rows: Path
    database: Path
    plan: FaultPlan
    output: Path
    errors: Path
    page: Path
    struck: Path
    dialect: str = "openai"


def rule_name(section: str, index: int, fingerprint: str) -> str:
    return f"{section}.{index}.{fingerprint}"


def finish(job: FinishJob) -> dict[str, Any]:
    """Counts and sums as `life.Done` has them; empty files are not left behind."""
    rows = np.fromfile(job.rows, ROW)
    order = _order(job, len(rows))
    done, rest = order[: job.finished], order[job.finished :]
    with mapped(job.lines) as lines, mapped(job.source) as source:
        struck, rules = _strike(job, rows, done, source)
        ends = np.cumsum(rows["size"].astype(np.int64))
        starts = ends - rows["size"]
        dialect = dialect_of(job.dialect)
        writer = _Writer(dialect, lines, starts, ends, rows["bad"] == 1, struck, rules)
        with job.output.open("wb") as output, job.errors.open("wb") as own_errors:
            errors = output if dialect.one_file else own_errors
            writer.write(_as_listed(job, done), output, errors)
            if job.ending in ("expired", "cancelled"):
                for index in _as_listed(job, rest).tolist():
                    errors.write(dialect.unfinished(lines[starts[index] : ends[index]], job.ending))
    page = _page(job, rows, done, struck, rules)
    page.tofile(job.page)
    _write_struck(job, rows, struck, rules)
    for path, kept in ((job.output, False), (job.errors, dialect.empty_errors)):
        if not kept and not path.stat().st_size:
            path.unlink()
    failed = int((rows["bad"][done] == 1).sum())
    failed += sum(int((struck[done] == at).sum()) for at, (_, rule) in enumerate(rules) if rule.kind in FAILED_KINDS)
    billed = page["billed"] == 1
    used, made = int(page["input"][billed].sum()), int(page["output"][billed].sum())
    return {
        "completed": len(done) - failed,
        "failed": failed,
        "billed": int(billed.sum()),
        "input_tokens": used,
        "output_tokens": made,
        "cost_usd": batch_cost(used, made),
    }


def _order(job: FinishJob, count: int) -> Indices:
    """In which order requests finish: always shuffled, so that a prefix is a fair sample."""
    return np.random.default_rng([job.seed, job.number]).permutation(count)


def _as_listed(job: FinishJob, indices: Indices) -> Indices:
    if job.order == "shuffled":
        return indices
    listed = np.sort(indices)
    return listed[::-1] if job.order == "reversed" else listed


NOBODY = -1
LOST = -2


def _strike(
    job: FinishJob, rows: npt.NDArray[Any], done: Indices, source: Any
) -> tuple[npt.NDArray[np.int64], list[tuple[str, RequestRule]]]:
    """Which rule, by its place in the returned list, strikes which request."""
    rules = [(rule_name("requests", at, one.fingerprint), one) for at, one in enumerate(job.plan.requests)]
    if job.only_errors is not None:
        rules.insert(0, ("only_errors", RequestRule(kind="http", share=1, status=job.only_errors)))
    struck = np.full(len(rows), NOBODY, np.int64)
    struck[done[: job.lost]] = LOST
    free = np.zeros(len(rows), bool)
    free[done] = True
    free &= (rows["bad"] == 0) & (struck == NOBODY)
    if not rules:
        return struck, rules
    database = sqlite3.connect(f"{job.database.as_uri()}?mode=ro", uri=True)
    try:
        for at, (name, rule) in enumerate(rules):
            if "batch" not in rule.routes:
                continue
            hit = free & _selected(rule, name, job.plan.seed, rows)
            if rule.times is not None and hit.any():
                query = "SELECT question FROM asked WHERE rule = ? AND n >= ?"
                spent = [row[0] for row in database.execute(query, (name, rule.times))]
                hit &= ~np.isin(rows["question"].astype(np.int64), np.array(spent, np.int64))
            if rule.match is not None:
                hit &= _matches(rule.match, rows, hit, source)
            struck[hit] = at
            free &= ~hit
    finally:
        database.close()
    return struck, rules


def _selected(rule: RequestRule, name: str, seed: int, rows: npt.NDArray[Any]) -> Mask:
    chosen = np.ones(len(rows), bool)
    if rule.share is not None and rule.share < 1:
        chosen &= _mix(rows["question"] ^ np.uint64(seed_of(seed, name))) < np.uint64(rule.share * 2**64)
    numbers = np.arange(1, len(rows) + 1)
    if rule.every is not None:
        chosen &= numbers % rule.every == 0
    if rule.lines is not None:
        chosen &= np.isin(numbers, list(rule.lines))
    return chosen


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """As `faults._mix`."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def needles(match: str) -> tuple[bytes, bytes]:
    """The two ways in which JSON writes a text: as UTF-8 and as ASCII with escapes."""
    return orjson.dumps(match)[1:-1], json.dumps(match)[1:-1].encode()


def _matches(match: str, rows: npt.NDArray[Any], among: Mask, source: Any) -> Mask:
    found = np.zeros(len(rows), bool)
    plain, escaped = needles(match)
    for index in np.flatnonzero(among).tolist():
        # To the next request's line, or to the end; blank lines between them do no harm.
        line = source[int(rows["source"][index]) : int(rows["source"][index + 1]) if index + 1 < len(rows) else None]
        found[index] = plain in line or escaped in line
    return found


@dataclass(slots=True)
class _Writer:
    dialect: Dialect
    lines: Any
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    bad: Mask
    struck: npt.NDArray[np.int64]
    rules: list[tuple[str, RequestRule]]

    def write(self, order: Indices, output: Any, errors: Any) -> None:
        lines = self.lines
        special = self.bad | (self.struck != NOBODY)
        for at in range(0, len(order), CHUNK_LINES):
            chunk = order[at : at + CHUNK_LINES]
            spans = zip(self.starts[chunk].tolist(), self.ends[chunk].tolist(), strict=True)
            odd = special[chunk]
            if not odd.any():
                output.write(b"".join([lines[start:end] for start, end in spans]))
                continue
            good: list[bytes] = []
            wrong: list[bytes] = []
            for index, strange, (start, end) in zip(chunk.tolist(), odd.tolist(), spans, strict=True):
                line = lines[start:end]
                if not strange:
                    good.append(line)
                elif self.bad[index]:
                    wrong.append(line)
                elif self.struck[index] != LOST:
                    instead, in_errors = self.dialect.faulty(self.rules[self.struck[index]][1], line)
                    good += instead
                    wrong += in_errors
            output.write(b"".join(good))
            errors.write(b"".join(wrong))


def _page(
    job: FinishJob,
    rows: npt.NDArray[Any],
    done: Indices,
    struck: npt.NDArray[np.int64],
    rules: list[tuple[str, RequestRule]],
) -> npt.NDArray[Any]:
    page = np.zeros(len(rows), PAGE_ROW)
    for name in ("question", "input", "output"):
        page[name] = rows[name]
    page["ending"] = Ending.cancelled if job.ending == "cancelled" else Ending.expired
    page["ending"][done] = Ending.answered
    page["billed"][done] = 1
    page["ending"][struck == LOST], page["billed"][struck == LOST] = Ending.missing, 0
    for at, (_, rule) in enumerate(rules):
        page["ending"][struck == at] = ending_of(rule)
        page["billed"][struck == at] = is_billed(rule)
    bad = np.zeros(len(rows), bool)
    bad[done] = rows["bad"][done] == 1
    page["ending"][bad], page["billed"][bad] = Ending.error, 0
    return page


def _write_struck(
    job: FinishJob, rows: npt.NDArray[Any], struck: npt.NDArray[np.int64], rules: list[tuple[str, RequestRule]]
) -> None:
    """Rule and question of each strike that counts, for the process that owns the database."""
    with job.struck.open("wb") as file:
        for at, (name, rule) in enumerate(rules):
            if rule.times is not None:
                file.writelines(
                    b"%b %d\n" % (name.encode(), question) for question in rows["question"][struck == at].tolist()
                )
