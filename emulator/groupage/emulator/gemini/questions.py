"""A generateContent or embedContent body as the chat or embeddings body that asks the same.

The way back from `schemas.portable.gemini`: so a portable request has the same answer here, and at Vertex, as at
every other emulated provider. Bodies are checked as far as Google checks them where it matters for a batch.
"""

import re
from typing import Any, NamedTuple

import orjson
from groupage.emulator.answers import BadBody

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
_ROLES = {"user": "user", "model": "assistant", None: "user"}


class Question(NamedTuple):
    endpoint: str
    body: dict[str, Any]
    thinking: bool = False
    """Whether thoughts are part of the answer's price, and whether they are shown."""
    shown: bool = False


def question(model: str, request: dict[str, Any]) -> Question:
    """Raises BadBody for what Google would refuse."""
    request = camel(request)
    try:
        return _embeddings(model, request) if "content" in request else _chat(model, request)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError, RecursionError) as error:
        if isinstance(error, BadBody):
            raise
        raise BadBody(f"Invalid JSON payload received. {error!r}", None) from error


def camel(value: dict[str, Any]) -> dict[str, Any]:
    """Names of fields may be written in either way, as everywhere in proto JSON."""
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): one for name, one in value.items()}


def _embeddings(model: str, request: dict[str, Any]) -> Question:
    texts = [part["text"] for part in request["content"]["parts"]]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise BadBody("* EmbedContentRequest.content: contents is not specified", "content")
    size = request.get("outputDimensionality")
    body = {"model": model, "input": texts[0] if len(texts) == 1 else "".join(texts)}
    return Question(EMBEDDINGS, body | ({"dimensions": size} if size else {}))


def _chat(model: str, request: dict[str, Any]) -> Question:
    contents = request.get("contents")
    if not isinstance(contents, list) or not contents:
        raise BadBody("* GenerateContentRequest.contents: contents is not specified", "contents")
    if "model" in request and request["model"] not in {model, f"models/{model}"}:
        raise BadBody(f"* GenerateContentRequest.model: unexpected model {request['model']}", "model")
    system = request.get("systemInstruction") or {}
    messages: list[dict[str, Any]] = [{"role": "system", "content": part["text"]} for part in system.get("parts") or ()]
    for at, content in enumerate(contents):
        messages += _messages(content, f"contents[{at}]")
    config = camel(request.get("generationConfig") or {})
    body: dict[str, Any] = {"model": model, "messages": messages}
    limit = config.get("maxOutputTokens")
    if limit is not None:
        if not isinstance(limit, int) or limit < 1:
            raise BadBody("* GenerateContentRequest.generation_config.max_output_tokens: must be positive", "limit")
        body["max_tokens"] = limit
    _format(config, body)
    _tools(request, body)
    thoughts = config.get("thinkingConfig") or {}
    on = bool(thoughts) and thoughts.get("thinkingBudget") != 0
    return Question(CHAT, body, on, on and bool(thoughts.get("includeThoughts")))


def _messages(content: dict[str, Any], at: str) -> list[dict[str, Any]]:
    """One content: tools' answers become messages of their own, as OpenAI has them."""
    role = _ROLES.get(content.get("role"))
    if role is None:
        raise BadBody("Please use a valid role: user, model.", f"{at}.role")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise BadBody(f"* GenerateContentRequest.{at}.parts: contents.parts must not be empty.", f"{at}.parts")
    made = [_answer_of_tool(part["functionResponse"]) for part in parts if "functionResponse" in part]
    calls = [_call(part) for part in parts if "functionCall" in part]
    others = [_part(part) for part in parts if "functionResponse" not in part and "functionCall" not in part]
    if others or calls:
        message: dict[str, Any] = {"role": role, "content": _plain(others)}
        made.append(message | ({"tool_calls": calls} if calls else {}))
    return made


def _plain(parts: list[dict[str, Any]]) -> Any:
    """One text stands for itself, as people write it for OpenAI."""
    if not parts:
        return None
    return parts[0]["text"] if len(parts) == 1 and parts[0].get("type") == "text" else parts


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if "inlineData" in part:
        blob = part["inlineData"]
        return {"type": "image_url", "image_url": {"url": f"data:{blob['mimeType']};base64,{blob['data']}"}}
    if "fileData" in part:
        return {"type": "image_url", "image_url": {"url": part["fileData"]["fileUri"]}}
    raise BadBody("* GenerateContentRequest.contents.parts.data: required oneof field must be initialized", "parts")


def _call(part: dict[str, Any]) -> dict[str, Any]:
    call = part["functionCall"]
    arguments = orjson.dumps(call.get("args") or {}).decode()
    return {"id": call.get("id"), "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _answer_of_tool(response: dict[str, Any]) -> dict[str, Any]:
    said = response.get("response") or {}
    output = said.get("output", said)
    text = output if isinstance(output, str) else orjson.dumps(output).decode()
    return {"role": "tool", "tool_call_id": response.get("id"), "content": text}


def _format(config: dict[str, Any], body: dict[str, Any]) -> None:
    schema = config.get("responseJsonSchema")
    if schema is None and config.get("responseSchema") is not None:
        schema = _json_schema(config["responseSchema"])
    if schema is not None:
        if config.get("responseMimeType") != "application/json":
            raise BadBody("* GenerateContentRequest.generation_config.response_mime_type: must be JSON", "schema")
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    elif config.get("responseMimeType") == "application/json":
        body["response_format"] = {"type": "json_object"}


def _json_schema(schema: Any) -> Any:
    """Google's own Schema, whose types are written in capitals, as JSON Schema."""
    if isinstance(schema, list):
        return [_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else _json_schema(value)
        for name, value in schema.items()
    }


def _tools(request: dict[str, Any], body: dict[str, Any]) -> None:
    functions = [
        {
            "name": declaration["name"],
            "parameters": declaration.get("parametersJsonSchema") or _json_schema(declaration.get("parameters") or {}),
        }
        for tool in request.get("tools") or ()
        for declaration in tool.get("functionDeclarations") or ()
    ]
    if not functions:
        return
    body["tools"] = [{"type": "function", "function": function} for function in functions]
    config = (request.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if config.get("mode") != "ANY":
        return
    allowed = config.get("allowedFunctionNames")
    name = {"type": "function", "function": {"name": allowed[0]}} if allowed else None
    body["tool_choice"] = name or "required"
