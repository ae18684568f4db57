"""The rows of the table in docs/portable-requests.md: what a request may say, each with an example."""

from typing import Any

from portable_requests import PDF, PNG, SAMPLES

_TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
_STRICT = {"type": "function", "function": {"name": "look_up", "strict": True}}
_ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [_TOOL]}}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
_ASKED = {"role": "user", "content": "hello"}
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "label", "schema": {"type": "object", "properties": {}}}}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]}


def _image(url: str, **more: str) -> dict[str, Any]:
    return _part({"type": "image_url", "image_url": {"url": url, **more}})


_DATA = f"data:image/png;base64,{PNG}"
_WITH_COMPANY = {"parallel_tool_calls", "reasoning_effort", "stream"}

ROWS: dict[str, dict[str, Any]] = {
    "`messages`: `system`, `developer` at the start": {
        "messages": [{"role": "developer", "content": "Be brief."}, _ASKED]
    },
    "`messages`: `system`, `developer` later": {"messages": [_ASKED, {"role": "system", "content": "Be brief."}]},
    "`messages`: `assistant` first": {"messages": [{"role": "assistant", "content": "Ask me."}, _ASKED]},
    "`messages`: `assistant` last": {"messages": [_ASKED, {"role": "assistant", "content": "It is"}]},
    "`messages[].name`": {"messages": [{**_ASKED, "name": "ann"}]},
    "`messages[].tool_calls`, role `tool`": {
        "messages": [
            _ASKED,
            {"role": "assistant", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "12"},
        ],
        "tools": [_TOOL],
    },
    "part `image_url`, a `data:` URL": _image(_DATA),
    "part `image_url`, an `https:` URL": _image("https://example.com/a.png"),
    "part `image_url` with `detail` low or high": _image(_DATA, detail="high"),
    "part `input_audio`": _part({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}),
    "part `file`, a PDF as `data:` URL": _part(
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}
    ),
    "part `file` with `filename`": _part(
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "report.pdf"}}
    ),
    "part `file` with `file_id`": _part({"type": "file", "file": {"file_id": "file-1"}}),
    "`tools`: functions": {"tools": [_TOOL]},
    "`tools`: functions with `strict`": {"tools": [_STRICT]},
    "`tools`: custom": {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
    "`tool_choice` required": {"tools": [_TOOL], "tool_choice": "required"},
    "`tool_choice` one function": {
        "tools": [_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
    },
    "`tool_choice` none": {"tools": [_TOOL], "tool_choice": "none"},
    "`tool_choice` allowed_tools": {"tools": [_TOOL], "tool_choice": _ALLOWED},
    "`parallel_tool_calls` false": {"tools": [_TOOL], "parallel_tool_calls": False},
    "`response_format` json_schema": {"response_format": _SCHEMA},
    "`response_format` json_object": {"response_format": {"type": "json_object"}},
    "`reasoning_effort` none": {"reasoning_effort": "none"},
    "`reasoning_effort` minimal": {"reasoning_effort": "minimal"},
    "`reasoning_effort` low, medium, high": {"reasoning_effort": "medium"},
    "`reasoning_effort` xhigh, max": {"reasoning_effort": "xhigh"},
    "`temperature` above 1": {"temperature": 1.5},
    "`top_logprobs`": {"logprobs": True, "top_logprobs": 3},
    **{f"`{name}`": {name: value} for name, value in SAMPLES.items() if name not in _WITH_COMPANY},
}


def body_of(patch: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [_ASKED], **patch}
