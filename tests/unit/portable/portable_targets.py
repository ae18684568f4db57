"""Each target of a translation: how its body is checked and read."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import portable_meaning as meaning
import portable_shapes as shapes

CHAT = "/v1/chat/completions"


class Target(NamedTuple):
    provider: str
    model: str
    check: Callable[[dict[str, Any]], None]
    read: Callable[[dict[str, Any]], dict[str, Any]]
    limit: int | None = None
    """The output limit where a request has none."""
    usual: tuple[str, ...] = ("max_completion_tokens", "stop", "temperature", "top_p")
    """Fields that generated requests have often; anything else they have seldom."""
    choices: tuple[str | None, ...] = (None, "auto", "required", "none", "one")
    calls: bool = True


TARGETS = {
    "anthropic": Target("anthropic", "claude-sonnet-5-5", shapes.check_anthropic, meaning.of_claude, 16_384),
    "anthropic-4-5": Target(
        "anthropic",
        "claude-sonnet-4-5-20250929",
        shapes.check_anthropic,
        meaning.of_claude,
        16_384,
        ("max_completion_tokens", "stop"),
    ),
    "bedrock-claude": Target(
        "bedrock",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        partial(shapes.check_claude_on, "bedrock-2023-05-31"),
        meaning.of_claude,
        16_384,
        ("max_tokens", "stop", "temperature"),
    ),
    "vertex-claude": Target(
        "vertex",
        "claude-sonnet-4-6",
        partial(shapes.check_claude_on, "vertex-2023-10-16"),
        meaning.of_claude,
        16_384,
        ("max_tokens", "stop", "temperature"),
    ),
    "gemini": Target("gemini", "gemini-2.5-flash", shapes.check_gemini, meaning.of_gemini),
    "vertex-gemini": Target("vertex", "gemini-3-flash-preview", shapes.check_gemini, meaning.of_gemini),
    "bedrock-converse": Target(
        "bedrock", "meta.llama3-3-70b-instruct-v1:0", shapes.check_converse, meaning.of_converse, calls=False
    ),
    "bedrock-nova": Target(
        "bedrock",
        "eu.amazon.nova-lite-v1:0",
        shapes.check_nova,
        meaning.of_converse,
        choices=(None, "auto", "required", "one"),
    ),
    "bedrock-openai": Target("bedrock", "openai.gpt-oss-20b-1:0", shapes.check_openai_on_bedrock, meaning.of_openai),
}


def is_in(path: str, body: dict[str, Any]) -> bool:
    """Whether a field's path leads somewhere in the body."""
    value: Any = body
    for name, position in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if name:
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        else:
            if not isinstance(value, list) or int(position) >= len(value):
                return False
            value = value[int(position)]
    return True
