"""Anthropic's Messages body: at Anthropic itself, on Bedrock and on Vertex.

At Anthropic the API version is 2026-10-21, which takes no temperature, top_p or top_k at all. The versions
of the two clouds are the older ones: they take them, for models before 4.7.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.families import claude_generation
from groupage.schemas.portable.media import Media
from groupage.schemas.portable.messages import Call, Conversation, Part, ToolResult, Turn, read_messages
from groupage.schemas.portable.options import (
    Tools,
    effort,
    number,
    output_limit,
    read_tools,
    refuse_others,
    response_format,
    says_nothing,
    stops,
)

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,256}")
_BUDGETS = {"low": 1024, "medium": 2048, "high": 4096}
"""Thinking tokens for models that take a budget: the least that is allowed (1,024), doubled at each step."""
_ADAPTIVE = frozenset({"low", "medium", "high", "xhigh", "max"})
_EXPRESSED = frozenset(
    {
        "messages",
        "model",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "temperature",
        "top_p",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the body goes, and what is different there."""

    name: str
    version: str
    """The body's anthropic_version; empty: the body has the model in its place."""
    expressed: frozenset[str]
    sampling: bool
    """Whether temperature and top_p exist."""
    url_images: bool
    late_system: bool
    """Whether system messages may stand in the middle (models from 4.8 on)."""
    calls_need_tools: bool
    """Whether tool calls in the history are refused where the request has no tools."""


_PLACES = {
    "anthropic": Place(
        "Anthropic",
        "",
        _EXPRESSED | {"user", "safety_identifier"},
        sampling=False,
        url_images=True,
        late_system=True,
        calls_need_tools=False,
    ),
    "bedrock": Place(
        "Claude on Bedrock",
        "bedrock-2023-05-31",
        _EXPRESSED,
        sampling=True,
        url_images=False,
        late_system=False,
        calls_need_tools=True,
    ),
    "vertex": Place(
        "Claude on Vertex",
        "vertex-2023-10-16",
        _EXPRESSED,
        sampling=True,
        url_images=False,
        late_system=False,
        calls_need_tools=False,
    ),
}


def of(provider: str) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """The translation for one of anthropic, bedrock, vertex."""
    place = _PLACES[provider]
    return lambda model, body: _translate(place, model, body)


def default_max_tokens(model: str) -> int:
    """Anthropic wants a limit; OpenAI's absent one means the model's own. These fit every model of a generation."""
    generation = claude_generation(model)
    if generation < (3, 5):
        return 4096
    return 8192 if generation < (4, 0) else 16_384


def _translate(place: Place, model: str, body: dict[str, Any]) -> dict[str, Any]:
    refuse_others(body, place.expressed, place.name)
    conversation = read_messages(body)
    tools = read_tools(body)
    if conversation.calls and tools is None and place.calls_need_tools:
        raise Inexpressible("messages", "holds tool calls, which must come with their tools here")
    limit = output_limit(body)
    result: dict[str, Any] = {"anthropic_version": place.version} if place.version else {"model": model}
    result["max_tokens"] = limit or default_max_tokens(model)
    if conversation.system:
        result["system"] = _texts(conversation.system, "messages")
    result["messages"] = _messages(place, model, conversation)
    stop = stops(body, 8191)
    if any(each.isspace() for each in stop):
        raise Inexpressible("stop", "a stop sequence of white space only is not taken")
    if stop:
        result["stop_sequences"] = stop
    if place.sampling:
        _sampling(model, body, result)
    else:
        _refuse_sampling(body)
        _user(body, result)
    if tools is not None:
        _tools(tools, result)
    if "response_format" in body:
        _format(model, body, result)
    chosen = effort(body)
    if chosen is not None:
        _thinking(model, chosen, conversation, tools, result, limit=limit)
    return result


def _messages(place: Place, model: str, conversation: Conversation) -> list[dict[str, Any]]:
    turns = conversation.turns
    found: list[dict[str, Any]] = []
    for at, turn in enumerate(turns):
        if turn.role == "system":
            after = turns[at + 1].role if at + 1 < len(turns) else "assistant"
            if not place.late_system or claude_generation(model) < (4, 8):
                raise Inexpressible(turn.at, f"{place.name} takes system messages of {model} at the start only")
            if turns[at - 1].role != "user" or after != "assistant":
                raise Inexpressible(turn.at, "a later system message must stand between a user's and the answer")
            found.append({"role": "system", "content": _texts([p for p in turn.parts if type(p) is str], turn.at)})
        else:
            found.append({"role": turn.role, "content": _content(place, turn)})
    return found


def _texts(texts: list[str], at: str) -> str | list[dict[str, Any]]:
    if len(texts) == 1:
        return _said(texts[0], at)
    return [{"type": "text", "text": _said(text, at)} for text in texts]


def _said(text: str, at: str) -> str:
    if text.isspace():
        raise Inexpressible(at, "holds a text of white space only: such a block is not taken")
    return text


def _content(place: Place, turn: Turn) -> str | list[dict[str, Any]]:
    parts = turn.parts
    if len(parts) == 1 and type(parts[0]) is str:
        return _said(parts[0], turn.at)
    return [_block(place, part, turn.at) for part in parts]


def _block(place: Place, part: Part, at: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": _said(part, at)}
    if isinstance(part, Media):
        return _media(place, part)
    if isinstance(part, Call):
        if part.signature:
            raise Inexpressible(f"{part.at}.extra_content", f"{place.name} has no place for a signature of Google's")
        return {
            "type": "tool_use",
            "id": _checked(_ID, part.id, f"{part.at}.id"),
            "name": _checked(_NAME, part.name, f"{part.at}.function.name"),
            "input": part.arguments,
        }
    return _result(part)


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
    if result.texts:
        block["content"] = _texts(result.texts, result.at)
    return block


def _checked(pattern: re.Pattern[str], text: str, at: str) -> str:
    if not pattern.fullmatch(text):
        raise Inexpressible(at, f"{text[:40]!r} is not of letters, digits, _ and - only, or too long")
    return text


def _media(place: Place, media: Media) -> dict[str, Any]:
    if media.kind == "image":
        if media.url:
            if not place.url_images:
                raise Inexpressible(media.at, f"{place.name} fetches no images: send a data: URL")
            return {"type": "image", "source": {"type": "url", "url": media.url}}
        if media.type not in _IMAGES:
            raise Inexpressible(media.at, f"images of {media.type} are not taken")
        return {"type": "image", "source": {"type": "base64", "media_type": media.type, "data": media.data}}
    if media.kind == "file" and media.type == "application/pdf":
        source = {"type": "base64", "media_type": media.type, "data": media.data}
        return {"type": "document", "source": source} | ({"title": media.name} if media.name else {})
    raise Inexpressible(media.at, f"{media.kind} of {media.type} is not taken")


def _refuse_sampling(body: dict[str, Any]) -> None:
    for name in ("temperature", "top_p"):
        if name in body and not says_nothing(name, body[name]):
            raise Inexpressible(name, "Anthropic's API has no sampling parameters (from version 2026-10-21 on)")


def _sampling(model: str, body: dict[str, Any], result: dict[str, Any]) -> None:
    temperature, top_p = number(body, "temperature", 0, 2), number(body, "top_p", 0, 1)
    # 1 is the default on both sides.
    given = {name: value for name, value in (("temperature", temperature), ("top_p", top_p)) if value not in {None, 1}}
    if not given:
        return
    generation = claude_generation(model)
    if generation >= (4, 7):
        raise Inexpressible(next(iter(given)), f"{model} takes no sampling parameters")
    if len(given) == 2 and generation >= (4, 1):
        raise Inexpressible("top_p", f"{model} takes either temperature or top_p")
    if temperature is not None and temperature > 1:
        raise Inexpressible("temperature", f"{temperature} is above 1, the highest here")
    result.update(given)


def _user(body: dict[str, Any], result: dict[str, Any]) -> None:
    user, identifier = body.get("user"), body.get("safety_identifier")
    for name, value in (("user", user), ("safety_identifier", identifier)):
        if value is not None and type(value) is not str:
            raise Inexpressible(name, "is not text")
    if user is not None and identifier is not None and user != identifier:
        raise Inexpressible("safety_identifier", "differs from user; there is one place for both")
    chosen = user if identifier is None else identifier
    if chosen is not None:
        result["metadata"] = {"user_id": chosen}


def _tools(tools: Tools, result: dict[str, Any]) -> None:
    written = []
    for number_, tool in enumerate(tools.tools):
        entry: dict[str, Any] = {"name": _checked(_NAME, tool.name, f"tools[{number_}].function.name")}
        if tool.description:
            entry["description"] = tool.description
        entry["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
        if tool.strict:
            entry["strict"] = True
        written.append(entry)
    result["tools"] = written
    if tools.choice == "some":
        raise Inexpressible("tool_choice", "the choice cannot be kept to some of the tools")
    choice: dict[str, Any] = {"type": {"required": "any", "one": "tool"}.get(tools.choice, tools.choice)}
    if tools.choice == "one":
        choice["name"] = tools.names[0]
    if not tools.parallel and tools.choice != "none":
        choice["disable_parallel_tool_use"] = True
    if choice != {"type": "auto"}:
        result["tool_choice"] = choice


def _format(model: str, body: dict[str, Any], result: dict[str, Any]) -> None:
    wanted = response_format(body)
    if wanted is None:
        return
    if wanted.schema is None or claude_generation(model) < (4, 1):
        raise Inexpressible("response_format", f"{model} has no such format; models from 4.1 on take a json_schema")
    result["output_config"] = {"format": {"type": "json_schema", "schema": wanted.whole_schema()}}


def _thinking(
    model: str,
    chosen: str,
    conversation: Conversation,
    tools: Tools | None,
    result: dict[str, Any],
    *,
    limit: int | None,
) -> None:
    """Adaptive thinking with an effort from 4.6 on, a budget from 3.7 on, nothing before."""
    generation = claude_generation(model)
    if chosen == "none":
        if generation >= (3, 7):
            result["thinking"] = {"type": "disabled"}
        return
    if tools is not None and tools.choice in {"required", "one"}:
        raise Inexpressible("tool_choice", "a call cannot be required together with a reasoning_effort")
    if "temperature" in result or "top_p" in result:
        name = "temperature" if "temperature" in result else "top_p"
        raise Inexpressible(name, "cannot be chosen together with a reasoning_effort")
    if generation >= (4, 6):
        if chosen not in _ADAPTIVE:
            raise Inexpressible("reasoning_effort", f"{chosen} has no counterpart; the least is low")
        result["thinking"] = {"type": "adaptive"}
        result.setdefault("output_config", {})["effort"] = chosen
        return
    budget = _BUDGETS.get(chosen)
    if budget is None or generation < (3, 7):
        raise Inexpressible("reasoning_effort", f"{model} has no counterpart for {chosen}")
    if any(isinstance(part, Call) for turn in conversation.turns for part in turn.parts):
        raise Inexpressible("reasoning_effort", f"{model} wants its thoughts of earlier turns, which a chat has not")
    if limit is not None and limit <= budget:
        raise Inexpressible("reasoning_effort", f"{budget} tokens of thought do not fit into {limit}")
    result["thinking"] = {"type": "enabled", "budget_tokens": budget}
