"""No body is altered silently, and the fingerprint tells contents apart, not ways of writing them."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.store.exact import read_exactly
from groupage.store.intake import spool_requests
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from store_builders import batch_line, bodies, canonical, spool

TEXT = st.text(st.characters(exclude_categories=()), max_size=30)  # lone surrogates too
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**64), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
WRITTEN: list[dict[str, Any]] = [
    {},
    {"separators": (",", ":")},
    {"indent": None, "separators": (" , ", " : ")},
    {"separators": (",\t", ":\r")},
]


def exact_value(raw: bytes | str) -> Any:
    """The JSON value with every digit of its numbers."""
    return json.loads(raw, parse_float=Decimal)


def line_with(extra: str) -> bytes:
    return b'{"id": "a", "body": {"model": "m", "messages": [], "x": %b}}' % extra.encode("utf-8", "surrogatepass")


@settings(deadline=None)
@given(value=JSON, style=st.sampled_from(WRITTEN), ascii_only=st.booleans())
def test_a_body_keeps_its_value_in_every_way_of_writing_it(value: Any, style: dict[str, Any], ascii_only: bool) -> None:
    body = {"model": "m", "messages": [], "x": value}
    text = json.dumps({"id": "a", "body": body}, ensure_ascii=ascii_only, **style)
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = json.dumps({"id": "a", "body": body}, **style).encode()
    spooled = spool([raw])
    assert spooled.rejected == (not strict_readers_take(raw))
    if not spooled.rejected:
        assert exact_value(bodies(spooled)[0]) == exact_value(raw)["body"]
        assert b"\n" not in bodies(spooled)[0]


def strict_readers_take(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "number",
    [
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901",
        "9" * 300,
        "0.1000000000000000055",
        "1e-99999999999999999999",
        "3.14159265358979323846264338327950288",
    ],
)
@pytest.mark.parametrize("given_model", [True, False])
def test_numbers_that_orjson_would_round_keep_their_digits(number: str, given_model: bool) -> None:
    model = b'"model": "m", ' if given_model else b""
    raw = b'{"id": "a", "body": {%b"seed": %b, "messages": [ "a b" ]}}' % (model, number.encode())
    (body,) = bodies(spool([raw], model="m"))
    assert body == b'{"model":"m","seed":%b,"messages":["a b"]}' % number.encode()


def test_short_lines_keep_their_digits_too() -> None:
    line = b'{"id": "b", "messages": [ {"role": "user", "content": "x", "n": 99999999999999999999999} ]}'
    assert bodies(spool([line], model="m")) == [
        b'{"model":"m","messages":[{"role":"user","content":"x","n":99999999999999999999999}]}'
    ]


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ('"cut \\ud83d"', r"half a surrogate pair \(\\ud83d\)"),
        ('"\\udc00 alone"', r"half a surrogate pair \(\\udc00\)"),
        ('{"\\ud83d\\ude00 whole, then half \\udbff": 99999999999999999999}', r"half a surrogate pair \(\\udbff\)"),
        ("1e400", "number beyond"),
        ("-1e999", "number beyond"),
        ("9" * 5000, "number beyond"),
    ],
)
def test_promise_10_a_line_that_strict_readers_refuse_is_refused_before_it_sinks_a_file(extra: str, why: str) -> None:
    short = b'{"id": "c", "model": "m"}' if not extra.startswith('"') else b'{"id": "c", "prompt": %b}' % extra.encode()
    good = batch_line("g")
    spooled = spool([good, line_with(extra), short], model="m")
    rejected = [(one.line, one.code, one.message) for one in spooled.rejected_lines()]
    assert [line for line, _, _ in rejected] == [2, 3]
    assert rejected[0][1] == "bad_body"
    assert re.search(why, rejected[0][2])


def test_whole_pairs_and_escapes_of_escapes_are_no_halves() -> None:
    for extra in ('"\\ud83d\\ude00", "y": 99999999999999999999999', '["\\\\ud83d", 123456789012345678901]'):
        assert spool([line_with(extra)]).rejected == 0


def test_a_default_model_is_written_into_an_empty_body_that_must_keep_its_text() -> None:
    raws = read_exactly(b'{"id":"a","body":{},"x":1e400}')[1]
    assert raws == {"id": b'"a"', "body": b"{}", "x": b"1e400"}
    assert bodies(spool([b'{"id":"a","labels":{},"body":{},"endpoint":"/v1/responses"}'], model="m")) == [
        b'{"model":"m"}'
    ]


def test_empty_strings_and_huge_ids_survive() -> None:
    huge = "ü" * 2048
    spooled = spool([batch_line(huge, "")])
    assert json.loads(canonical(spooled)[0])["id"] == huge
    assert json.loads(bodies(spooled)[0])["messages"][0]["content"] == ""


@settings(deadline=None)
@given(value=JSON, style=st.sampled_from(WRITTEN[1:]))
def test_the_fingerprint_is_independent_of_white_space(value: Any, style: dict[str, Any]) -> None:
    line = {"id": "a", "body": {"model": "m", "x": value}, "labels": {"k": "v"}}
    plain = json.dumps(line, separators=(",", ":")).encode()
    assume(strict_readers_take(plain))
    spaced = b"\n \n\t" + json.dumps(line, **style).encode() + b" \r\n\n"
    assert spool([plain]).fingerprint == spool(spaced).fingerprint


def test_a_file_with_escapes_has_one_fingerprint_however_it_is_spaced() -> None:
    line = {"id": "é", "body": {"model": "m", "x": ["日本", 1e-7, 1e22, 0.1, -0.0, 10**18]}}
    prints = {spool([json.dumps(line, **style).encode()]).fingerprint for style in WRITTEN}
    prints |= {spool([json.dumps(line, ensure_ascii=False, **style).encode()]).fingerprint for style in WRITTEN}
    assert len(prints) == 1


def test_the_fingerprint_is_independent_of_segment_and_piece_sizes(tmp_path: Path) -> None:
    lines = [batch_line(f"{n}", "x" * n) for n in range(50)]
    lines[7:7] = [b"{bad", batch_line("3")]
    whole = b"".join(line + b"\n" for line in lines)
    prints = {spool(lines, segment_requests=n).fingerprint for n in (1, 7, 1000)}
    prints.add(
        spool_requests(
            [whole[i : i + 13] for i in range(0, len(whole), 13)], tmp_path / "x", provider="openai"
        ).fingerprint
    )
    assert len(prints) == 1


def test_the_fingerprint_tells_contents_orders_and_providers_apart() -> None:
    a, b = batch_line("a"), batch_line("b")
    prints = [
        spool([a, b]).fingerprint,
        spool([b, a]).fingerprint,
        spool([a]).fingerprint,
        spool([a, batch_line("b", "other")]).fingerprint,
        spool([a, batch_line("c")]).fingerprint,
        spool([a, b], provider="anthropic").fingerprint,
        spool([a, b, b"{bad"]).fingerprint,
        spool([a, b, b"{worse"]).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
