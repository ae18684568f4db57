"""OpenAI's open models on Bedrock: InvokeModel takes the chat body itself, without the model."""

from typing import Any

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.media import Media
from groupage.schemas.portable.messages import Call, read_messages
from groupage.schemas.portable.options import effort, number, output_limit, read_tools, refuse_others, stops

_EXPRESSED = frozenset(
    {
        "messages",
        "model",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "temperature",
        "top_p",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
    }
)
"""What these models take of a chat body; they read and write text only."""


def translate(model: str, body: dict[str, Any]) -> dict[str, Any]:
    refuse_others(body, _EXPRESSED, model)
    for turn in read_messages(body).turns:
        for part in turn.parts:
            if isinstance(part, Media):
                raise Inexpressible(part.at, f"{model} reads text only")
            if isinstance(part, Call) and part.signature:
                raise Inexpressible(f"{part.at}.extra_content", "there is no place for a signature of Google's")
    read_tools(body)
    stops(body, 4)
    number(body, "temperature", 0, 2)
    number(body, "top_p", 0, 1)
    if effort(body) not in {None, "low", "medium", "high"}:
        raise Inexpressible("reasoning_effort", f"{model} knows low, medium and high")
    limit = output_limit(body)
    result = {
        name: value
        for name, value in body.items()
        if name in _EXPRESSED and value is not None and name not in {"model", "max_tokens", "max_completion_tokens"}
    }
    if limit is not None:
        result["max_completion_tokens"] = limit
    result["messages"] = [_said(message) for message in body["messages"]]
    if "tools" in result:
        result["tools"] = [{**tool, "function": _without_nulls(tool["function"])} for tool in result["tools"]]
    return result


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """The message without what says nothing: nulls and empty lists of fields that are not known there."""
    said = {name: value for name, value in message.items() if value is not None and (value != [] or name == "content")}
    if isinstance(message.get("content"), list):
        said["content"] = [_without_nulls(part) for part in message["content"]]
    if "tool_calls" in said:
        calls = said["tool_calls"]
        said["tool_calls"] = [{**_without_nulls(call), "function": _without_nulls(call["function"])} for call in calls]
    return said


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if inner is not None}
