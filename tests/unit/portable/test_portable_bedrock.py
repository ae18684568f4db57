"""Bedrock: the dialect follows the model's family."""

from typing import Any

import orjson
import pytest
from groupage.schemas.portable import Inexpressible, bedrock_family, target_endpoint, translate
from portable_shapes import check_converse, check_nova

CHAT = "/v1/chat/completions"
ASKED = {"role": "user", "content": "hello"}
LLAMA, NOVA, GPT = "us.meta.llama3-3-70b-instruct-v1:0", "amazon.nova-pro-v1:0", "openai.gpt-oss-120b-1:0"
TOOL = {"type": "function", "function": {"name": "look_up", "description": "d"}}


def said(model: str, **fields: Any) -> dict[str, Any]:
    return translate("bedrock", model, CHAT, {"model": model, "messages": [ASKED], **fields})


def refused(model: str, **fields: Any) -> str:
    with pytest.raises(Inexpressible) as error:
        said(model, **fields)
    return error.value.field


@pytest.mark.parametrize(
    ("model", "family", "target"),
    [
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude", "/invoke"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-v1:0", "claude", "/invoke"),
        ("global.amazon.nova-2-lite-v1:0", "nova", "/invoke"),
        ("anthropic.claude-v2:1", "claude", "/invoke"),
        (GPT, "openai", "/invoke"),
        (LLAMA, "other", "/converse"),
        ("mistral.mistral-large-2407-v1:0", "other", "/converse"),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123", "other", "/converse"),
    ],
)
def test_the_family_decides_the_endpoint(model: str, family: str, target: str) -> None:
    assert bedrock_family(model) == family
    assert target_endpoint("bedrock", model, CHAT) == target


def test_converse_takes_texts_limits_format_and_metadata() -> None:
    schema = {"name": "label", "description": "what", "schema": {"type": "object", "description": "its own"}}
    body = said(
        LLAMA,
        messages=[{"role": "system", "content": "s"}, ASKED],
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        stop=["END"],
        metadata={"team": "search"},
        response_format={"type": "json_schema", "json_schema": schema},
    )
    check_converse(body)
    form = body.pop("outputConfig")["textFormat"]["structure"]["jsonSchema"]
    assert (orjson.loads(form.pop("schema")), form) == (schema["schema"], {"name": "label", "description": "what"})
    assert body == {
        "system": [{"text": "s"}],
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
        "inferenceConfig": {"maxTokens": 5, "temperature": 0, "topP": 0.5, "stopSequences": ["END"]},
        "requestMetadata": {"team": "search"},
    }


def test_tools_are_for_models_with_a_body_of_their_own() -> None:
    assert refused(LLAMA, tools=[TOOL]) == "tools"
    body = said(NOVA, tools=[TOOL], tool_choice="required")
    check_nova(body)
    assert body["toolConfig"] == {
        "tools": [
            {
                "toolSpec": {
                    "name": "look_up",
                    "description": "d",
                    "inputSchema": {"json": {"type": "object", "properties": {}}},
                }
            }
        ],
        "toolChoice": {"any": {}},
    }


def test_calls_in_the_history_must_come_with_their_tools() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    messages = [
        ASKED,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    for model in (LLAMA, NOVA, "anthropic.claude-3-haiku-20240307-v1:0"):
        assert refused(model, messages=messages) == "messages"


def test_a_document_is_named_without_its_ending() -> None:
    def file(name: str) -> list[dict[str, Any]]:
        part = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQ=", "filename": name}}
        return [{"role": "user", "content": [{"type": "text", "text": "Read."}, part]}]

    assert said(LLAMA, messages=file("Report (1).pdf"))["messages"][0]["content"][1]["document"]["name"] == "Report (1)"
    assert refused(LLAMA, messages=file("a_b.pdf")) == "messages[0].content[1].file.filename"


def test_openais_own_models_take_the_body_without_the_model() -> None:
    body = said(GPT, max_tokens=5, reasoning_effort="low", tools=[TOOL], seed=None)
    assert body == {"messages": [ASKED], "tools": [TOOL], "reasoning_effort": "low", "max_completion_tokens": 5}
    assert refused(GPT, seed=1) == "seed"


def test_a_native_body_loses_only_the_model() -> None:
    assert translate("bedrock", LLAMA, "/invoke", {"model": LLAMA, "prompt": "p"}) == {"prompt": "p"}
    assert translate("bedrock", LLAMA, "/converse", {"model": LLAMA, "messages": []}) == {"messages": []}


@pytest.mark.parametrize("model", ["amazon.nova-canvas-v1:0", "us.amazon.nova-reel-v1:1", "amazon.nova-sonic-v1:0"])
def test_models_that_make_no_texts_answer_no_chat(model: str) -> None:
    assert bedrock_family(model) == "other"
    assert refused(model) == "model"


@pytest.mark.parametrize("model", ["anthropic.claude-v2:1", "anthropic.claude-instant-v1", "anthropic.claude-v2"])
def test_the_first_claudes_are_the_oldest_and_not_the_newest(model: str) -> None:
    assert said(model)["max_tokens"] == 4096
    assert said(model, temperature=0.5)["temperature"] == 0.5
    assert refused(model, reasoning_effort="high") == "reasoning_effort"


@pytest.mark.parametrize("strict", [True, False, None])
def test_a_format_is_kept_to_whatever_it_says_of_strictness(strict: bool | None) -> None:
    form = {"name": "label", "schema": {"type": "object"}}
    plain = said(LLAMA, response_format={"type": "json_schema", "json_schema": form})
    assert said(LLAMA, response_format={"type": "json_schema", "json_schema": {**form, "strict": strict}}) == plain


def test_a_strictness_that_is_no_truth_value_is_refused() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": "banana"}}
    assert refused(LLAMA, response_format=form) == "response_format.json_schema.strict"
