"""Gemini's generateContent body, for the Gemini API and for Vertex."""

import re
from typing import Any

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.families import gemini_generation, model_name
from groupage.schemas.portable.media import Media
from groupage.schemas.portable.messages import Call, Conversation, Part, ToolResult, read_messages
from groupage.schemas.portable.options import (
    Tools,
    effort,
    integer,
    number,
    output_limit,
    read_tools,
    refuse_others,
    response_format,
    stops,
)

_EXPRESSED = frozenset(
    {
        "messages",
        "model",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "temperature",
        "top_p",
        "seed",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
    }
)
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
"""Thinking tokens of Gemini 2.5: Google's own table for OpenAI's reasoning_effort."""
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
"""From Gemini 3 on."""
_NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google lets stand for the signature of a call that Gemini 3 did not make itself (read as base64)."""
_INT32 = 2**31 - 1


def translate_gemini(model: str, body: dict[str, Any]) -> dict[str, Any]:
    return _translate(model, body, "Gemini", file_names=False)


def translate_vertex(model: str, body: dict[str, Any]) -> dict[str, Any]:
    return _translate(model, body, "Gemini on Vertex", file_names=True)


def _translate(model: str, body: dict[str, Any], target: str, *, file_names: bool) -> dict[str, Any]:
    refuse_others(body, _EXPRESSED, target)
    conversation = read_messages(body)
    result: dict[str, Any] = {}
    if conversation.system:
        result["systemInstruction"] = {"parts": [{"text": text} for text in conversation.system]}
    signed = (gemini_generation(model) or (3, 0)) >= (3, 0)
    result["contents"] = _contents(conversation, target, file_names=file_names, signed=signed)
    if "tools" in body or "tool_choice" in body or "parallel_tool_calls" in body:
        tools = read_tools(body)
        if tools is not None:
            _tools(tools, result)
    config = _config(model, body)
    if config:
        result["generationConfig"] = config
    return result


def _contents(conversation: Conversation, target: str, *, file_names: bool, signed: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for turn in conversation.turns:
        if turn.role == "system":
            raise Inexpressible(turn.at, f"{target} takes system messages at the start only")
        results = [_result(part) for part in turn.parts if isinstance(part, ToolResult)]
        if results:
            # In a content of their own: as many answers as the content before has calls.
            found.append({"role": "user", "parts": results})
        others = [_part(part, file_names=file_names) for part in turn.parts if not isinstance(part, ToolResult)]
        if others:
            found.append({"role": "user" if turn.role == "user" else "model", "parts": others})
            if signed and turn.role == "assistant":
                _sign(others)
    return found


def _sign(parts: list[dict[str, Any]]) -> None:
    """The first call of a turn must carry a signature."""
    for part in parts:
        if "functionCall" in part:
            part.setdefault("thoughtSignature", _NO_SIGNATURE)
            return


def _part(part: Part, *, file_names: bool) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Call):
        name = _named(part.name, f"{part.at}.function.name")
        call: dict[str, Any] = {"functionCall": {"id": part.id, "name": name, "args": part.arguments}}
        return call | ({"thoughtSignature": part.signature} if part.signature else {})
    assert isinstance(part, Media)
    return _media(part, file_names=file_names)


def _result(result: ToolResult) -> dict[str, Any]:
    texts = result.texts
    output: Any = texts[0] if len(texts) == 1 else (texts or "")
    return {"functionResponse": {"id": result.id, "name": result.name, "response": {"output": output}}}


def _named(name: str, at: str) -> str:
    if not _NAME.fullmatch(name):
        raise Inexpressible(at, "must start with a letter or _, and have at most 64 letters, digits, _ . : -")
    return name


def _media(media: Media, *, file_names: bool) -> dict[str, Any]:
    if media.kind == "image" and media.type and media.type not in _IMAGES:
        raise Inexpressible(media.at, f"images of {media.type} are not taken")
    if media.kind == "file" and media.type != "application/pdf":
        raise Inexpressible(media.at, f"files of {media.type} are not taken")
    if media.url:
        if not media.type:
            raise Inexpressible(media.at, "its ending does not tell the kind of image, which must be told")
        return {"fileData": {"mimeType": media.type, "fileUri": media.url}}
    blob = {"mimeType": media.type, "data": media.data}
    if media.name:
        if not file_names:
            raise Inexpressible(f"{media.at}.filename", "the Gemini API has no place for a file's name; leave it out")
        blob["displayName"] = media.name
    return {"inlineData": blob}


def _tools(tools: Tools, result: dict[str, Any]) -> None:
    declarations = []
    for at, tool in enumerate(tools.tools):
        declaration: dict[str, Any] = {"name": _named(tool.name, f"tools[{at}].function.name")}
        if tool.description:
            declaration["description"] = tool.description
        if tool.parameters is not None:
            declaration["parametersJsonSchema"] = tool.parameters
        declarations.append(declaration)
    result["tools"] = [{"functionDeclarations": declarations}]
    if not tools.parallel and tools.choice != "none":
        raise Inexpressible("parallel_tool_calls", "calls side by side cannot be forbidden")
    config: dict[str, Any] = {}
    if tools.choice == "none":
        config = {"mode": "NONE"}
    elif tools.choice == "required":
        config = {"mode": "ANY"}
    elif tools.names:
        config = {"mode": "ANY", "allowedFunctionNames": tools.names}
    elif any(tool.strict for tool in tools.tools):
        # Free to call or not, but what is called keeps to its schema; ANY does so in any case.
        config = {"mode": "VALIDATED"}
    if config:
        result["toolConfig"] = {"functionCallingConfig": config}


def _config(model: str, body: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    limit = output_limit(body)
    if limit is not None:
        config["maxOutputTokens"] = limit
    if len(body) <= 3 and limit is not None and "messages" in body and "model" in body:
        return config
    for name, theirs, low, high in (
        ("temperature", "temperature", 0, 2),
        ("top_p", "topP", 0, 1),
        ("presence_penalty", "presencePenalty", -2, 2),
        ("frequency_penalty", "frequencyPenalty", -2, 2),
    ):
        value = number(body, name, low, high)
        if value is not None:
            config[theirs] = value
    for name, theirs, least, most in (("seed", "seed", -_INT32 - 1, _INT32), ("n", "candidateCount", 1, 8)):
        whole = integer(body, name, least, most)
        if whole is not None:
            config[theirs] = whole
    stop = stops(body, 5)
    if stop:
        config["stopSequences"] = stop
    _logprobs(body, config)
    _format(body, config)
    chosen = effort(body)
    if chosen is not None:
        _thinking(model, chosen, config)
    return config


def _logprobs(body: dict[str, Any], config: dict[str, Any]) -> None:
    wanted, top = body.get("logprobs"), integer(body, "top_logprobs", 0, 20)
    if wanted is not None and type(wanted) is not bool:
        raise Inexpressible("logprobs", "is neither true nor false")
    if wanted:
        config["responseLogprobs"] = True
    if top:
        if not wanted:
            raise Inexpressible("top_logprobs", "needs logprobs")
        config["logprobs"] = top


def _format(body: dict[str, Any], config: dict[str, Any]) -> None:
    wanted = response_format(body)
    if wanted is None:
        return
    config["responseMimeType"] = "application/json"
    if wanted.schema is not None:
        config["responseJsonSchema"] = wanted.whole_schema()


def _thinking(model: str, chosen: str, config: dict[str, Any]) -> None:
    generation = gemini_generation(model)
    if generation is None:
        raise Inexpressible("reasoning_effort", f"{model} does not tell which Gemini it is, and they differ in this")
    if generation < (2, 5):
        if chosen != "none":
            raise Inexpressible("reasoning_effort", f"{model} does not reason")
    elif generation < (3, 0):
        if chosen == "none" and "pro" not in model_name(model).lower():
            config["thinkingConfig"] = {"thinkingBudget": 0}
        elif chosen in _BUDGETS:
            config["thinkingConfig"] = {"thinkingBudget": _BUDGETS[chosen]}
        else:
            raise Inexpressible("reasoning_effort", f"{model} has no counterpart for {chosen}")
    elif chosen in _LEVELS:
        config["thinkingConfig"] = {"thinkingLevel": _LEVELS[chosen]}
    else:
        raise Inexpressible("reasoning_effort", f"{model} has no counterpart for {chosen}")
