"""Rows of Vertex's jobs: records as they are stored here, results as they stand in the predictions.

All rows are in one table or set of files. What failed has a text in `status`; a request that did not run has a row of
its own, which only the plan's `request_only` lets through (rows.py).
"""

import re
from http import HTTPStatus
from typing import Any

import orjson
from groupage.emulator.answers import BadBody, BadRecord
from groupage.emulator.bedrock import replies as claude
from groupage.emulator.dialects import Dialect, in_one_file
from groupage.emulator.faults import RequestRule
from groupage.emulator.gemini import replies as gemini
from groupage.emulator.gemini.errors import error_of, rule_error
from groupage.emulator.outcomes import damaged_lines
from groupage.emulator.vertex.answers import AT

LABEL_OR_ID = re.compile(rb'"(groupage_id|custom_id|wire_id)":"[^"]*"')


def truncate(reply: dict[str, Any]) -> None:
    (claude if "content" in reply else gemini).truncate(reply)


def refuse(reply: dict[str, Any]) -> None:
    (claude if "content" in reply else gemini).refuse(reply)


def status_text(status: int, word: str | None, message: str | None) -> str:
    """As rows have it: `Bad Request: {"error": {...}}`."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
    return f"{phrase}: {orjson.dumps(error_of(status, word, message)).decode()}"


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    record = orjson.loads(line)
    return record["key"], record


def _result(_identity: bytes, _code: str, _count: int, reply: bytes) -> bytes:
    return b'{"status":"",%b}\n' % reply


def _refused(_identity: bytes, _code: str, _count: int, error: BadBody) -> bytes:
    assert isinstance(error, BadRecord)
    return b'{"status":%b,%b}\n' % (orjson.dumps(status_text(400, None, str(error))), error.echo)


def _lines(rule: RequestRule, line: bytes) -> list[bytes]:
    """In place of one healthy line."""
    kind = rule.kind
    stray = LABEL_OR_ID.sub(rb'"\1":"not-of-this-batch"', line, count=1)
    # What a row repeats may hold anything; behind the time there is only the reply.
    damaged = damaged_lines(kind, line, line.rindex(AT), stray)
    if damaged is not None:
        return damaged
    return [_unfinished(line, kind) if kind == "expired" else _changed(rule, line)]


def _changed(rule: RequestRule, line: bytes) -> bytes:
    """A row of the same shape, with something else in it."""
    row, kind = orjson.loads(line), rule.kind
    if kind in ("http", "credit"):
        row["status"], row["response"] = status_text(*rule_error(rule)), {}
    elif kind == "status_zero":
        row["status"], row["response"] = "Internal failure.", {}
    elif kind == "empty_body":
        row["response"] = {}
    else:
        (truncate if kind == "truncated" else refuse)(row["response"])
    return orjson.dumps(row) + b"\n"


def _unfinished(line: bytes, _ending: str) -> bytes:
    row = orjson.loads(line)
    return orjson.dumps({name: row[name] for name in row if name not in _NEW}) + b"\n"


_NEW = frozenset({"status", "response", "processed_time"})

DIALECT = Dialect(
    id_prefix="vertex_",
    faulty=in_one_file(_lines),
    unfinished=_unfinished,
    read=_read,
    result=_result,
    refused=_refused,
    one_file=True,
    results_life_s=None,
    max_requests=200_000,
    # Quotas are refused when a job is created: a fault of the call.
    unknown_effects=frozenset({"token_limit"}),
)
