"""Lines of Bedrock's jobs: records as they are stored here, result lines as they are written to S3."""

from typing import Any

import orjson
from groupage.emulator.answers import BadBody, BadRecord
from groupage.emulator.bedrock.errors import PAYMENT, error_of
from groupage.emulator.bedrock.replies import refuse, truncate
from groupage.emulator.dialects import Dialect, in_no_file, in_one_file
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import damaged_lines

_OUTPUT = b',"modelOutput":'


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    record = orjson.loads(line)
    return record["recordId"], record


def _result(identity: bytes, _code: str, _count: int, reply: bytes) -> bytes:
    return b'{"recordId":%b,%b}\n' % (identity, reply)


def _refused(identity: bytes, _code: str, _count: int, error: BadBody) -> bytes:
    echo = error.echo if isinstance(error, BadRecord) else b"{}"
    return b'{"recordId":%b,"modelInput":%b,"error":%b}\n' % (identity, echo, _error(400, str(error)))


def _error(status: int, message: str) -> bytes:
    return orjson.dumps({"errorCode": status, "errorMessage": message})


def rule_error(rule: RequestRule) -> tuple[int, str, str | None]:
    """(status, message, code) of the kinds http and credit."""
    if rule.kind == "credit":
        status = rule.status if "status" in rule.model_fields_set else 403
        return status, rule.message or PAYMENT, rule.code
    return rule.status, str(error_of(rule.status, rule.code, rule.message)["message"]), rule.code


def _head(line: bytes) -> bytes:
    """Everything before the model's output."""
    return line[: line.rindex(_OUTPUT)]


def _lines(rule: RequestRule, line: bytes) -> list[bytes]:
    """In place of one healthy line."""
    head, kind = _head(line), rule.kind
    if kind in ("http", "credit"):
        status, message, _ = rule_error(rule)
        return [b'%b,"error":%b}\n' % (head, _error(status, message))]
    if kind == "status_zero":
        return [b'%b,"error":%b}\n' % (head, _error(0, ""))]
    if kind == "expired":
        return []
    if kind == "empty_body":
        return [b"%b%b{}}\n" % (head, _OUTPUT)]
    stray = b'{"recordId":"not-of-this-batch"' + line[line.index(b',"modelInput":') :]
    damaged = damaged_lines(kind, line, len(head), stray)
    if damaged is not None:
        return damaged
    result = orjson.loads(line)
    (truncate if kind == "truncated" else refuse)(result["modelOutput"])
    return [orjson.dumps(result) + b"\n"]


DIALECT = Dialect(
    id_prefix="bedrock_",
    faulty=in_one_file(_lines),
    unfinished=in_no_file,
    read=_read,
    result=_result,
    refused=_refused,
    one_file=True,
    # Quotas are refused when a job is created: a fault of the call (ServiceQuotaExceededException).
    unknown_effects=frozenset({"token_limit"}),
)
