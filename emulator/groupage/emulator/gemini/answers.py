"""Answers to Gemini's bodies: those of `answers.py` to the same question, in Google's shape.

    reply_to("gemini-2.5-flash", {"contents": [...]}, created, size).body    # a response, as JSON

Vertex answers with the same function. A record, as it is stored for the worker, is `{"model", "key", "request"}`.
"""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.emulator import answers
from groupage.emulator.answers import ANSWER_BYTES, Answer, BadBody
from groupage.emulator.gemini.questions import question
from groupage.emulator.gemini.replies import THOUGHT_TOKENS, native

ENDPOINT = "gemini"
"""By this name `answers.py` finds this module."""


def question_of(record: dict[str, Any]) -> str:
    """16 hex digits: what the ledger counts payments by."""
    asked = question(record["model"], record["request"])
    return answers.question_of(asked.endpoint, asked.body)


def expected_text(record: dict[str, Any], size: int = ANSWER_BYTES) -> str:
    asked = question(record["model"], record["request"])
    return answers.expected_text(asked.endpoint, asked.body, size)


def reply_to(model: str, request: dict[str, Any], created: int, size: int = ANSWER_BYTES) -> Answer:
    """`body` of the Answer is the response as JSON; its tokens count thoughts as output. Raises BadBody."""
    asked = question(model, request)
    made = answers.answerer(asked.endpoint, size)(asked.body, created)
    reply = native(asked, made, cached=bool(request.get("cachedContent")))
    thoughts = THOUGHT_TOKENS if asked.thinking else 0
    return made._replace(body=orjson.dumps(reply), output_tokens=made.output_tokens + thoughts)


def answerer(size: int = ANSWER_BYTES) -> Callable[[dict[str, Any], int], Answer]:
    """A function of (record, created) that answers. It raises BadBody."""

    def answer(record: dict[str, Any], created: int) -> Answer:
        if not isinstance(record["request"], dict):
            raise BadBody("Invalid JSON payload received. Expected an object: request", "request")
        return reply_to(record["model"], record["request"], created, size)

    return answer
