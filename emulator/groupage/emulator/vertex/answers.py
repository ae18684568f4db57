"""Answers to Vertex's rows: those of `answers.py` to the same question, in Gemini's shape or in Claude's.

A record, as it is stored for the worker, is `{"model", "key", "kept", "request"}`: `kept` are the columns that the
result repeats beside the request (Claude's custom_id, BigQuery's own columns).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from groupage.emulator import answers
from groupage.emulator.answers import ANSWER_BYTES, Answer, BadBody, BadRecord
from groupage.emulator.bedrock.questions import CHAT, claude_chat
from groupage.emulator.bedrock.replies import native as native_claude
from groupage.emulator.gemini import answers as gemini
from groupage.emulator.gemini.questions import question as gemini_question

ENDPOINT = "vertex"
"""By this name `answers.py` finds this module."""
CLAUDE_VERSION = "vertex-2023-10-16"
AT = b',"processed_time":"'
"""Between what a row repeats and what is new in it."""


def is_claude(model: str) -> bool:
    """`model` is a path: publishers/anthropic/models/claude-..."""
    return "publishers/anthropic/" in model


def short(model: str) -> str:
    return model.rpartition("/")[2]


def asked(model: str, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """(endpoint, body) of the chat request that asks the same. Raises BadBody."""
    if not is_claude(model):
        found = gemini_question(short(model), request)
        return found.endpoint, found.body
    if "model" in request:
        raise BadBody("model: Extra inputs are not permitted", "model")
    try:
        return CHAT, claude_chat(short(model), request, CLAUDE_VERSION)
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        raise BadBody(f"Malformed request: {error!r}", None) from error


def question_of(record: dict[str, Any]) -> str:
    """16 hex digits: what the ledger counts payments by."""
    return answers.question_of(*asked(record["model"], record["request"]))


def expected_text(record: dict[str, Any], size: int = ANSWER_BYTES) -> str:
    return answers.expected_text(*asked(record["model"], record["request"]), size)


def reply_to(model: str, request: dict[str, Any], created: int, size: int = ANSWER_BYTES) -> Answer:
    """`body` of the Answer is the model's reply. Raises BadBody."""
    _check_labels(request)
    if not is_claude(model):
        return gemini.reply_to(short(model), {**request, "labels": {}}, created, size)
    endpoint, body = asked(model, request)
    made = answers.answerer(endpoint, size)(body, created)
    reply = native_claude("claude", made) | {"model": short(model), "id": f"msg_vrtx_{made.question:016x}"}
    return made._replace(body=orjson.dumps(reply))


def answerer(size: int = ANSWER_BYTES) -> Callable[[dict[str, Any], int], Answer]:
    """A function of (record, created); the Answer's body is a row without its braces and its status."""

    def answer(record: dict[str, Any], created: int) -> Answer:
        columns = orjson.dumps({**record["kept"], "request": record["request"]})[1:-1]
        echo = b'%b%b%b"' % (columns, AT, datetime.fromtimestamp(created, UTC).isoformat().encode())
        try:
            made = reply_to(record["model"], record["request"], created, size)
        except BadBody as error:
            raise BadRecord(error, echo) from error
        return made._replace(body=b'%b,"response":%b' % (echo, made.body))

    return answer


def _check_labels(request: dict[str, Any]) -> None:
    """At most 64; keys and values of at most 63 lower-case letters, digits, _ and -."""
    labels = request.get("labels") or {}
    if not isinstance(labels, dict) or len(labels) > 64:
        raise BadBody("* GenerateContentRequest.labels: at most 64 labels", "labels")
    for text in (text for pair in labels.items() for text in pair):
        if not isinstance(text, str) or len(text) > 63 or not set(text) <= _LABEL_LETTERS:
            raise BadBody(f"* GenerateContentRequest.labels: invalid label {text!r}", "labels")


_LABEL_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
