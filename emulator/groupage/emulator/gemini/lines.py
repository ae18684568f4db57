"""Lines of a batch: requests as they are stored here, results as they stand in the one results file."""

from typing import Any

import orjson
from groupage.emulator.answers import BadBody
from groupage.emulator.dialects import Dialect
from groupage.emulator.faults import RequestRule
from groupage.emulator.gemini.errors import row_error, rule_error
from groupage.emulator.gemini.replies import refuse, truncate

_RESPONSE = b',"response":'


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    record = orjson.loads(line)
    return record["key"], record


def _result(identity: bytes, _code: str, _count: int, reply: bytes) -> bytes:
    return b'{"key":%b,"response":%b}\n' % (identity, reply)


def _refused(identity: bytes, _code: str, _count: int, error: BadBody) -> bytes:
    return b'{"key":%b,"error":%b}\n' % (identity, orjson.dumps(row_error("INVALID_ARGUMENT", str(error))))


def _faulty(rule: RequestRule, line: bytes) -> tuple[list[bytes], list[bytes]]:
    """Lines in place of one healthy line; there is only one file."""
    return _lines(rule, line), []


def _lines(rule: RequestRule, line: bytes) -> list[bytes]:  # noqa: PLR0911  # one return a kind
    # Quotes inside the key are escaped, so the first match is the row's own.
    head, kind = line[: line.index(_RESPONSE)], rule.kind
    if kind in ("http", "credit"):
        _, word, message = rule_error(rule)
        return [b'%b,"error":%b}\n' % (head, orjson.dumps(row_error(word, message)))]
    if kind == "status_zero":
        return [b'%b,"error":{"code":0,"message":""}}\n' % head]
    if kind in ("missing", "expired"):
        return []
    if kind == "empty_body":
        return [b"%b%b{}}\n" % (head, _RESPONSE)]
    if kind == "duplicate":
        return [line, line]
    if kind == "unknown_id":
        return [line, b'{"key":"not-of-this-batch"' + line[len(head) :]]
    middle = len(head) + (len(line) - len(head)) // 2
    if kind == "invalid_utf8":
        return [line[:middle] + b"\xff\xfe" + line[middle:]]
    if kind == "malformed":
        return [line[:middle] + b"\n"]
    if kind == "not_an_object":
        return [b'["a line that is no object"]\n']
    result = orjson.loads(line)
    (truncate if kind == "truncated" else refuse)(result["response"])
    return [orjson.dumps(result) + b"\n"]


def _unfinished(_line: bytes, _ending: str) -> bytes:
    """Requests that did not run are in no file."""
    return b""


DIALECT = Dialect(
    id_prefix="gemini_",
    faulty=_faulty,
    unfinished=_unfinished,
    read=_read,
    result=_result,
    refused=_refused,
    one_file=True,
    expiry_loses_all=True,
)
