"""Bedrock's Converse body, and Amazon Nova's own, which is nearly the same (schema messages-v1).

A Converse batch refuses tools, so tools need the native body: Nova's is written here. Nova's takes no
documents. Reasoning, and formats of the answer, differ by model there: they are not written.
"""

import re
from typing import Any

import orjson
from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.media import Media
from groupage.schemas.portable.messages import Call, Conversation, Part, ToolResult, Turn, read_messages
from groupage.schemas.portable.options import (
    Format,
    Tools,
    number,
    output_limit,
    read_tools,
    refuse_others,
    response_format,
    stops,
)

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_TITLE = re.compile(r"(?!.*\s\s)[A-Za-z0-9\s()\[\]-]{1,200}", re.DOTALL)
_METADATA = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}")
"""Patterns: botocore's model of Converse."""

_COMMON = frozenset(
    {"messages", "model", "max_tokens", "max_completion_tokens", "stop", "temperature", "top_p", "parallel_tool_calls"}
)
_CONVERSE = _COMMON | {"metadata", "response_format"}
_NOVA = _COMMON | {"tools", "tool_choice"}


def translate(model: str, body: dict[str, Any]) -> dict[str, Any]:
    """A Converse body without modelId. Bytes are base64, as in the JSON of a batch's line."""
    refuse_others(body, _CONVERSE | {"tool_choice"}, "Converse in a batch")
    read_tools(body)
    conversation = read_messages(body)
    if conversation.calls:
        raise Inexpressible("messages", f"holds tool calls; a Converse batch takes none, and {model} has no other body")
    result = _converse(conversation, body, "Converse", documents=True)
    wanted = response_format(body)
    if wanted is not None:
        result["outputConfig"] = {"textFormat": _text_format(wanted)}
    metadata = body.get("metadata")
    if metadata:
        result["requestMetadata"] = _metadata(metadata)
    return result


def translate_nova(model: str, body: dict[str, Any]) -> dict[str, Any]:
    """Nova's InvokeModel body."""
    refuse_others(body, _NOVA, model)
    conversation = read_messages(body)
    tools = read_tools(body)
    if conversation.calls and tools is None:
        raise Inexpressible("messages", "holds tool calls, which must come with their tools here")
    result = {"schemaVersion": "messages-v1", **_converse(conversation, body, model, documents=False)}
    if tools is not None:
        result["toolConfig"] = _tool_config(tools)
    return result


def _converse(conversation: Conversation, body: dict[str, Any], target: str, *, documents: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if conversation.system:
        result["system"] = [{"text": _said(text, "messages")} for text in conversation.system]
    if conversation.turns[0].role != "user":
        raise Inexpressible(conversation.turns[0].at, "the conversation must start with a user's message")
    result["messages"] = [
        {"role": _role(turn, target), "content": [_block(part, turn.at, documents=documents) for part in turn.parts]}
        for turn in conversation.turns
    ]
    config: dict[str, Any] = {}
    limit = output_limit(body)
    if limit is not None:
        config["maxTokens"] = limit
    for name, ours in (("temperature", "temperature"), ("top_p", "topP")):
        value = number(body, name, 0, 1)
        if value is not None:
            config[ours] = value
    stop = stops(body, 2500)
    if stop:
        config["stopSequences"] = stop
    if config:
        result["inferenceConfig"] = config
    return result


def _role(turn: Turn, target: str) -> str:
    if turn.role == "system":
        raise Inexpressible(turn.at, f"{target} takes system messages at the start only")
    return turn.role


def _said(text: str, at: str) -> str:
    if text.isspace():
        raise Inexpressible(at, "holds a text of white space only: such a block is not taken")
    return text


def _block(part: Part, at: str, *, documents: bool) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": _said(part, at)}
    if isinstance(part, Media):
        return _media(part, documents=documents)
    if isinstance(part, Call):
        if part.signature:
            raise Inexpressible(f"{part.at}.extra_content", "there is no place for a signature of Google's")
        id_, name = _checked(_ID, part.id, f"{part.at}.id"), _checked(_NAME, part.name, f"{part.at}.function.name")
        return {"toolUse": {"toolUseId": id_, "name": name, "input": part.arguments}}
    return _result(part)


def _result(result: ToolResult) -> dict[str, Any]:
    texts = [{"text": _said(text, result.at)} for text in result.texts]
    return {"toolResult": {"toolUseId": result.id, "content": texts}}


def _checked(pattern: re.Pattern[str], text: str, at: str) -> str:
    if not pattern.fullmatch(text):
        raise Inexpressible(at, f"{text[:40]!r} is too long, or has characters that are not allowed")
    return text


def _media(media: Media, *, documents: bool) -> dict[str, Any]:
    if media.url:
        raise Inexpressible(media.at, "nothing is fetched from a URL: send a data: URL")
    source = {"source": {"bytes": media.data}}
    if media.kind == "image" and media.type in _IMAGES:
        return {"image": {"format": _IMAGES[media.type], **source}}
    if media.kind == "audio" and documents:
        return {"audio": {"format": _SOUNDS[media.type], **source}}
    if media.kind == "file" and media.type == "application/pdf" and documents:
        # The format says pdf: the name need not, and may hold no dot.
        name = media.name[:-4] if media.name.lower().endswith(".pdf") else media.name
        if name and not _TITLE.fullmatch(name):
            raise Inexpressible(f"{media.at}.filename", "a name may have letters, digits, single spaces, - ( ) [ ]")
        return {"document": {"format": "pdf", "name": name or "document", **source}}
    raise Inexpressible(media.at, f"{media.kind} of {media.type} is not taken")


def _text_format(wanted: Format) -> dict[str, Any]:
    if wanted.schema is None:
        raise Inexpressible("response_format", "there is no format for any JSON object; give a json_schema")
    definition = {"schema": orjson.dumps(wanted.schema).decode()}
    if wanted.name:
        definition["name"] = wanted.name
    if wanted.description:
        definition["description"] = wanted.description
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


def _metadata(metadata: Any) -> dict[str, str]:
    if type(metadata) is not dict or len(metadata) > 16:
        raise Inexpressible("metadata", "is not an object of at most 16 texts")
    for name, value in metadata.items():
        if not name or type(value) is not str or not _METADATA.fullmatch(name) or not _METADATA.fullmatch(value):
            raise Inexpressible("metadata", f"{name[:40]!r} has characters that are not allowed there")
    return metadata


def _tool_config(tools: Tools) -> dict[str, Any]:
    if not tools.parallel:
        raise Inexpressible("parallel_tool_calls", "calls side by side cannot be forbidden")
    if tools.choice in {"none", "some"}:
        raise Inexpressible("tool_choice", "can be auto, required or one function")
    specs = []
    for at, tool in enumerate(tools.tools):
        if tool.strict:
            raise Inexpressible(f"tools[{at}].function.strict", "there are no strict tools")
        spec: dict[str, Any] = {"name": _checked(_NAME, tool.name, f"tools[{at}].function.name")}
        if tool.description:
            spec["description"] = tool.description
        spec["inputSchema"] = {"json": tool.parameters or {"type": "object", "properties": {}}}
        specs.append({"toolSpec": spec})
    result: dict[str, Any] = {"tools": specs}
    if tools.choice == "required":
        result["toolChoice"] = {"any": {}}
    elif tools.choice == "one":
        result["toolChoice"] = {"tool": {"name": tools.names[0]}}
    return result
