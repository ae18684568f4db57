"""Gemini's generateContent."""

from typing import Any

import pytest
from groupage.schemas.portable import Inexpressible, target_endpoint, translate
from portable_shapes import check_gemini

CHAT = "/v1/chat/completions"
ASKED = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "look_up"}}


def said(model: str = "gemini-2.5-flash", provider: str = "gemini", **fields: Any) -> dict[str, Any]:
    body = translate(provider, model, CHAT, {"model": model, "messages": [ASKED], **fields})
    check_gemini(body)
    return body


def refused(model: str = "gemini-2.5-flash", provider: str = "gemini", **fields: Any) -> str:
    with pytest.raises(Inexpressible) as error:
        said(model, provider, **fields)
    return error.value.field


def test_every_option_has_its_place() -> None:
    options = {"max_tokens": 9, "temperature": 1.5, "top_p": 0.5, "seed": 3, "n": 2, "stop": "END", "logprobs": True}
    body = said(**options, top_logprobs=4, presence_penalty=1, frequency_penalty=-1, reasoning_effort="medium")
    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 1.5,
        "topP": 0.5,
        "presencePenalty": 1,
        "frequencyPenalty": -1,
        "seed": 3,
        "candidateCount": 2,
        "stopSequences": ["END"],
        "responseLogprobs": True,
        "logprobs": 4,
        "thinkingConfig": {"thinkingBudget": 8192},
    }
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]
    assert "model" not in body


def test_a_plain_request_is_only_contents() -> None:
    assert said() == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


def test_answers_of_tools_stand_alone_and_carry_the_tools_name() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": ""}}
    messages = [
        ASKED,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
        ASKED,
    ]
    assert said(messages=messages, tools=[TOOL])["contents"][1:] == [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look_up", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c1", "name": "look_up", "response": {"output": "12"}}}],
        },
        {"role": "user", "parts": [{"text": "hello"}]},
    ]
    signed = said(model="gemini-3-pro-preview", messages=messages, tools=[TOOL])["contents"][1]["parts"][0]
    assert signed["thoughtSignature"] == "skip_thought_signature_validator"
    call["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    assert said(messages=messages, tools=[TOOL])["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_the_choice_of_tools_is_a_mode() -> None:
    def mode(**fields: Any) -> Any:
        return said(tools=[TOOL], **fields).get("toolConfig", {}).get("functionCallingConfig")

    assert mode() is None
    assert mode(tool_choice="none") == {"mode": "NONE"}
    assert mode(tool_choice="required") == {"mode": "ANY"}
    named = {"mode": "ANY", "allowedFunctionNames": ["look_up"]}
    assert mode(tool_choice={"type": "function", "function": {"name": "look_up"}}) == named
    assert refused(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "other"}}) == "tool_choice"
    strict = {"type": "function", "function": {"name": "look_up", "strict": True}}
    assert said(tools=[strict])["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 24_576}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.5-flash", "high", {"thinkingLevel": "HIGH"}),
        ("gemini-2.0-flash", "none", None),
    ],
)
def test_effort_is_a_budget_before_gemini_3_and_a_level_from_then_on(model: str, effort: str, thinking: Any) -> None:
    assert said(model, reasoning_effort=effort).get("generationConfig", {}).get("thinkingConfig") == thinking


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gemini-2.5-pro", "none"),
        ("gemini-3-pro", "none"),
        ("gemini-3-pro", "max"),
        ("gemini-2.0-flash", "low"),
        ("tuned-7", "low"),
    ],
)
def test_an_effort_that_a_model_has_not_is_refused(model: str, effort: str) -> None:
    assert refused(model, reasoning_effort=effort) == "reasoning_effort"


def test_images_by_url_need_an_ending_that_tells_their_kind() -> None:
    def image(url: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    part = said(messages=image("https://example.com/x.JPG?v=1"))["contents"][0]["parts"][0]
    assert part == {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/x.JPG?v=1"}}
    for url in (
        "https://example.com/x",
        "https://example.com/x.gif",
        "http://example.com/x.png",
        "data:image/png;base64,%%",
    ):
        assert refused(messages=image(url)) == "messages[0].content[0].image_url.url"


def test_formats_are_json_with_or_without_a_schema() -> None:
    assert said(response_format={"type": "json_object"})["generationConfig"] == {"responseMimeType": "application/json"}
    form = {"type": "json_schema", "json_schema": {"name": "label", "schema": {"type": "object", "title": "Label"}}}
    assert said(response_format=form)["generationConfig"]["responseJsonSchema"] == {"type": "object", "title": "Label"}


def test_targets() -> None:
    assert target_endpoint("gemini", "gemini-2.5-flash", CHAT) == "/generateContent"
    assert target_endpoint("vertex", "gemini-2.5-flash", CHAT) == "/generateContent"
    assert target_endpoint("openai", "gpt", CHAT) == CHAT


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("projects/claude-tests/locations/us-central1/publishers/google/models/gemini-2.5-flash", "/generateContent"),
        ("publishers/google/models/gemini-2.5-flash", "/generateContent"),
        ("projects/p/locations/us-central1/models/claude", "/generateContent"),
        ("projects/p/locations/us-central1/models/1234567890", "/generateContent"),
        (
            "projects/gemini-tests/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929",
            "/rawPredict",
        ),
        ("publishers/anthropic/models/claude-sonnet-4-5", "/rawPredict"),
        ("claude-sonnet-4-5@20250929", "/rawPredict"),
    ],
)
def test_the_publisher_in_a_path_tells_whose_the_model_is_and_no_projects_name(model: str, target: str) -> None:
    assert target_endpoint("vertex", model, CHAT) == target
    body = translate("vertex", model, CHAT, {"model": model, "messages": [ASKED]})
    assert ("contents" in body) == (target == "/generateContent")


def test_a_models_generation_and_size_are_those_of_its_name_in_a_path() -> None:
    place = "projects/gemini-1.5-pro/locations/us-central1/publishers/google/models/"
    for model in ("gemini-2.5-flash", f"{place}gemini-2.5-flash"):
        config = said(model, "vertex", reasoning_effort="none")["generationConfig"]
        assert config == {"thinkingConfig": {"thinkingBudget": 0}}
    assert refused(f"{place}gemini-2.5-pro", "vertex", reasoning_effort="none") == "reasoning_effort"
    assert refused("projects/gemini-2.5-flash/locations/x/models/1234", "vertex", reasoning_effort="none")
