"""Anthropic's Messages, at Anthropic, on Bedrock and on Vertex."""

from typing import Any

import pytest
from groupage.schemas.portable import Inexpressible, target_endpoint, translate

CHAT = "/v1/chat/completions"
NEW, BUDGETED = "claude-sonnet-5-5", "claude-sonnet-4-5-20250929"
ASKED = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "look_up", "description": "d", "parameters": {"type": "object"}}}


def said(model: str = NEW, provider: str = "anthropic", **fields: Any) -> dict[str, Any]:
    return translate(provider, model, CHAT, {"messages": [ASKED], **fields})


def refused(model: str = NEW, provider: str = "anthropic", **fields: Any) -> str:
    with pytest.raises(Inexpressible) as error:
        said(model, provider, **fields)
    return error.value.field


def calls(*ids: str) -> dict[str, Any]:
    function = {"name": "look_up", "arguments": '{"q": 1}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


def test_a_plain_request_needs_only_a_limit_more() -> None:
    assert said(model="claude-3-haiku-20240307") == {
        "model": "claude-3-haiku-20240307",
        "max_tokens": 4096,
        "messages": [ASKED],
    }


def test_system_and_developer_texts_become_system_blocks_and_equal_roles_one_turn() -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, ASKED, ASKED]
    body = said(messages=messages)
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hello"}] * 2}]


def test_tool_answers_come_in_one_users_turn_with_what_the_user_says_next() -> None:
    answers = [{"role": "tool", "tool_call_id": i, "content": f"got {i}"} for i in ("b", "a")]
    body = said(messages=[ASKED, calls("a", "b"), *answers, ASKED], tools=[TOOL])
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use", "tool_use"]
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "b", "content": "got b"},
        {"type": "tool_result", "tool_use_id": "a", "content": "got a"},
        {"type": "text", "text": "hello"},
    ]


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([ASKED, calls("a"), ASKED], "messages[1].tool_calls[0]"),
        ([ASKED, calls("a")], "messages[1].tool_calls[0]"),
        ([ASKED, calls("a", "a")], "messages[1].tool_calls[1].id"),
        ([ASKED, {"role": "tool", "tool_call_id": "a", "content": "x"}], "messages[1].tool_call_id"),
        ([{"role": "system", "content": "x"}], "messages"),
        ([ASKED, {"role": "user", "content": ""}], "messages[1]"),
        ([{"role": "user", "content": "\n"}], "messages[0]"),
        ([{"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}], "messages[0].content[0].type"),
        ([{"role": "function", "content": "x"}], "messages[0].role"),
    ],
)
def test_what_is_no_conversation_is_named(messages: list[dict[str, Any]], field: str) -> None:
    assert refused(messages=messages, tools=[TOOL]) == field


@pytest.mark.parametrize(
    "arguments",
    [
        "[1]",
        "{",
        '{"a": 1, "a": 2}',
        '{"a": 12345678901234567890123}',
        '{"a": 0.12345678901234567890}',
        '{"a": "\\ud800"}',
    ],
)
def test_arguments_that_would_be_altered_are_refused(arguments: str) -> None:
    call = calls("a")
    call["tool_calls"][0]["function"]["arguments"] = arguments
    messages = [ASKED, call, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    assert refused(messages=messages, tools=[TOOL]) == "messages[1].tool_calls[0].function.arguments"


def test_a_replayed_answer_with_nulls_is_taken() -> None:
    replayed = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "tool_calls": None,
    }
    assert said(messages=[ASKED, replayed, ASKED])["messages"][1] == {"role": "assistant", "content": "hi"}


def test_a_later_system_message_stands_before_the_answer_only() -> None:
    late = {"role": "system", "content": "Be brief."}
    assert said(messages=[ASKED, late])["messages"] == [ASKED, late]
    assert refused(messages=[ASKED, {"role": "assistant", "content": "x"}, late, ASKED]) == "messages[2]"
    assert refused(messages=[ASKED, late, ASKED]) == "messages[1]"
    assert refused(model=BUDGETED, messages=[ASKED, late]) == "messages[1]"


def test_defaults_say_nothing() -> None:
    neutral = {"temperature": 1, "top_p": 1.0, "n": 1, "stream": False, "logprobs": False, "seed": None, "tools": []}
    assert said(**neutral, response_format={"type": "text"}, stop=None, service_tier="auto") == said()


def test_sampling_is_for_older_models_on_the_clouds() -> None:
    old, new = "anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-opus-4-7"
    assert refused(temperature=0.5) == "temperature"
    body = said(model=old, provider="bedrock", temperature=0, top_p=0.5)
    assert (body["temperature"], body["top_p"], body["anthropic_version"]) == (0, 0.5, "bedrock-2023-05-31")
    assert "model" not in body
    assert refused(model=new, provider="bedrock", temperature=0) == "temperature"
    assert refused(model=old, provider="bedrock", temperature=1.5) == "temperature"
    assert refused(model="anthropic.claude-sonnet-4-5-v1:0", provider="bedrock", temperature=0, top_p=0.5) == "top_p"


def test_effort_is_adaptive_on_new_models_and_a_budget_on_older_ones() -> None:
    body = said(reasoning_effort="xhigh")
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "xhigh"})
    assert said(model=BUDGETED, reasoning_effort="high")["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert said(reasoning_effort="none")["thinking"] == {"type": "disabled"}
    assert "thinking" not in said(model="claude-3-haiku-20240307", reasoning_effort="none")
    assert refused(model="claude-3-haiku-20240307", reasoning_effort="low") == "reasoning_effort"
    assert refused(model=BUDGETED, reasoning_effort="low", max_tokens=1024) == "reasoning_effort"
    assert refused(reasoning_effort="low", tools=[TOOL], tool_choice="required") == "tool_choice"


def test_a_format_and_an_effort_share_one_config() -> None:
    form = {"name": "label", "description": "what it is", "strict": True, "schema": {"type": "object"}}
    body = said(response_format={"type": "json_schema", "json_schema": form}, reasoning_effort="low")
    schema = {"type": "object", "title": "label", "description": "what it is"}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
    assert form["schema"] == {"type": "object"}


def test_tools_and_the_choice_among_them() -> None:
    body = said(tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    assert body["tools"] == [{"name": "look_up", "description": "d", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert "tool_choice" not in said(tools=[TOOL], tool_choice="auto")
    assert refused(tool_choice="required") == "tool_choice"


def test_limits_that_contradict_each_other_and_two_users_are_refused() -> None:
    assert said(max_tokens=5, max_completion_tokens=5)["max_tokens"] == 5
    assert refused(max_tokens=5, max_completion_tokens=6) == "max_tokens"
    assert said(user="u", safety_identifier="u")["metadata"] == {"user_id": "u"}
    assert refused(user="u", safety_identifier="v") == "safety_identifier"


def test_native_bodies_pass_untouched() -> None:
    body = {"model": NEW, "max_tokens": 1, "messages": [], "anything": {"x": 1}}
    assert translate("anthropic", NEW, "/v1/messages", body) is body
    assert translate("vertex", NEW, "/rawPredict", body) == {k: v for k, v in body.items() if k != "model"}
    assert target_endpoint("anthropic", NEW, CHAT) == "/v1/messages"
    assert target_endpoint("vertex", NEW, CHAT) == "/rawPredict"
