"""A model's own body as the chat (or embeddings) body that asks the same: answers are a function of the question.

So a portable chat request has the same answer here as at every other emulated provider. Bodies are checked as far
as Bedrock checks them where it matters for a batch.
"""

from typing import Any, NamedTuple

import orjson
from groupage.emulator.answers import BadBody
from groupage.schemas.portable import bedrock_family

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


class Question(NamedTuple):
    """`shape` names how the reply looks (replies.py)."""

    shape: str
    endpoint: str
    body: dict[str, Any]


def question(model: str, target: str, body: dict[str, Any], *, batch: bool) -> Question:
    """Raises BadBody for what Bedrock would refuse."""
    if target == "/converse":
        if batch and "toolConfig" in body:
            raise BadBody("toolConfig is not supported in batch inference with Converse.", "toolConfig")
        if batch and "modelId" in body:
            raise BadBody("extraneous key [modelId] is not permitted", "modelId")
        return Question("converse", CHAT, _converse(model, body))
    if "model" in body:
        raise BadBody("model: Extra inputs are not permitted", "model")
    family = bedrock_family(model)
    if family == "claude":
        return Question(family, CHAT, claude_chat(model, body, "bedrock-2023-05-31"))
    if family == "nova":
        return Question(family, CHAT, _converse(model, body))
    if family in {"titan-embed", "cohere-embed"}:
        keys = ("inputText", "dimensions") if family == "titan-embed" else ("texts", "output_dimension")
        return Question(family, EMBEDDINGS, _embeddings(model, body, *keys))
    if "messages" in body:
        return Question("openai", CHAT, {"model": model, **body})
    return _single(model, body)


def _single(model: str, body: dict[str, Any]) -> Question:
    """Families that take one text: Llama, Mistral, Titan, Command."""
    name = model.lower()
    shape, key, limit = "llama", "prompt", body.get("max_gen_len")
    if "mistral." in name:
        shape, limit = "mistral", body.get("max_tokens")
    elif "titan" in name:
        shape, key = "titan", "inputText"
        limit = (body.get("textGenerationConfig") or {}).get("maxTokenCount")
    elif "cohere." in name:
        shape, key, limit = "command", "message", body.get("max_tokens")
    text = body.get(key)
    if not isinstance(text, str) or not text:
        raise BadBody(f"required key [{key}] not found", key)
    return Question(shape, CHAT, _chat(model, [{"role": "user", "content": text}], limit))


def _chat(model: str, messages: list[Any], limit: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": messages}
    return body | ({"max_tokens": limit} if isinstance(limit, int) else {})


def _embeddings(model: str, body: dict[str, Any], key: str, size_key: str) -> dict[str, Any]:
    if not body.get(key):
        raise BadBody(f"required key [{key}] not found", key)
    size = body.get(size_key)
    return {"model": model, "input": body[key]} | ({"dimensions": size} if size else {})


def claude_chat(model: str, body: dict[str, Any], version: str) -> dict[str, Any]:
    """The chat body of a Messages body as the clouds take it: with a version, and without a model."""
    if body.get("anthropic_version") != version:
        raise BadBody("anthropic_version: Field required", "anthropic_version")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadBody("max_tokens: Field required, a whole number from 1", "max_tokens")
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise BadBody("messages: at least one message is required", "messages")
    system = body.get("system") or []
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    messages = [{"role": "system", "content": text} for text in texts]
    messages += [{"role": one["role"], "content": _content(one["content"])} for one in given]
    chat = _chat(model, messages, limit)
    wanted = (body.get("output_config") or {}).get("format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": wanted.get("schema") or {}}}
    tools = [_tool(tool["name"], tool.get("input_schema")) for tool in body.get("tools") or ()]
    choice = body.get("tool_choice") or {}
    return _with_tools(chat, tools, any_=choice.get("type") == "any", name=choice.get("name"))


def _converse(model: str, body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise BadBody("messages: at least one message is required", "messages")
    messages = [{"role": "system", "content": block["text"]} for block in body.get("system") or ()]
    messages += [{"role": one["role"], "content": _content(one["content"])} for one in given]
    config = body.get("inferenceConfig") or {}
    chat = _chat(model, messages, config.get("maxTokens"))
    wanted = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure") or {}
    if "jsonSchema" in wanted:
        schema = orjson.loads(wanted["jsonSchema"]["schema"])
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    tool_config = body.get("toolConfig") or {}
    tools = [
        _tool(tool["toolSpec"]["name"], (tool["toolSpec"].get("inputSchema") or {}).get("json"))
        for tool in tool_config.get("tools") or ()
    ]
    choice = tool_config.get("toolChoice") or {}
    return _with_tools(chat, tools, any_="any" in choice, name=(choice.get("tool") or {}).get("name"))


def _content(content: Any) -> Any:
    """One text stands for itself, as people write it for OpenAI; everything else stays a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise BadBody("messages: content must not be empty", "messages")
    parts = [{"type": "text", "text": part["text"]} if "text" in part else part for part in content]
    return parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts


def _tool(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema or {}}}


def _with_tools(chat: dict[str, Any], tools: list[Any], *, any_: bool, name: str | None) -> dict[str, Any]:
    if not tools:
        return chat
    chat["tools"] = tools
    if name:
        chat["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif any_:
        chat["tool_choice"] = "required"
    return chat
