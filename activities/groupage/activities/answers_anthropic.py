"""Reading Anthropic's answers: one line of a batch's results, or one reply of the messages API.

Nothing here raises: what cannot be read is `unreadable`, and what nobody knows yet is kept and said so.

=============  =============================  ===========================================================
result type    stop reason                    outcome
=============  =============================  ===========================================================
succeeded      end_turn, stop_sequence,       succeeded
               tool_use, and unknown ones
succeeded      max_tokens, pause_turn,        truncated (RP-14): paid for, and cut off
               model_context_window_exceeded
succeeded      refusal                        refused, with the category as its reason
errored                                       failed, by the error's type (anthropic_errors.py)
canceled                                      cancelled
expired                                       expired
anything else                                 failed, class unknown: kept, reported, tried once more (RP-17)
=============  =============================  ===========================================================
"""

from typing import Any

import orjson
from groupage.activities.answers_shared import (
    claude_extras,
    claude_written,
    count,
    exactly,
    ids_beside,
    make_usage,
    tool_call,
    unparsed,
    unreadable,
    with_hours_and_searches,
)
from groupage.activities.providers.anthropic_errors import classify
from groupage.activities.providers.base import Answer
from groupage.schemas import ErrorClass, Outcome, Usage
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_loads = orjson.loads
_IDS = ids_beside("custom_id")
_ANSWERED = frozenset({"end_turn", "stop_sequence", "tool_use"})
_CUT_OFF = {
    "max_tokens": "stopped at the output limit",
    "model_context_window_exceeded": "stopped at the end of the model's context window",
    "pause_turn": "the provider paused a long turn: what is there is not the whole answer",
}
_NOT_RUN = {
    "canceled": (Outcome.cancelled, ErrorClass.cancelled, "batch_cancelled", "the batch was cancelled before it ran"),
    "expired": (Outcome.expired, ErrorClass.expired, "batch_expired", "the provider's window ended before it ran"),
}


def read_result_line(line: bytes) -> Answer:
    """One line of a results file, the bytes between two 0x0A. The wire id is None where there is none."""
    try:
        row = _loads(line)
    except orjson.JSONDecodeError as reason:
        return unparsed(line, str(reason), _IDS, read_result_line)
    return exactly(_read_row(row), line, _read_row)


def _read_row(row: Any) -> Answer:
    if type(row) is not dict:
        return _unreadable(None, "not_an_object", f"the line is a JSON {type(row).__name__}, not an object")
    wire_id = row.get("custom_id")
    if type(wire_id) is not str:
        wire_id = None
    result = row.get("result")
    if type(result) is dict:
        return _read_result(wire_id, result)
    return _unreadable(wire_id, "no_result", "the line has no result")


def _read_result(wire_id: str | None, result: dict[str, Any]) -> Answer:
    kind = result.get("type")
    if kind == "succeeded":
        return read_message(wire_id, result.get("message"))
    if kind == "errored":
        error = result.get("error")
        request_id = error.get("request_id") if type(error) is dict else None
        return _failed(wire_id, None, error, error, request_id if type(request_id) is str else "")
    not_run = _NOT_RUN.get(kind) if type(kind) is str else None
    if not_run is not None:
        return Answer(wire_id, *not_run)
    code = f"result_{kind}"[:200]
    message = f"a result of type {kind!r}, which is not known here"[:FAILURE_MESSAGE_MAX]
    return Answer(wire_id, Outcome.failed, ErrorClass.unknown, code, message, result)


def read_reply(wire_id: str | None, status: int, body: Any, request_id: str = "") -> Answer:
    """A reply of the messages API: HTTP status and parsed body (a text where it was no JSON)."""
    if 200 <= status <= 299:
        return read_message(wire_id, body, request_id)
    return _failed(wire_id, status, body, body, request_id)


def read_message(wire_id: str | None, body: Any, request_id: str = "") -> Answer:
    """A Message object. One of another shape is `unreadable`."""
    if type(body) is not dict or not body:
        return _unreadable(wire_id, "empty_body", "it succeeded, but there is no message", body, request_id)
    try:
        return _read_message(wire_id, body, request_id)
    except (AttributeError, KeyError, TypeError, ValueError) as reason:
        message = f"it succeeded, but the message has an odd shape: {reason!r}"
        return _unreadable(wire_id, "not_an_answer", message, body, request_id)


def _read_message(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer:
    content = body.get("content")
    if type(content) is not list:
        return _unreadable(wire_id, "not_an_answer", "it succeeded, but the message has no content", body, request_id)
    texts: list[str] = []
    calls: list[Any] = []
    for block in content:
        kind = block.get("type")
        if kind == "text":
            texts.append(block["text"])
        elif kind == "tool_use":
            calls.append(tool_call(block["id"], block["name"], block["input"]))
    outcome, code, why = _judge(body)
    text = "".join(texts) if texts or not calls else None
    if outcome is Outcome.refused and not texts:
        text = None
    model = body.get("model")
    return Answer(
        wire_id,
        outcome,
        None,
        code,
        why,
        body,
        text,
        calls or None,
        model if type(model) is str else None,
        read_usage(body.get("usage")),
        request_id,
    )


def _judge(body: dict[str, Any]) -> tuple[Outcome, str, str]:
    """(outcome, code, why) by the stop reason."""
    stop = body.get("stop_reason")
    if stop in _ANSWERED:
        return Outcome.succeeded, "", ""
    if stop == "refusal":
        details = body.get("stop_details")
        if type(details) is not dict:
            return Outcome.refused, "refusal", "refused by the provider"
        category = details.get("category") or "refusal"
        return Outcome.refused, str(category)[:200], str(details.get("explanation") or "")[:FAILURE_MESSAGE_MAX]
    why = _CUT_OFF.get(stop) if type(stop) is str else None
    if why is not None:
        return Outcome.truncated, str(stop), why
    return Outcome.succeeded, f"stop_{stop}"[:200], f"stop reason {stop!r}, which is not known here"[:200]


def read_usage(usage: Any) -> Usage | None:
    """Anthropic counts what touched the cache beside `input_tokens`; with us it is part of them.

    A count that is no whole number counts as 0; None where there is no usage at all.
    """
    if type(usage) is not dict:
        return None
    get = usage.get
    written, cached = claude_written(usage), count(get("cache_read_input_tokens"))
    details = get("output_tokens_details")
    found = make_usage(
        {
            "input_tokens": count(get("input_tokens")) + written + cached,
            "cached_tokens": cached,
            "cache_write_tokens": written,
            "output_tokens": count(get("output_tokens")),
            "reasoning_tokens": count(details.get("thinking_tokens")) if type(details) is dict else 0,
        }
    )
    return with_hours_and_searches(found, *claude_extras(usage)) if written or get("server_tool_use") else found


def _failed(wire_id: str | None, status: int | None, error: Any, body: Any, request_id: str) -> Answer:
    found, code, message = classify(status, error)
    if found is ErrorClass.missing:
        # Of a single request: its model, or a file that it names, does not exist.
        found = ErrorClass.invalid
    return Answer(wire_id, Outcome.failed, found, code, message, body, request_id=request_id)


def _unreadable(wire_id: str | None, code: str, message: str, body: Any = None, request_id: str = "") -> Answer:
    usage = read_usage(body.get("usage")) if type(body) is dict else None
    return unreadable(wire_id, code, message, body, request_id, usage=usage)
