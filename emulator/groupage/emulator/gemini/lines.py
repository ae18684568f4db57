"""Lines of a batch: requests as they are stored here, results as they stand in the one results file."""

from typing import Any

import orjson
from groupage.emulator.answers import BadBody
from groupage.emulator.dialects import Dialect, in_no_file, in_one_file
from groupage.emulator.faults import RequestRule
from groupage.emulator.gemini.errors import row_error, rule_error
from groupage.emulator.gemini.replies import refuse, truncate
from groupage.emulator.outcomes import damaged_lines

_RESPONSE = b',"response":'


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    record = orjson.loads(line)
    return record["key"], record


def _result(identity: bytes, _code: str, _count: int, reply: bytes) -> bytes:
    return b'{"key":%b,"response":%b}\n' % (identity, reply)


def _refused(identity: bytes, _code: str, _count: int, error: BadBody) -> bytes:
    return b'{"key":%b,"error":%b}\n' % (identity, orjson.dumps(row_error("INVALID_ARGUMENT", str(error))))


def _lines(rule: RequestRule, line: bytes) -> list[bytes]:
    """In place of one healthy line."""
    # Quotes inside the key are escaped, so the first match is the row's own.
    head, kind = line[: line.index(_RESPONSE)], rule.kind
    if kind in ("http", "credit"):
        _, word, message = rule_error(rule)
        return [b'%b,"error":%b}\n' % (head, orjson.dumps(row_error(word, message)))]
    if kind == "status_zero":
        return [b'%b,"error":{"code":0,"message":""}}\n' % head]
    if kind == "expired":
        return []
    if kind == "empty_body":
        return [b"%b%b{}}\n" % (head, _RESPONSE)]
    stray = b'{"key":"not-of-this-batch"' + line[len(head) :]
    damaged = damaged_lines(kind, line, len(head), stray)
    if damaged is not None:
        return damaged
    result = orjson.loads(line)
    (truncate if kind == "truncated" else refuse)(result["response"])
    return [orjson.dumps(result) + b"\n"]


DIALECT = Dialect(
    id_prefix="gemini_",
    faulty=in_one_file(_lines),
    unfinished=in_no_file,
    read=_read,
    result=_result,
    refused=_refused,
    one_file=True,
    expiry_loses_all=True,
)
