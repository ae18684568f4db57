"""What a request says, read on its own from OpenAI's body and from each provider's: to be compared."""

import json
from typing import Any

NO_PARAMETERS = {"type": "object", "properties": {}}


def _merge(turns: list[tuple[str, list[Any]]]) -> list[tuple[str, list[Any]]]:
    merged: list[tuple[str, list[Any]]] = []
    for role, items in turns:
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(items)
        elif items:
            merged.append((role, list(items)))
    return merged


def _openai_items(content: Any) -> list[Any]:
    if content is None or isinstance(content, str):
        return [("text", content)] if content else []
    items: list[Any] = []
    for part in content:
        if part["type"] == "text":
            items += [("text", part["text"])] if part["text"] else []
        elif part["type"] == "image_url":
            url = part["image_url"]["url"]
            head, _, data = url.partition(";base64,")
            items.append(("data", head.removeprefix("data:"), data) if data else ("url", url))
        elif part["type"] == "input_audio":
            items.append(("data", "audio", part["input_audio"]["data"]))
        elif part["type"] == "file":
            items.append(("data", "application/pdf", part["file"]["file_data"].partition(";base64,")[2]))
    return items


def of_openai(body: dict[str, Any]) -> dict[str, Any]:
    """System texts, turns, tools, choice and limits of a chat body."""
    system: list[str] = []
    turns: list[tuple[str, list[Any]]] = []
    for message in body["messages"]:
        role = message["role"]
        items = _openai_items(message.get("content"))
        if role in {"system", "developer"} and not turns:
            system += [text for _, text in items]
        elif role == "tool":
            turns.append(("user", [("result", message["tool_call_id"], [text for _, text in items])]))
        else:
            for call in message.get("tool_calls") or ():
                function = call["function"]
                items.append(("call", call["id"], function["name"], json.loads(function["arguments"] or "{}")))
            turns.append(("system" if role == "developer" else role, items))
    choice = body.get("tool_choice") or "auto"
    tools = [
        (
            tool["function"]["name"],
            tool["function"].get("description") or "",
            tool["function"].get("parameters") or NO_PARAMETERS,
        )
        for tool in body.get("tools") or ()
    ]
    stop = body.get("stop")
    return {
        "system": system,
        "turns": _merge(turns),
        "tools": tools,
        "choice": (choice["function"]["name"] if isinstance(choice, dict) else choice) if tools else None,
        "limit": body.get("max_completion_tokens") or body.get("max_tokens"),
        "stop": [stop] if isinstance(stop, str) else stop or [],
        "temperature": _unless_one(body.get("temperature")),
        "top_p": _unless_one(body.get("top_p")),
    }


def _unless_one(value: Any) -> Any:
    return None if value == 1 else value


def of_claude(body: dict[str, Any]) -> dict[str, Any]:
    def items(content: Any) -> list[Any]:
        if isinstance(content, str):
            return [("text", content)]
        found: list[Any] = []
        for block in content:
            match block["type"]:
                case "text":
                    found.append(("text", block["text"]))
                case "image" | "document":
                    source = block["source"]
                    if source["type"] == "url":
                        found.append(("url", source["url"]))
                    else:
                        found.append(("data", source["media_type"], source["data"]))
                case "tool_use":
                    found.append(("call", block["id"], block["name"], block["input"]))
                case "tool_result":
                    texts = [text for _, text in items(block.get("content", []))]
                    found.append(("result", block["tool_use_id"], texts))
        return found

    tools = [(tool["name"], tool.get("description", ""), tool["input_schema"]) for tool in body.get("tools", ())]
    choice = body.get("tool_choice", {"type": "auto"})
    kind = {"any": "required", "tool": choice.get("name")}.get(choice["type"], choice["type"])
    return {
        "system": [text for _, text in items(body.get("system", []))],
        "turns": [(message["role"], items(message["content"])) for message in body["messages"]],
        "tools": tools,
        "choice": kind if tools else None,
        "limit": body["max_tokens"],
        "stop": body.get("stop_sequences", []),
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
    }


def of_gemini(body: dict[str, Any]) -> dict[str, Any]:
    def item(part: dict[str, Any]) -> Any:
        if "text" in part:
            return ("text", part["text"])
        if "inlineData" in part:
            media = part["inlineData"]["mimeType"]
            return ("data", "audio" if media.startswith("audio/") else media, part["inlineData"]["data"])
        if "fileData" in part:
            return ("url", part["fileData"]["fileUri"])
        if "functionCall" in part:
            call = part["functionCall"]
            return ("call", call["id"], call["name"], call["args"])
        response = part["functionResponse"]
        output = response["response"]["output"]
        return ("result", response["id"], output if isinstance(output, list) else [output] if output else [])

    turns = _merge(
        [
            ({"model": "assistant"}.get(content["role"], content["role"]), [item(part) for part in content["parts"]])
            for content in body["contents"]
        ]
    )
    declared = [each for tool in body.get("tools", ()) for each in tool["functionDeclarations"]]
    tools = [
        (each["name"], each.get("description", ""), each.get("parametersJsonSchema", NO_PARAMETERS))
        for each in declared
    ]
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {"mode": "AUTO"})
    kind = {"AUTO": "auto", "VALIDATED": "auto", "NONE": "none", "ANY": "required"}[calling["mode"]]
    config = body.get("generationConfig", {})
    return {
        "system": [part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"]],
        "turns": turns,
        "tools": tools,
        "choice": calling.get("allowedFunctionNames", [kind])[0] if tools else None,
        "limit": config.get("maxOutputTokens"),
        "stop": config.get("stopSequences", []),
        "temperature": _unless_one(config.get("temperature")),
        "top_p": _unless_one(config.get("topP")),
    }


def of_converse(body: dict[str, Any]) -> dict[str, Any]:
    """Converse, and Nova's own body."""

    def item(block: dict[str, Any]) -> Any:
        ((kind, value),) = block.items()
        match kind:
            case "text":
                return ("text", value)
            case "image":
                return ("data", f"image/{value['format']}", value["source"]["bytes"])
            case "audio":
                return ("data", "audio", value["source"]["bytes"])
            case "document":
                return ("data", f"application/{value['format']}", value["source"]["bytes"])
            case "toolUse":
                return ("call", value["toolUseId"], value["name"], value["input"])
            case _:
                return ("result", value["toolUseId"], [each["text"] for each in value["content"]])

    config, tooling = body.get("inferenceConfig", {}), body.get("toolConfig", {"tools": []})
    specs = [tool["toolSpec"] for tool in tooling["tools"]]
    choice = tooling.get("toolChoice", {"auto": {}})
    kind = "required" if "any" in choice else choice["tool"]["name"] if "tool" in choice else "auto"
    return {
        "system": [block["text"] for block in body.get("system", ())],
        "turns": [(message["role"], [item(block) for block in message["content"]]) for message in body["messages"]],
        "tools": [(spec["name"], spec.get("description", ""), spec["inputSchema"]["json"]) for spec in specs],
        "choice": kind if specs else None,
        "limit": config.get("maxTokens"),
        "stop": config.get("stopSequences", []),
        "temperature": _unless_one(config.get("temperature")),
        "top_p": _unless_one(config.get("topP")),
    }
