"""Answers to Anthropic's messages: the same function of the question as everywhere (answers.py)."""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.emulator import structured
from groupage.emulator.answers import ANSWER_BYTES, EXCERPT_CHARS, Answer, BadBody, fingerprint, plain_text, words_of

_of = fingerprint("/v1/messages")
_ROLES = ("user", "assistant", "system")
_THOUGHT = "Let me think about what is asked here."


def _prompt(body: dict[str, Any]) -> Any:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadBody("messages: at least one message is required", "messages")
    for at, one in enumerate(messages):
        if not isinstance(one, dict) or one.get("role") not in _ROLES or not one.get("content"):
            raise BadBody(f"messages.{at}: a role and content that is not empty are required", "messages")
    return [body["system"], messages] if body.get("system") else messages


def _check(body: dict[str, Any]) -> None:
    """What the API refuses in a batch's params, by its reference."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadBody("model: Field required", "model")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadBody("max_tokens: Field required, a whole number from 1", "max_tokens")
    if body.get("stream"):
        raise BadBody("stream: not supported in a batch", "stream")
    if body.get("speed"):
        raise BadBody("speed: not supported in a batch", "speed")


def question_of(body: dict[str, Any]) -> str:
    """16 hex digits: what the ledger counts payments by."""
    return str(_of(orjson.dumps(_prompt(body), option=orjson.OPT_SORT_KEYS)).hexdigest())


def expected_text(body: dict[str, Any], size: int = ANSWER_BYTES) -> str:
    """What a healthy answer says; structured output is JSON text."""
    question = question_of(body)
    text = plain_text(question, words_of(body["messages"])[:EXCERPT_CHARS], body, size)
    output = (body.get("output_config") or {}).get("format") or body.get("output_format")
    if not isinstance(output, dict) or output.get("type") != "json_schema":
        return text
    return structured.json_text(output.get("schema") or {}, text, int(question, 16))


def answerer(size: int = ANSWER_BYTES) -> Callable[[dict[str, Any], int], Answer]:
    """A function of (body, created) that answers. It raises BadBody."""

    def answer(body: dict[str, Any], _created: int) -> Answer:
        try:
            return _answer(body, size)
        except (TypeError, AttributeError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
            raise BadBody(f"Invalid request body: {error}", None) from error

    return answer


def _answer(body: dict[str, Any], size: int) -> Answer:
    _check(body)
    prompt = orjson.dumps(_prompt(body), option=orjson.OPT_SORT_KEYS)
    question = question_of(body)
    text = expected_text(body, size)
    content, stop = _content(body, text, question)
    # Prompt tokens split as the API does: input_tokens are those that touched no cache.
    used, cached = (len(prompt) + 3) // 4, 0
    if b'"cache_control"' in prompt:
        cached = used // 2
    thinking = len(_THOUGHT) // 4 if content and content[0]["type"] == "thinking" else 0
    made = (len(text) + 3) // 4 + thinking
    message = {
        "id": f"msg_{question}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": used - cached,
            "cache_creation_input_tokens": cached // 2,
            "cache_read_input_tokens": cached - cached // 2,
            "cache_creation": {"ephemeral_5m_input_tokens": cached // 2, "ephemeral_1h_input_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"thinking_tokens": thinking},
            "service_tier": "batch",
        },
    }
    return Answer(int(question, 16), used, made, orjson.dumps(message))


def _content(body: dict[str, Any], text: str, question: str) -> tuple[list[dict[str, Any]], str]:
    """(content blocks, stop reason). A tool is used where the body forces one."""
    content: list[dict[str, Any]] = []
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        content.append({"type": "thinking", "thinking": _THOUGHT, "signature": f"sig_{question}"})
    choice = body.get("tool_choice") or {}
    tools = [tool for tool in body.get("tools") or [] if isinstance(tool, dict)]
    if choice.get("type") == "tool":
        tools = [tool for tool in tools if tool.get("name") == choice.get("name")]
    if choice.get("type") in ("any", "tool") and tools:
        tool = tools[0]
        value = structured.json_text(tool.get("input_schema") or {}, text, int(question, 16))
        use = {"type": "tool_use", "id": f"toolu_{question}", "name": tool["name"], "input": orjson.loads(value)}
        return [*content, use], "tool_use"
    return [*content, {"type": "text", "text": text}], "end_turn"
