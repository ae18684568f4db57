"""The heavy work on a batch's lines: reading its input, writing its results. Runs in the worker process.

`check` reads the input once, refuses what OpenAI refuses, and writes every healthy result line in input
order. `finish` only copies those lines in the order they finished, and puts the plan's faults in place
of some. Both stream: memory holds some 40 bytes a request, never the file.
"""

import mmap
from array import array
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from groupage.emulator.answers import BadBody, answerer

CHUNK_LINES = 2048
ERRORS_SHOWN = 100
ROW: np.dtype[Any] = np.dtype(
    [
        ("question", "<u8"),
        ("source", "<u8"),
        ("size", "<u4"),
        ("input", "<u4"),
        ("output", "<u4"),
        ("bad", "u1"),
    ]
)
"""One request: fingerprint, where its input line begins, size of its result line, tokens, whether its body is bad."""

_RESULT = (
    b'{"id":"batch_req_%b%06x","custom_id":%b,"response":{"status_code":%d,"request_id":"req_%b%06x","body":%b},'
    b'"error":null}\n'
)


def _openai_line(code: bytes, count: int, identity: bytes, status: int, reply: bytes) -> bytes:
    return _RESULT % (code, count, identity, status, code, count, reply)


@dataclass(frozen=True, slots=True)
class Form:
    """How an uploaded file of lines like OpenAI's is read, and how its result lines are written.

    line   (code of the batch, number of the line, id as JSON, status, reply) to a result line
    urls   a batch's endpoint to the ways in which lines may name it
    codes  OpenAI's words for what is wrong with a file, to another provider's
    """

    line: Callable[[bytes, int, bytes, int, bytes], bytes] = _openai_line
    urls: Callable[[str], tuple[str, ...]] = lambda endpoint: (endpoint,)
    codes: Mapping[str, str] = field(default_factory=dict)


_OPENAI = Form()


@dataclass(frozen=True, slots=True)
class CheckJob:
    """Paths are absolute. `code` is the part of the batch's id that goes into line ids."""

    code: str
    endpoint: str
    source: Path
    lines: Path
    rows: Path
    ids: Path
    created: int
    answer_bytes: int
    max_requests: int
    max_batch_bytes: int
    max_embedding_inputs: int
    dialect: str = "openai"


def line_error(code: str, message: str, line: int | None, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": param}


def check(job: CheckJob) -> dict[str, Any]:
    """{total, tokens, model, errors} as `life.Checked` has them."""
    form = _OPENAI
    if job.dialect != "openai":
        from groupage.emulator.dialects import check_lines, dialect_of

        other = dialect_of(job.dialect).form
        if other is None:
            return check_lines(job)
        form = other
    size = job.source.stat().st_size
    if size > job.max_batch_bytes:
        message = f"The input file is {size} bytes; the limit for a batch is {job.max_batch_bytes} bytes."
        return _refused([line_error("file_too_large", message, None)], form)
    reader = _Reader(job, form)
    with job.source.open("rb", buffering=1 << 20) as source, job.lines.open("wb") as lines, job.ids.open("wb") as ids:
        reader.read(source, lines, ids)
    if not reader.errors and not reader.count:
        reader.errors.append(line_error("empty_file", "The input file is empty: it holds no requests.", None))
    if reader.errors:
        return _refused(reader.errors, form)
    rows = reader.rows()
    rows.tofile(job.rows)
    return {"total": reader.count, "tokens": int(rows["input"].sum()), "model": reader.model, "errors": []}


def _refused(errors: list[dict[str, Any]], form: Form) -> dict[str, Any]:
    said = [error | {"code": form.codes.get(error["code"], error["code"])} for error in errors[:ERRORS_SHOWN]]
    return {"total": 0, "tokens": 0, "model": None, "errors": said}


class _Reader:
    """State of one pass over an input file."""

    def __init__(self, job: CheckJob, form: Form) -> None:
        self.job, self.form = job, form
        self.count = 0
        self.model: str | None = None
        self.errors: list[dict[str, Any]] = []
        self.embedding_inputs = 0
        self._columns = {name: array("Q") for name in ("question", "source", "size", "input", "output")}
        self._bad: list[int] = []

    def rows(self) -> npt.NDArray[Any]:
        rows = np.empty(self.count, ROW)
        for name, column in self._columns.items():
            rows[name] = np.frombuffer(column, np.uint64)
        rows["bad"] = 0
        rows["bad"][self._bad] = 1
        return rows

    def read(self, source: Any, lines: Any, ids: Any) -> None:  # noqa: C901, PLR0915  # one loop, inlined for speed
        # Local names: this loop runs a million times in a benchmark.
        job, loads, dumps = self.job, orjson.loads, orjson.dumps
        endpoint, code, created = job.endpoint, job.code.encode(), job.created
        answer = answerer(endpoint, job.answer_bytes)
        write, urls = self.form.line, self.form.urls(endpoint)
        seen: set[str] = set()
        columns = self._columns
        add_question, add_source = columns["question"].append, columns["source"].append
        add_size = columns["size"].append
        add_input, add_output = columns["input"].append, columns["output"].append
        made: list[bytes] = []
        made_ids: list[bytes] = []
        model: str | None = None
        number = offset = count = 0
        for raw in source:
            number += 1
            at, offset = offset, offset + len(raw)
            try:
                request = loads(raw)
                custom_id, body = request["custom_id"], request["body"]
                fits = (
                    request["url"] in urls
                    and request["method"] == "POST"
                    and body["model"] == model
                    and model
                    and custom_id.__class__ is str
                    and custom_id not in seen
                    and custom_id
                )
            except (ValueError, KeyError, TypeError):
                fits = False
            if not fits:
                if not raw.strip():
                    continue
                error, model = _diagnose(raw, number, urls, model, seen)
                if error is not None:
                    self.errors.append(error)
                    if len(self.errors) >= ERRORS_SHOWN:
                        return
                    continue
            if count == job.max_requests:
                message = f"The input file holds more than {job.max_requests} requests."
                self.errors.append(line_error("too_many_tasks", message, number))
                return
            seen.add(custom_id)
            identity = dumps(custom_id)
            try:
                question, used, produced, reply = answer(body, created)
                line = write(code, count, identity, 200, reply)
            except BadBody as bad:
                question, used, produced = 0, 0, 0
                reply = dumps(error_body(str(bad), "invalid_request_error", None, bad.param))
                line = write(code, count, identity, 400, reply)
                self._bad.append(count)
            if endpoint == "/v1/embeddings":
                self._count_inputs(body, number)
            add_question(question)
            add_source(at)
            add_size(len(line))
            add_input(used)
            add_output(produced)
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
        self.count, self.model = count, model

    def _count_inputs(self, body: dict[str, Any], number: int) -> None:
        given = body.get("input")
        before = self.embedding_inputs
        # A list of texts, or of lists of tokens; one list of tokens is one input.
        if isinstance(given, list) and given and isinstance(given[0], (str, list)):
            self.embedding_inputs += len(given)
        else:
            self.embedding_inputs += 1
        limit = self.job.max_embedding_inputs
        if before <= limit < self.embedding_inputs:
            message = f"The batch holds more than {limit} embedding inputs."
            self.errors.append(line_error("too_many_inputs", message, number))


def _diagnose(  # noqa: C901, PLR0911  # one check after the other
    raw: bytes, number: int, urls: tuple[str, ...], model: str | None, seen: set[str]
) -> tuple[dict[str, Any] | None, str | None]:
    """(what is wrong with a line, the batch's model). The first request sets the model and is no error."""
    try:
        request = orjson.loads(raw)
    except ValueError:
        return line_error("invalid_json_line", "This line is not parseable as valid JSON.", number), model
    if not isinstance(request, dict):
        return line_error("invalid_json_line", "This line is not a JSON object.", number), model
    for key in ("custom_id", "method", "url", "body"):
        if request.get(key) in (None, ""):
            message = f"Missing required parameter: '{key}'."
            return line_error("missing_required_parameter", message, number, key), model
    custom_id, body = request["custom_id"], request["body"]
    if not isinstance(custom_id, str):
        return line_error(
            "invalid_type", "Invalid type for 'custom_id': expected a string.", number, "custom_id"
        ), model
    if custom_id in seen:
        message = f"The custom_id '{custom_id}' is a duplicate: it must be unique for each request in a batch."
        return line_error("duplicate_custom_id", message, number, "custom_id"), model
    if request["method"] != "POST":
        return line_error("invalid_method", "The method of every request must be POST.", number, "method"), model
    if request["url"] not in urls:
        message = f"The URL provided for this request does not match the batch endpoint {urls[0]}."
        return line_error("invalid_url", message, number, "url"), model
    if not isinstance(body, dict):
        return line_error("invalid_type", "Invalid type for 'body': expected an object.", number, "body"), model
    given = body.get("model")
    if not isinstance(given, str):
        return line_error("missing_required_parameter", "Missing required parameter: 'model'.", number, "model"), model
    if model is not None and given != model:
        message = f"The model '{given}' does not match the model '{model}' of the batch's other requests."
        return line_error("mismatched_model", message, number, "model"), model
    return None, given


def error_body(message: str, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@contextmanager
def mapped(path: Path) -> Generator[mmap.mmap | bytes]:
    """A file's bytes, not read into memory."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield view
