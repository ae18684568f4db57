"""What the readers of all providers' answers share: lines that cannot be read, tool calls, counts of tokens."""

import re
from collections.abc import Callable
from typing import Any

from groupage.activities.providers.base import Answer
from groupage.schemas import ErrorClass, Outcome, Usage
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.schemas.results import BilledUsage
from groupage.store import answer_json
from pydantic import TypeAdapter

make_usage: Callable[[dict[str, int]], Usage] = TypeAdapter(Usage).validator.validate_python
"""What `Usage(...)` does, without its way through Python: 2 µs a line less."""


def count(value: Any) -> int:
    """A number of tokens; what is none counts as 0."""
    return value if type(value) is int and value >= 0 else 0


def with_hours_and_searches(usage: Usage, hour_writes: int, searches: int) -> Usage:
    """The usage with what was written to a cache for an hour, and with searches of the web: they have other prices."""
    if not hour_writes and not searches:
        return usage
    return BilledUsage(**usage.__dict__, cache_write_1h_tokens=hour_writes, web_searches=searches)


def claude_written(usage: dict[str, Any]) -> int:
    """Tokens written to a cache: Claude's sum, or its parts where they are more or alone."""
    written, parts = count(usage.get("cache_creation_input_tokens")), usage.get("cache_creation")
    if type(parts) is not dict:
        return written
    get = parts.get
    return max(written, count(get("ephemeral_5m_input_tokens")) + count(get("ephemeral_1h_input_tokens")))


def claude_extras(usage: dict[str, Any]) -> tuple[int, int]:
    """(tokens written to a cache for an hour, web searches) of Claude's usage object."""
    written, tools = usage.get("cache_creation"), usage.get("server_tool_use")
    return (
        count(written.get("ephemeral_1h_input_tokens")) if type(written) is dict else 0,
        count(tools.get("web_search_requests")) if type(tools) is dict else 0,
    )


def tool_call(id_: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """In OpenAI's shape, so that a reader needs one way for all providers: arguments are JSON text."""
    text = answer_json.dumps(arguments).decode()
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def exactly(answer: Answer, data: bytes, read: Callable[[Any], Answer]) -> Answer:
    """The answer, read once more where its tool calls may hold numbers that orjson has altered.

    `data` is the JSON that it was read from, and `read` takes its value. Numbers are data in tool calls alone: with
    other providers than OpenAI their arguments are no text, but values.
    """
    if not answer.tool_calls or not answer_json.has_long_number(data):
        return answer
    return read(answer_json.exact(data))


def unreadable(
    wire_id: str | None, code: str, message: str, body: Any = None, request_id: str = "", *, usage: Usage | None = None
) -> Answer:
    """`usage` is what the body tells all the same: what was billed is counted (CO-04, CO-05)."""
    return Answer(
        wire_id, Outcome.unreadable, ErrorClass.unreadable, code, message[:FAILURE_MESSAGE_MAX], body,
        usage=usage, request_id=request_id,
    )  # fmt: skip


def ids_beside(*keys: str) -> re.Pattern[bytes]:
    """Finds our wire ids, whole and unescaped, that are the value of one of these keys: for `unparsed`."""
    wire_id = r"g[a-z2-7]{6}-[a-z2-7]{13}-r\d{1,2}-s\d{1,6}-\d{1,10}"
    return re.compile(rf'"(?:{"|".join(keys)})"\s*:\s*"({wire_id})"'.encode())


def unparsed(line: bytes, reason: str, ids: re.Pattern[bytes], read: Callable[[bytes], Answer]) -> Answer:
    """A line that orjson refuses: read again as everybody else reads it, or no JSON at all.

    Its wire id is taken only if exactly one stands there. An id inside a prompt or an answer would stand between
    escaped quotes, so this is the line's own.
    """
    readable = answer_json.strict(line)
    if readable is not None:
        return read(readable)
    found = set(ids.findall(line))
    wire_id = found.pop().decode() if len(found) == 1 else None
    try:
        line.decode()
    except UnicodeDecodeError:
        return unreadable(wire_id, "not_utf8", "the line is not UTF-8")
    return unreadable(wire_id, "not_json", f"the line is not JSON: {reason}")
