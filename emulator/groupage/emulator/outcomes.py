"""How one request ended at the provider, what that looks like in the files, and who pays."""

import re
from enum import IntEnum
from typing import Any

import orjson
from groupage.emulator.faults import RequestRule
from groupage.emulator.work import error_body


class Ending(IntEnum):
    """As the ledger stores it. The first three are answers that a reader can use."""

    answered = 0
    truncated = 1
    refused = 2
    error = 3
    damaged = 4
    missing = 5
    expired = 6
    cancelled = 7
    lost = 8
    """A sync answer that was made and billed, but whose reply was lost."""


USABLE = (Ending.answered, Ending.truncated, Ending.refused)

_ENDINGS = {
    "http": Ending.error,
    "credit": Ending.error,
    "status_zero": Ending.error,
    "missing": Ending.missing,
    "duplicate": Ending.answered,
    "unknown_id": Ending.answered,
    "odd_json": Ending.answered,
    "truncated": Ending.truncated,
    "refused": Ending.refused,
    "empty_body": Ending.damaged,
    "invalid_utf8": Ending.damaged,
    "malformed": Ending.damaged,
    "not_an_object": Ending.damaged,
    "expired": Ending.expired,
}
_UNBILLED = frozenset({Ending.error, Ending.missing, Ending.expired, Ending.cancelled})
FAILED_KINDS = frozenset({"http", "credit", "expired"})
"""What the provider counts as failed. status_zero is counted as completed: that is the fault (RP-11)."""

_MESSAGES = {
    400: ("invalid_request_error", "invalid_value", "The request was not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    404: ("invalid_request_error", "not_found", "The resource was not found."),
    408: ("timeout", "request_timeout", "The request timed out."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached: please try again later."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("service_unavailable", None, "The engine is currently overloaded, please try again later."),
}


def ending_of(rule: RequestRule) -> Ending:
    return _ENDINGS[rule.kind]


def is_billed(rule: RequestRule) -> bool:
    return rule.billed if rule.billed is not None else ending_of(rule) not in _UNBILLED


def http_error(status: int, code: str | None, message: str | None) -> dict[str, Any]:
    kind, usual_code, usual_message = _MESSAGES.get(
        status, _MESSAGES[500] if status >= 500 else ("invalid_request_error", None, "The request failed.")
    )
    return error_body(message or usual_message, kind, code or usual_code)


def rule_error(rule: RequestRule) -> tuple[int, dict[str, Any]]:
    """Status and error object of the kinds http and credit."""
    if rule.kind == "credit":
        status = rule.status if "status" in rule.model_fields_set else 429
        message = rule.message or "You exceeded your current quota, please check your plan and billing details."
        return status, error_body(message, "insufficient_quota", rule.code or "insufficient_quota")
    return rule.status, http_error(rule.status, rule.code, rule.message)


def truncate(body: dict[str, Any]) -> None:
    """Cut an answer's text in half, as a token limit would. Embeddings and the like stay as they are."""
    for choice in body.get("choices", ()):
        choice["finish_reason"] = "length"
        if "text" in choice:
            choice["text"] = choice["text"][: len(choice["text"]) // 2]
        elif choice["message"].get("content"):
            text = choice["message"]["content"]
            choice["message"]["content"] = text[: len(text) // 2]
    if body.get("object") == "response":
        body["status"] = "incomplete"
        body["incomplete_details"] = {"reason": "max_output_tokens"}
        for item in body["output"]:
            item["status"] = "incomplete"
            for part in item.get("content", ()):
                part["text"] = part["text"][: len(part["text"]) // 2]


def refuse(body: dict[str, Any]) -> None:
    """Turn an answer into a refusal: a refusal text in chat and responses, content_filter in completions."""
    words = "I'm sorry, I can't help with that."
    for choice in body.get("choices", ()):
        choice["finish_reason"] = "content_filter"
        if "text" in choice:
            choice["text"] = ""
        else:
            choice["message"] |= {"content": None, "refusal": words}
            choice["message"].pop("tool_calls", None)
    if body.get("object") == "response":
        message = {"id": "msg_refused", "type": "message", "status": "completed", "role": "assistant"}
        body["output"] = [message | {"content": [{"type": "refusal", "refusal": words}]}]


def unfinished_line(head: bytes, code: str) -> bytes:
    message = {
        "batch_expired": "This request could not be executed before the completion window expired.",
        "batch_cancelled": "This request could not be executed before the batch was cancelled.",
    }[code]
    return b'%b,"response":null,"error":%b}\n' % (head, orjson.dumps({"code": code, "message": message}))


def head_of(line: bytes) -> bytes:
    """`{"id":"…","custom_id":"…"`: quotes inside the id are escaped, so the first match is the key."""
    return line[: line.index(b',"response":{')]


def faulty_lines(rule: RequestRule, line: bytes) -> tuple[list[bytes], list[bytes]]:
    """(lines of the output file, lines of the error file) in place of one healthy result line."""
    head = head_of(line)
    kind = rule.kind
    if kind in ("http", "credit"):
        status, error = rule_error(rule)
        response = orjson.dumps({"status_code": status, "request_id": "req_fault", "body": error})
        return [], [b'%b,"response":%b,"error":null}\n' % (head, response)]
    if kind == "status_zero":
        return [], [b'%b,"response":{"status_code":0,"request_id":"","body":{}},"error":null}\n' % head]
    if kind == "expired":
        return [], [unfinished_line(head, "batch_expired")]
    return [*_damaged(kind, head, line)], []


def _damaged(kind: str, head: bytes, line: bytes) -> list[bytes]:
    if kind == "empty_body":
        return [b'%b,"response":{"status_code":200,"request_id":"req_fault","body":{}},"error":null}\n' % head]
    stray = b'{"id":"batch_req_stray","custom_id":"not-of-this-batch"' + line[len(head) :]
    damaged = damaged_lines(kind, line, len(head), stray)
    if damaged is not None:
        return damaged
    result = orjson.loads(line)
    (truncate if kind == "truncated" else refuse)(result["response"]["body"])
    return [orjson.dumps(result) + b"\n"]


_FINGERPRINT = re.compile(rb"\[[0-9a-f]{16}\]")
_ARGUMENTS = re.compile(rb'"(?:input|args)":\{(?=")')
_USAGE = re.compile(rb'"(?:usage|usageMetadata|prompt_token_count)":')


def odd_json(reply: bytes) -> bytes:
    """The same reply as some readers of JSON refuse it: half a character behind the text's fingerprint, and numbers
    that no float holds. A call's arguments, where they are values, get a number of 22 digits.
    """
    reply = _FINGERPRINT.sub(rb"\g<0>\\ud83d", reply, count=1)
    reply = _ARGUMENTS.sub(rb'\g<0>"number":9400111899223197428490,', reply, count=1)
    return _USAGE.sub(rb'"odd":[NaN,-Infinity,1e400],\g<0>', reply, count=1)


def damaged_lines(kind: str, line: bytes, head: int, stray: bytes) -> list[bytes] | None:
    """In place of one healthy line of any provider's: for the kinds that spare what is in it; None for the others.

    It is broken in the middle of what comes behind its first `head` bytes; `stray` is the line with another id.
    """
    if kind == "odd_json":
        return [line[:head] + odd_json(line[head:])]
    middle = head + (len(line) - head) // 2
    made = {
        "missing": [],
        "duplicate": [line, line],
        "unknown_id": [line, stray],
        "invalid_utf8": [line[:middle] + b"\xff\xfe" + line[middle:]],
        "malformed": [line[:middle] + b"\n"],
        "not_an_object": [b'["a line that is no object"]\n'],
    }
    return made.get(kind)
