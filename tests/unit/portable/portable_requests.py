"""Generated chat requests, each text with a marker of its own that must be found again."""

import json
from typing import Any

from hypothesis import strategies as st
from portable_targets import Target

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
NAMES = ("look_up", "add-label", "f")

_SUFFIXES = st.sampled_from(("", " and more", "\u2028x", ' "q" \\ é日', "\n", " {}"))
_JSON = st.dictionaries(
    st.sampled_from(("city", "days")), st.sampled_from((1, 2.5, None, True, "Köln", ["a", {"b": []}])), max_size=2
)
SAMPLES: dict[str, Any] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "frequency_penalty": 0.5,
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 3000,
    "max_tokens": 3000,
    "metadata": {"team": "search"},
    "modalities": ["text", "audio"],
    "moderation": {"model": "omni"},
    "n": 2,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": -0.5,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"ttl": "30m"},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "safety_identifier": "u-1",
    "seed": 7,
    "service_tier": "flex",
    "stop": ["END"],
    "store": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.5,
    "top_p": 0.5,
    "user": "u-1",
    "verbosity": "low",
    "web_search_options": {},
    "unknown_field": 1,
}
"""One value that says something, for each optional field of a chat body that can stand alone, and one unknown."""


class Marked:
    """Draws texts and counts their markers."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.markers: list[str] = []

    def text(self) -> str:
        self.markers.append(f"mk{len(self.markers)}x")
        return self.markers[-1] + str(self.draw(_SUFFIXES))


def _text_or_parts(marked: Marked) -> Any:
    if marked.draw(st.booleans()):
        return marked.text()
    return [{"type": "text", "text": marked.text()} for _ in range(marked.draw(st.integers(1, 2)))]


def _user_content(marked: Marked) -> Any:
    content = _text_or_parts(marked)
    kind = marked.draw(st.sampled_from((*[""] * 12, "png", "png", "url", "pdf", "detail", "gif")))
    if not kind:
        return content
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    image = {
        "png": {"url": f"data:image/png;base64,{PNG}"},
        "gif": {"url": f"data:image/gif;base64,{PNG}"},
        "url": {"url": "https://example.com/a.png?x=1"},
        "detail": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
    }
    if kind == "pdf":
        marked.markers.append("mkpdfx")
        return [
            *parts,
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "mkpdfx"}},
        ]
    return [*parts, {"type": "image_url", "image_url": image[kind]}]


def _tool_round(marked: Marked, number: int) -> list[dict[str, Any]]:
    ids = [f"call_{number}_{n}" for n in range(marked.draw(st.integers(1, 2)))]
    calls = [
        {
            "id": id_,
            "type": "function",
            "function": {
                "name": marked.draw(st.sampled_from(NAMES)),
                "arguments": json.dumps({**marked.draw(_JSON), "note": marked.text()}),
            },
        }
        for id_ in ids
    ]
    said: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
    if marked.draw(st.booleans()):
        said["content"] = marked.draw(st.sampled_from((None, marked.text())))
        if said["content"] is None:
            marked.markers.pop()
    order = ids if marked.draw(st.booleans()) else ids[::-1]
    return [said, *({"role": "tool", "tool_call_id": id_, "content": _text_or_parts(marked)} for id_ in order)]


def _messages(marked: Marked, *, with_calls: bool) -> list[dict[str, Any]]:
    draw = marked.draw
    messages: list[dict[str, Any]] = [
        {"role": draw(st.sampled_from(("system", "developer"))), "content": _text_or_parts(marked)}
        for _ in range(draw(st.integers(0, 2)))
    ]
    messages.append({"role": "user", "content": _user_content(marked)})
    for number in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(("user", "assistant", "calls", "calls", "late")))
        if kind == "user":
            messages.append({"role": "user", "content": _user_content(marked)})
        elif kind == "assistant":
            messages.append({"role": "assistant", "content": _text_or_parts(marked)})
            messages.append({"role": "user", "content": _user_content(marked)})
        elif kind == "calls" and with_calls:
            messages += _tool_round(marked, number)
        elif kind == "late" and draw(st.integers(0, 5)) == 0:
            messages.append({"role": "system", "content": _text_or_parts(marked)})
    return messages


def _tools(marked: Marked) -> list[dict[str, Any]]:
    tools = []
    for name in NAMES[: marked.draw(st.integers(1, 3))]:
        function: dict[str, Any] = {"name": name}
        if marked.draw(st.booleans()):
            function["description"] = marked.text()
        if marked.draw(st.booleans()):
            function["parameters"] = {
                "type": "object",
                "properties": {"city": {"type": "string", "description": marked.text()}},
            }
        if marked.draw(st.integers(0, 9)) == 0:
            function["strict"] = True
        tools.append({"type": "function", "function": function})
    return tools


@st.composite
def chat_requests(draw: Any, target: Target) -> tuple[dict[str, Any], list[str]]:
    """(body, markers of its texts). Most bodies hold what is usual for the target; some hold a rarer thing."""
    marked = Marked(draw)
    with_tools = target.calls and draw(st.booleans())
    body: dict[str, Any] = {"model": "stated-elsewhere", "messages": _messages(marked, with_calls=with_tools)}
    if with_tools:
        body["tools"] = _tools(marked)
        named = {"type": "function", "function": {"name": "look_up"}}
        choice = draw(st.sampled_from((*target.choices * 3, "none")))
        if choice is not None:
            body["tool_choice"] = named if choice == "one" else choice
    for name in draw(st.sets(st.sampled_from(target.usual), max_size=2)):
        body[name] = SAMPLES[name]
    if draw(st.integers(0, 7)) == 0:
        name = draw(st.sampled_from(sorted(SAMPLES)))
        body[name] = draw(st.sampled_from((SAMPLES[name], SAMPLES[name], None)))
    if draw(st.integers(0, 5)) == 0:
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": marked.text()}}}
        form = {"name": marked.text()[:64].strip(), "description": marked.text(), "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body, marked.markers
