"""Whether a body has the shape that an SDK's own types, or botocore's model, give it."""

import base64
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, Union

import orjson
import typing_extensions as te


def misfit(value: Any, wanted: Any, at: str = "body") -> str:  # one for each kind of type
    """Where `value` does not fit a TypedDict (nested ones too), or "". Nothing beyond the type is allowed."""
    origin, arguments = te.get_origin(wanted), te.get_args(wanted)
    if wanted is Any or wanted is object:
        return ""
    if origin in {te.Required, te.NotRequired, te.Annotated}:
        return misfit(value, arguments[0], at)
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        found = [misfit(value, each, at) for each in arguments]
        return "" if "" in found else max(found, key=len)
    if origin is Literal:
        return "" if value in arguments else f"{at}: {value!r} is none of {arguments}"
    if te.is_typeddict(wanted):
        return _typed_dict_misfit(value, wanted, at)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "" if isinstance(value, dict) else f"{at}: {value!r} is no object"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Iterable):
        return _list_misfit(value, arguments[0] if arguments else Any, at)
    if str(origin or wanted).endswith("SequenceNotStr'>") or "SequenceNotStr" in str(wanted):
        return _list_misfit(value, arguments[0], at)
    if wanted is float:
        return "" if type(value) in {int, float} else f"{at}: {value!r} is no number"
    if isinstance(wanted, type) and wanted in {str, int, bool, type(None), dict}:
        return "" if type(value) is wanted else f"{at}: {value!r} is no {wanted.__name__}"
    return f"{at}: {wanted} is for answers, not for requests"


def _list_misfit(value: Any, item: Any, at: str) -> str:
    if not isinstance(value, list):
        return f"{at}: {value!r} is no list"
    return next((found for n, each in enumerate(value) if (found := misfit(each, item, f"{at}[{n}]"))), "")


@lru_cache(256)
def _hints(wanted: Any) -> dict[str, Any]:
    return te.get_type_hints(wanted, include_extras=True)


def _typed_dict_misfit(value: Any, wanted: Any, at: str) -> str:
    if not isinstance(value, dict):
        return f"{at}: {value!r} is no object"
    hints = _hints(wanted)
    for name, hint in hints.items():
        if te.get_origin(hint) is te.Required and name not in value:
            return f"{at}.{name}: is missing ({wanted.__name__})"
    for name, inner in value.items():
        if name not in hints:
            return f"{at}.{name}: is not in {wanted.__name__}"
        found = misfit(inner, hints[name], f"{at}.{name}")
        if found:
            return found
    return ""


def check_anthropic(body: dict[str, Any]) -> None:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

    assert misfit(body, MessageCreateParamsNonStreaming) == ""


def check_claude_on(version: str, body: dict[str, Any]) -> None:
    """The clouds' older versions: with sampling parameters, without the model."""
    rest = dict(body)
    assert rest.pop("anthropic_version") == version
    assert "model" not in rest
    for name in ("temperature", "top_p"):
        assert 0 <= rest.pop(name, 0) <= 1
    check_anthropic({"model": "claude", **rest})


def check_gemini(body: dict[str, Any]) -> None:
    from google.genai import types

    fields: dict[str, Any] = {
        "contents": types.Content,
        "systemInstruction": types.Content,
        "tools": types.Tool,
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    assert set(body) <= set(fields)
    assert body["contents"]
    for name, value in body.items():
        for each in value if isinstance(value, list) else [value]:
            fields[name].model_validate_json(orjson.dumps(each))


@lru_cache(1)
def _converse_shape() -> Any:
    from botocore.session import get_session

    return get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def check_converse(body: dict[str, Any]) -> None:
    from botocore.validate import ParamValidator

    assert "modelId" not in body
    report = ParamValidator().validate({"modelId": "m", **_with_bytes(body)}, _converse_shape())
    assert not report.has_errors(), report.generate_report()


def check_nova(body: dict[str, Any]) -> None:
    assert body["schemaVersion"] == "messages-v1"
    assert set(body) <= {"schemaVersion", "system", "messages", "inferenceConfig", "toolConfig"}
    check_converse({name: value for name, value in body.items() if name != "schemaVersion"})


def check_openai_on_bedrock(body: dict[str, Any]) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    assert "model" not in body
    assert misfit({"model": "m", **body}, CompletionCreateParamsNonStreaming) == ""


def _with_bytes(value: Any) -> Any:
    """JSON holds blobs as base64 under the key bytes; botocore takes them as bytes."""
    if isinstance(value, dict):
        return {
            name: base64.b64decode(inner) if name == "bytes" else inner if name == "input" else _with_bytes(inner)
            for name, inner in value.items()
        }
    return [_with_bytes(each) for each in value] if isinstance(value, list) else value
