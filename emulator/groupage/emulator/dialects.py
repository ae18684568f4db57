"""How each provider's lines look: what the worker process reads, and what it writes into result files.

OpenAI's lines are read by `work.py` itself, for speed; the others take the loop below. A provider's module
is imported when its first batch is worked on.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import orjson
from groupage.emulator.answers import BadBody, answerer
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import faulty_lines, head_of, unfinished_line
from groupage.emulator.work import CHUNK_LINES, ROW, CheckJob, Form

Faulty = Callable[[RequestRule, bytes], tuple[list[bytes], list[bytes]]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One provider's lines. All functions are pure; a result line ends with a newline.

    read        an input line to (id, body); ValueError where it is neither
    result      (id as JSON, code of the batch, number of the line, reply) to a healthy result line
    refused     the same for a body that cannot be answered
    form        instead of these three: a file of lines like OpenAI's, read by `work.py`
    faulty      (lines for the output, lines for the error file) in place of a healthy line
    unfinished  the line of a request that did not run, from its healthy line and "expired" or "cancelled"
    """

    id_prefix: str
    faulty: Faulty
    unfinished: Callable[[bytes, str], bytes]
    read: Callable[[bytes], tuple[str, dict[str, Any]]] | None = None
    result: Callable[[bytes, str, int, bytes], bytes] | None = None
    refused: Callable[[bytes, str, int, BadBody], bytes] | None = None
    form: Form | None = None
    one_file: bool = False
    """Errors stand among the answers; there is no error file."""
    expiry_loses_all: bool = False
    """A batch that expires has no results at all, and bills nothing."""
    empty_errors: bool = False
    """The error file is there even where it is empty."""
    results_life_s: float | None = 30 * 86_400.0
    """After which result files go unless the batch said otherwise; None: never."""
    max_requests: int = 50_000
    """Of one batch, where the emulator is not told otherwise."""
    unknown_effects: frozenset[str] = frozenset()
    """Effects of the fault plan that batches of this provider cannot have."""


def in_one_file(lines: Callable[[RequestRule, bytes], list[bytes]]) -> Faulty:
    """For providers that have no error file."""

    def faulty(rule: RequestRule, line: bytes) -> tuple[list[bytes], list[bytes]]:
        return lines(rule, line), []

    return faulty


def in_no_file(_line: bytes, _ending: str) -> bytes:
    """For providers that leave out requests that did not run."""
    return b""


def _unfinished(line: bytes, ending: str) -> bytes:
    return unfinished_line(head_of(line), f"batch_{ending}")


_OPENAI = Dialect("batch_", faulty_lines, _unfinished)


@cache
def dialect_of(name: str) -> Dialect:
    """Raises LookupError for a name that no provider has."""
    if name == "openai":
        return _OPENAI
    if name == "anthropic":
        from groupage.emulator.anthropic.lines import DIALECT

        return DIALECT
    if name == "azure":
        from groupage.emulator.azure.lines import DIALECT as AZURE

        return AZURE
    if name == "bedrock":
        from groupage.emulator.bedrock.lines import DIALECT as BEDROCK

        return BEDROCK
    if name == "gemini":
        from groupage.emulator.gemini.lines import DIALECT as GEMINI

        return GEMINI
    if name == "vertex":
        from groupage.emulator.vertex.lines import DIALECT as VERTEX

        return VERTEX
    raise LookupError(f"no dialect is called {name!r}")


def check_lines(job: CheckJob) -> dict[str, Any]:
    """As `work.check`, for input whose form was checked when the batch was created."""
    dialect = dialect_of(job.dialect)
    assert dialect.read is not None
    assert dialect.result is not None
    assert dialect.refused is not None
    answer = answerer(job.endpoint, job.answer_bytes)
    columns = {name: array("Q") for name in ("question", "source", "size", "input", "output", "bad")}
    model: str | None = None
    offset = count = 0
    with job.source.open("rb", buffering=1 << 20) as source, job.lines.open("wb") as lines, job.ids.open("wb") as ids:
        made: list[bytes] = []
        made_ids: list[bytes] = []
        for raw in source:
            at, offset = offset, offset + len(raw)
            custom_id, body = dialect.read(raw)
            model = model or body.get("model")
            identity = orjson.dumps(custom_id)
            try:
                question, used, produced, reply = answer(body, job.created)
                line, bad = dialect.result(identity, job.code, count, reply), 0
            except BadBody as error:
                question = used = produced = 0
                line, bad = dialect.refused(identity, job.code, count, error), 1
            row = {"question": question, "source": at, "size": len(line), "input": used, "output": produced, "bad": bad}
            for name, value in row.items():
                columns[name].append(value)
            made.append(line)
            made_ids.append(identity)
            count += 1
            if len(made) == CHUNK_LINES:
                lines.write(b"".join(made))
                ids.write(b"\n".join(made_ids) + b"\n")
                made.clear()
                made_ids.clear()
        lines.write(b"".join(made))
        if made_ids:
            ids.write(b"\n".join(made_ids) + b"\n")
    rows = np.empty(count, ROW)
    for name, column in columns.items():
        rows[name] = np.frombuffer(column, np.uint64)
    rows.tofile(job.rows)
    return {"total": count, "tokens": int(rows["input"].sum()), "model": model, "errors": []}
