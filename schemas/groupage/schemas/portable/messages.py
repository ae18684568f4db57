"""OpenAI's messages, read once for all dialects: system texts, then turns of alternating roles."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.json_text import read_json
from groupage.schemas.portable.media import Media, read_media


class Call(NamedTuple):
    """A tool call of the assistant's. `at` is its path."""

    id: str
    name: str
    arguments: dict[str, Any]
    signature: str
    """Gemini's thought signature, where the history holds one (extra_content.google)."""
    at: str


class ToolResult(NamedTuple):
    """A tool message: what the call `id` of tool `name` gave."""

    id: str
    name: str
    texts: list[str]
    at: str


Part = str | Media | Call | ToolResult
"""What a turn is made of; a text is a plain str and never empty."""


@dataclass(slots=True)
class Turn:
    """Messages of one role in a row. `role` is user (tool results too), assistant or system."""

    role: str
    parts: list[Part]
    at: str
    """Path of the first message."""


class Conversation(NamedTuple):
    """`system` are the texts before the first turn. The last turn is a user's, or a system turn after it."""

    system: list[str]
    turns: list[Turn]
    calls: bool
    """Whether there are tool calls among the turns."""


_CONTENT = {"role", "content"}


def read_messages(body: dict[str, Any]) -> Conversation:
    """Raises Inexpressible, also for what is not a conversation: it could not be answered anywhere."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Inexpressible("messages", "is not a list of messages")
    system: list[str] = []
    turns: list[Turn] = []
    open_calls: dict[str, Call] = {}
    calls = False
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if not isinstance(message, dict):
            raise Inexpressible(at, "is not an object")
        role, parts = _message(message, open_calls, at)
        calls = calls or bool(open_calls)
        if role == "system" and not turns:
            system.extend(part for part in parts if type(part) is str)
        elif not parts:
            raise Inexpressible(at, "says nothing: an empty message cannot be sent")
        elif turns and turns[-1].role == role:
            turns[-1].parts.extend(parts)
        else:
            turns.append(Turn(role, parts, at))
    if open_calls:
        raise _unanswered(open_calls)
    if not turns:
        raise Inexpressible("messages", "holds system messages only; there is nothing to answer")
    if turns[-1].role == "assistant":
        raise Inexpressible(
            f"messages[{len(messages) - 1}]",
            "the conversation ends with the assistant: its words would be continued, not answered",
        )
    return Conversation(system, turns, calls)


def _message(message: dict[str, Any], open_calls: dict[str, Call], at: str) -> tuple[str, list[Part]]:
    """The turn's role, and the parts. `open_calls` is what tool messages have to answer yet."""
    role = message.get("role")
    if role == "tool":
        return "user", [_result(message, open_calls, at)]
    if open_calls:
        raise _unanswered(open_calls)
    if role == "user":
        return "user", _content(message, at, media=True)
    if role == "assistant":
        return "assistant", _assistant(message, at, open_calls)
    if role in {"system", "developer"} if type(role) is str else False:
        return "system", _content(message, at, media=False)
    raise Inexpressible(f"{at}.role" if "role" in message else at, f"no known role: {str(role)[:40]!r}")


def _content(message: dict[str, Any], at: str, *, media: bool) -> list[Part]:
    if len(message) != 2:
        _only(message, _CONTENT, at)
    return _parts(message.get("content"), f"{at}.content" if "content" in message else at, media=media)


def _parts(content: Any, at: str, *, media: bool) -> list[Part]:
    if type(content) is str:
        return [content] if content else []
    if content is None:
        return []
    if type(content) is not list:
        raise Inexpressible(at, "is neither text nor a list of parts")
    parts: list[Part] = []
    for number, part in enumerate(content):
        read = _part(part, f"{at}[{number}]", media=media)
        if read:
            parts.append(read)
    return parts


def _part(part: Any, at: str, *, media: bool) -> Part:
    """An empty text where the part holds one."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise Inexpressible(at, "is no content part with a type")
    if kind == "text":
        text = part.get("text")
        if type(text) is not str:
            raise Inexpressible(at, "has no text")
        _only(part, {"type", "text"}, at)
        return text
    if not media:
        raise Inexpressible(f"{at}.type", f"only text can stand here, not {kind[:40]!r}")
    return read_media(part, kind, at)


def _only(value: dict[str, Any], known: set[str], at: str) -> None:
    for name, inner in value.items():
        # null and [] say nothing: replies that are replayed as history carry `refusal: null`, `annotations: []`.
        if name not in known and inner is not None and inner != []:
            raise Inexpressible(f"{at}.{name}", "has no counterpart")


def _assistant(message: dict[str, Any], at: str, open_calls: dict[str, Call]) -> list[Part]:
    _only(message, {"role", "content", "tool_calls"}, at)
    parts = _parts(message.get("content"), f"{at}.content", media=False)
    calls = message.get("tool_calls")
    if calls is None:
        return parts
    if type(calls) is not list:
        raise Inexpressible(f"{at}.tool_calls", "is not a list")
    for number, raw in enumerate(calls):
        call = _call(raw, f"{at}.tool_calls[{number}]")
        if call.id in open_calls:
            raise Inexpressible(f"{call.at}.id", "two calls have this id")
        open_calls[call.id] = call
        parts.append(call)
    return parts


def _call(raw: Any, at: str) -> Call:
    if not isinstance(raw, dict) or type(raw.get("id")) is not str or not raw["id"]:
        raise Inexpressible(at, "is no tool call with an id")
    if raw.get("type", "function") != "function":
        raise Inexpressible(f"{at}.type", "only function calls have a counterpart")
    _only(raw, {"id", "type", "function", "extra_content"}, at)
    function = raw.get("function")
    if not isinstance(function, dict) or type(function.get("name")) is not str or not function["name"]:
        raise Inexpressible(at, "has no function with a name")
    _only(function, {"name", "arguments"}, f"{at}.function")
    given = function.get("arguments")
    if given is None or given == "":
        arguments: Any = {}
    else:
        arguments = read_json(given) if type(given) is str else None
    if type(arguments) is not dict:
        raise Inexpressible(f"{at}.function.arguments", "is not JSON of an object that all readers read alike")
    return Call(raw["id"], function["name"], arguments, _signature(raw.get("extra_content"), at), at)


def _signature(extra: Any, at: str) -> str:
    """Google's own place for a thought signature in OpenAI's shape (its compatibility endpoint)."""
    if extra is None:
        return ""
    google = extra.get("google") if isinstance(extra, dict) and set(extra) == {"google"} else None
    signature = google.get("thought_signature") if isinstance(google, dict) and len(google) == 1 else None
    if not isinstance(signature, str):
        raise Inexpressible(f"{at}.extra_content", "only google.thought_signature is known")
    return signature


def _result(message: dict[str, Any], open_calls: dict[str, Call], at: str) -> ToolResult:
    _only(message, {"role", "content", "tool_call_id"}, at)
    id_ = message.get("tool_call_id")
    call = open_calls.pop(id_, None) if type(id_) is str else None
    if call is None:
        where = f"{at}.tool_call_id" if "tool_call_id" in message else at
        raise Inexpressible(where, "answers no open call of the assistant's message before it")
    parts = _parts(message.get("content"), f"{at}.content", media=False)
    return ToolResult(call.id, call.name, [part for part in parts if type(part) is str], at)


def _unanswered(open_calls: dict[str, Call]) -> Inexpressible:
    call = next(iter(open_calls.values()))
    return Inexpressible(call.at, "this call is not answered by a tool message")
