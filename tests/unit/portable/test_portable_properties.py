"""For every target: a request is said whole, in a shape that the SDK's own types take, or refused by name."""

import copy
from typing import Any

import orjson
import pytest
from groupage.schemas.portable import Inexpressible, translate
from hypothesis import event, given, settings
from hypothesis import strategies as st
from portable_meaning import of_openai
from portable_requests import SAMPLES, chat_requests
from portable_targets import CHAT, TARGETS, is_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("type", "text", "url", "name", "x")), inner, max_size=2)
    ),
    max_leaves=5,
)
PLACES = st.sampled_from(
    (*SAMPLES, "messages", "tools", "tool_choice", "response_format", "top_logprobs", "content", "role", "tool_calls")
)


def _said_or_refused(name: str, body: dict[str, Any]) -> dict[str, Any] | str:
    """The provider's body, or the field that cannot be said."""
    target = TARGETS[name]
    try:
        return translate(target.provider, target.model, CHAT, body)
    except Inexpressible as error:
        return error.field


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_request_is_said_whole_or_refused_by_the_name_of_a_field_that_it_has(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    body, markers = data.draw(chat_requests(target))
    before = copy.deepcopy(body)
    said = _said_or_refused(name, body)
    assert body == before
    if isinstance(said, str):
        event("refused")
        assert is_in(said, body), said
        return
    event("said")
    target.check(said)
    expected = of_openai(body)
    expected["limit"] = expected["limit"] or target.limit
    assert target.read(said) == expected
    written = orjson.dumps(said).decode()
    assert [marker for marker in markers if marker not in written] == []


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=100, deadline=None)
@given(place=PLACES, value=JSON, inside=st.integers(0, 2))
def test_whatever_stands_in_a_field_is_said_or_refused_and_never_crashes(
    name: str, place: str, value: Any, inside: int
) -> None:
    target = TARGETS[name]
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    if inside == 1:
        body["messages"][0][place] = value
    elif inside == 2:
        body["messages"].append(
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", place: value}]}
        )
    else:
        body[place] = value
    said = _said_or_refused(name, body)
    if isinstance(said, str):
        assert is_in(said, body), said
    else:
        target.check(said)


@pytest.mark.parametrize("name", TARGETS)
def test_a_plain_request_can_be_said_everywhere(name: str) -> None:
    target = TARGETS[name]
    plain = {
        "model": "m",
        "messages": [{"role": "system", "content": "Label."}, {"role": "user", "content": "hello"}],
        "max_tokens": 10,
    }
    said = translate(target.provider, target.model, CHAT, plain)
    target.check(said)
    assert target.read(said) == of_openai(plain)
