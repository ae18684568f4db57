"""Structured output and tool calls: values that fit a JSON schema, made from the question's fingerprint."""

from typing import Any

import orjson

_MAX_DEPTH = 12
_MAX_ITEMS = 100


def wanted(endpoint: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON schema that the body asks its answer to follow; {} for any object; None for plain text."""
    if endpoint == "/v1/responses":
        given: Any = (body.get("text") or {}).get("format")
    else:
        given = body.get("response_format")
    if not isinstance(given, dict) or given.get("type") not in ("json_object", "json_schema"):
        return None
    schema = given.get("schema") or (given.get("json_schema") or {}).get("schema") or {}
    return schema if isinstance(schema, dict) else {}


def json_text(schema: dict[str, Any], text: str, seed: int) -> str:
    value = sample(schema, text, seed) if schema else {"answer": text}
    return orjson.dumps(value).decode()


def sample(schema: dict[str, Any], text: str, seed: int, root: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """One value for a schema. Knows types, properties, items, enum, const, anyOf and local $ref."""
    root = schema if root is None else root
    if depth > _MAX_DEPTH:
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        target = (root.get("$defs") or root.get("definitions") or {}).get(name, {})
        return sample(target, text, seed, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][seed % len(schema["enum"])]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return sample(schema[key][0], text, seed, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _of_kind(kind[0] if isinstance(kind, list) else kind, schema, text, seed, root=root, depth=depth)


def _of_kind(kind: str, schema: dict[str, Any], text: str, seed: int, *, root: dict[str, Any], depth: int) -> Any:
    if kind == "object":
        return {
            name: sample(inner, text, seed // (at + 2), root, depth + 1)
            for at, (name, inner) in enumerate((schema.get("properties") or {}).items())
        }
    if kind == "array":
        count = min(max(1, int(schema.get("minItems", 1))), _MAX_ITEMS)
        return [sample(schema.get("items") or {}, text, seed + at, root, depth + 1) for at in range(count)]
    if kind in ("integer", "number"):
        low = int(schema.get("minimum", 0))
        high = max(low, int(schema.get("maximum", low + 100)))
        return low + seed % (high - low + 1)
    if kind == "boolean":
        return bool(seed & 1)
    return None if kind == "null" else text


def tool_calls(endpoint: str, body: dict[str, Any], text: str, seed: int) -> list[Any]:
    """One call where the body forces one (tool_choice "required" or a named function), else []."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if not isinstance(tools, list) or not tools or choice in (None, "auto", "none"):
        return []
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    if isinstance(choice, dict):
        name = choice.get("function", choice).get("name")
        functions = [function for function in functions if function.get("name") == name]
    if not functions:
        return []
    function = functions[0]
    arguments = json_text(function.get("parameters") or {}, text, seed)
    if endpoint == "/v1/responses":
        return [
            {
                "type": "function_call",
                "id": f"fc_{seed:016x}",
                "call_id": f"call_{seed:016x}",
                "name": function.get("name"),
                "arguments": arguments,
                "status": "completed",
            }
        ]
    return [
        {
            "id": f"call_{seed:016x}",
            "type": "function",
            "function": {"name": function.get("name"), "arguments": arguments},
        }
    ]
