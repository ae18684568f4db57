"""The short way of intake gives what the long way gives, or leaves the line alone."""

import json
from typing import Any

import pytest
from groupage.schemas.limits import REQUEST_ID_MAX_BYTES
from groupage.store import spooler as spooling
from groupage.store.intake import SpooledInput
from groupage.store.plain_lines import read_plain
from hypothesis import given, settings
from hypothesis import strategies as st
from store_builders import batch_line, spool

FIRST = batch_line("first")
ODD = [
    batch_line("1", "as the others"),
    batch_line("2", 'q " \\ \u2028 é 日本語 \U0001f600 \x00'),
    json.dumps(json.loads(batch_line("3", "é raw")), ensure_ascii=False).encode(),
    json.dumps(json.loads(batch_line("4")), separators=(",", ":")).encode(),
    b"  " + batch_line("5", "white space outside") + b" \r",
    batch_line("6", temperature=0.7, max_tokens=5),
    batch_line("7", max_tokens=5, n=3),
    batch_line("7", "an id twice"),
    batch_line("8", model="another"),
    batch_line("9", model="another", max_completion_tokens=7),
    batch_line("10", tools=[{"type": "function", "function": {"name": "f" * 99}}]),
    batch_line("11", response_format={"type": "json_schema", "json_schema": {"name": "n" * 99}}),
    batch_line("12", stream=True),
    batch_line("13", stream=False),
    batch_line("14", messages="text"),
    batch_line("15", messages=["text", "more"]),
    batch_line("16", messages=[{"role": "user", "content": [{"type": "text", "text": "parts"}]}]),
    batch_line("17", messages=[{"role": "user", "content": None}]),
    batch_line("18", messages=[{"role": "user"}]),
    batch_line("19", messages={"content": "x"}),
    batch_line("20", messages=[]),
    batch_line("21", model=None),
    batch_line("22", model=["m"]),
    batch_line("23", a=1, b=2, c=3, d=4, e=5, prompt="counts, too, where there are many fields"),
    batch_line(""),
    batch_line(" "),
    batch_line("é"),
    batch_line("x" * REQUEST_ID_MAX_BYTES),
    batch_line("x" * (REQUEST_ID_MAX_BYTES + 1)),
    batch_line("24").replace(b'"POST"', b'"GET"'),
    batch_line("25").replace(b"/v1/chat/completions", b"/chat/completions"),
    batch_line("26").replace(b"/v1/chat/completions", b"/v1/nothing"),
    batch_line("27").replace(b"chat/completions", b"embeddings"),
    batch_line("28").replace(b'"28"', b"28"),
    batch_line("29")[:-1] + b', "labels": {"team": "a"}}',
    batch_line("30")[:-1] + b', "custom_id": "31"}',
    batch_line("32", x=1).replace(b'"x": 1', b'"x": 1, "x": 2'),
    batch_line("33", x=1).replace(b'"x": 1', b'"x": 123456789012345678901'),
    batch_line("34", x=1).replace(b'"x": 1', b'"x": 0.1000000000000000055511151231257827'),
    batch_line("35", x=1).replace(b'"x": 1', b'"x": 1E400'),
    batch_line("36", "half \ud800"),
    batch_line("37").replace(b"hello", b"\xff"),
    batch_line("38").replace(b"hello", b"\\u0022 \\/ \\u00E9"),
    b'{"custom_id": "39", "method": "POST", "url": "/v1/chat/completions", "body": [1]}',
    b'{"custom_id": "40", "prompt": "p", "method": "POST", "url": "/v1/chat/completions"}',
    b'{"id": "41", "prompt": "p"}',
    b"[]",
    b"7",
    b"{",
    b"",
    b"   ",
]


def told(spooled: SpooledInput) -> tuple[Any, ...]:
    """All that intake leaves."""
    segments = range(len(spooled.segments))
    return (
        [spooled.lines(segment) for segment in segments],
        [spooled.rows(segment).tolist() for segment in segments],
        spooled.groups,
        [rejected.model_dump() for rejected in spooled.rejected_lines()],
        spooled.fingerprint,
    )


def both_ways(lines: list[bytes], provider: str = "openai") -> tuple[SpooledInput, SpooledInput, int]:
    """Spooled the short way where it goes, the long way only, and how many lines went the short way."""
    taken = 0

    def counted(*arguments: Any) -> Any:
        nonlocal taken
        plain = read_plain(*arguments)
        taken += plain is not None
        return plain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooling, "read_plain", counted)
        short = spool(lines, provider=provider, model="gpt-4o-mini")
        patch.setattr(spooling, "read_plain", lambda *_: None)
        return short, spool(lines, provider=provider, model="gpt-4o-mini"), taken


def test_odd_lines_of_all_kinds_give_the_same_both_ways() -> None:
    short, long, taken = both_ways([FIRST, *ODD])
    assert told(short) == told(long)
    assert taken > 10


@pytest.mark.parametrize("line", ODD)
def test_each_odd_line_gives_the_same_both_ways(line: bytes) -> None:
    short, long, _ = both_ways([FIRST, line])
    assert told(short) == told(long)


def test_all_plain_lines_but_the_first_go_the_short_way() -> None:
    _, long, taken = both_ways([batch_line(str(number), f"text {number}", max_tokens=20) for number in range(50)])
    assert (taken, long.requests) == (49, 50)


def test_requests_that_are_rewritten_for_a_provider_are_read_the_long_way() -> None:
    short, long, taken = both_ways([batch_line(str(number), "text", max_tokens=9) for number in range(9)], "anthropic")
    assert taken == 0
    assert told(short) == told(long)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=6),
            st.text(max_size=20),
            st.dictionaries(st.sampled_from(["max_tokens", "n", "temperature", "seed", "stream", "user"]), VALUES),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_any_lines_give_the_same_both_ways(drawn: list[tuple[str, str, dict[str, Any], bool]]) -> None:
    lines = [
        json.dumps(json.loads(batch_line(id_, text, **more)), separators=(",", ":") if tight else None).encode()
        for id_, text, more, tight in drawn
    ]
    short, long, _ = both_ways([FIRST, *lines])
    assert told(short) == told(long)
