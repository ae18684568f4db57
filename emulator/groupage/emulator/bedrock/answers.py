"""Answers to Bedrock's bodies: those of `answers.py` to the same question, in the family's shape.

A record, as it is stored for the worker, is `{"model", "target", "recordId", "modelInput"}`.
"""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.emulator import answers
from groupage.emulator.answers import ANSWER_BYTES, Answer, BadBody, BadRecord
from groupage.emulator.bedrock.questions import question
from groupage.emulator.bedrock.replies import native

ENDPOINT = "bedrock"
"""By this name `answers.py` finds this module."""


def question_of(record: dict[str, Any]) -> str:
    """16 hex digits: what the ledger counts payments by."""
    asked = question(record["model"], record["target"], record["modelInput"], batch=True)
    return answers.question_of(asked.endpoint, asked.body)


def expected_text(record: dict[str, Any], size: int = ANSWER_BYTES) -> str:
    asked = question(record["model"], record["target"], record["modelInput"], batch=True)
    return answers.expected_text(asked.endpoint, asked.body, size)


def reply_to(model: str, target: str, body: dict[str, Any], created: int, size: int, *, batch: bool) -> Answer:
    """`body` of the Answer is the model's reply. Raises BadBody."""
    try:
        asked = question(model, target, body, batch=batch)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError) as error:
        if isinstance(error, BadBody):
            raise
        raise BadBody(f"Malformed input request: {error!r}", None) from error
    made = answers.answerer(asked.endpoint, size)(asked.body, created)
    return made._replace(body=orjson.dumps(native(asked.shape, made)))


def answerer(size: int = ANSWER_BYTES) -> Callable[[dict[str, Any], int], Answer]:
    """A function of (record, created); the Answer's body is `"modelInput":...,"modelOutput":...`."""

    def answer(record: dict[str, Any], created: int) -> Answer:
        echo = orjson.dumps(record["modelInput"])
        try:
            made = reply_to(record["model"], record["target"], record["modelInput"], created, size, batch=True)
        except BadBody as error:
            raise BadRecord(error, echo) from error
        return made._replace(body=b'"modelInput":%b,"modelOutput":%b' % (echo, made.body))

    return answer
