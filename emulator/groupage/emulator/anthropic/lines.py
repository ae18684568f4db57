"""Lines of Anthropic's batches: requests as they are stored here, results as they are downloaded."""

from typing import Any

import orjson
from groupage.emulator.answers import BadBody
from groupage.emulator.anthropic.errors import CREDIT, error_of
from groupage.emulator.dialects import Dialect, in_one_file
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import damaged_lines

_SUCCEEDED = b'{"custom_id":%b,"result":{"type":"succeeded","message":%b}}\n'
_RESULT = b',"result":'
_ENDINGS = {"expired": b'{"type":"expired"}', "cancelled": b'{"type":"canceled"}'}


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    request = orjson.loads(line)
    return request["custom_id"], request["params"]


def _result(identity: bytes, _code: str, _count: int, reply: bytes) -> bytes:
    return _SUCCEEDED % (identity, reply)


def _refused(identity: bytes, _code: str, _count: int, error: BadBody) -> bytes:
    return b'{"custom_id":%b,"result":%b}\n' % (identity, _errored(error_of(400, None, str(error))))


def _errored(error: Any) -> bytes:
    return orjson.dumps({"type": "errored", "error": error})


def _head(line: bytes) -> bytes:
    """`{"custom_id":"…"`: quotes inside the id are escaped, so the first match is the key."""
    return line[: line.index(_RESULT)]


def _unfinished(line: bytes, ending: str) -> bytes:
    return _head(line) + _RESULT + _ENDINGS[ending] + b"}\n"


def rule_error(rule: RequestRule) -> tuple[int, dict[str, Any]]:
    """Status and error object of the kinds http and credit."""
    if rule.kind == "credit":
        # 500 is the rule's default: it stands for nothing that was asked for.
        status = 400 if rule.status == 500 else rule.status
        return status, error_of(status, rule.code, rule.message or CREDIT)
    return rule.status, error_of(rule.status, rule.code, rule.message)


def truncate(message: dict[str, Any]) -> None:
    """Cut an answer's text in half, as a token limit would."""
    message["stop_reason"] = "max_tokens"
    for block in message["content"]:
        if block["type"] == "text":
            block["text"] = block["text"][: len(block["text"]) // 2]


def refuse(message: dict[str, Any]) -> None:
    """Nothing is said, and the stop reason says why."""
    message["stop_reason"] = "refusal"
    message["stop_details"] = {"type": "refusal", "category": "general_harms", "explanation": "It could do harm."}
    message["content"] = []


def _lines(rule: RequestRule, line: bytes) -> list[bytes]:
    """In place of one healthy line."""
    head, kind = _head(line), rule.kind
    simple = {
        # A type that no document knows stands for "nothing came back" (RP-11, RP-17).
        "status_zero": b'{"type":"deferred"}',
        "expired": _ENDINGS["expired"],
        "empty_body": b'{"type":"succeeded","message":{}}',
    }
    if kind in simple:
        return [head + _RESULT + simple[kind] + b"}\n"]
    if kind in ("http", "credit"):
        return [head + _RESULT + _errored(rule_error(rule)[1]) + b"}\n"]
    stray = b'{"custom_id":"not-of-this-batch"' + line[len(head) :]
    damaged = damaged_lines(kind, line, len(head), stray)
    if damaged is not None:
        return damaged
    result = orjson.loads(line)
    (truncate if kind == "truncated" else refuse)(result["result"]["message"])
    return [orjson.dumps(result) + b"\n"]


DIALECT = Dialect(
    id_prefix="msgbatch_",
    faulty=in_one_file(_lines),
    unfinished=_unfinished,
    read=_read,
    result=_result,
    refused=_refused,
    one_file=True,
    # A batch here cannot fail as a whole: requests are looked at one by one.
    unknown_effects=frozenset({"token_limit", "fail", "refuse"}),
)
