"""JSON that orjson refuses or alters: read as everybody else reads it, and written so that every reader reads it."""

import json
import math
import re

import orjson
import pytest
from groupage.store import answer_json
from groupage.store.answer_json import DEPTH_MAX
from hypothesis import given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # half surrogate pairs too
NUMBERS = st.integers() | st.integers(-(10**40), 10**40) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int, core: str = "1") -> str:
    return "[" * depth + core + "]" * depth


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (r'"cut \ud83d"', "cut \ufffd"),
        (r'"\udc00 alone, \ud83d\ude00 whole"', "\ufffd alone, \U0001f600 whole"),
        (r'{"\ud83d": "\\ud83d"}', {"\ufffd": "\\ud83d"}),
        ("[NaN, Infinity, -Infinity, 1e400, -1e400]", [None] * 5),
        ("[1e400, 1" + "0" * 5000 + "]", [None, None]),
        ('{"x": "[NaN, \\"1e400", "y": NaN}', {"x": '[NaN, "1e400', "y": None}),
        ("\ufeff[1]", [1]),
        (nested(1100), json.loads(nested(DEPTH_MAX, "null"))),
        ('{"a": ' + nested(2000, '"]{"') + ', "b": [NaN]}', {"a": json.loads(nested(DEPTH_MAX - 1, "null")), "b": [None]}),
    ],
)  # fmt: skip
def test_what_orjson_alone_refuses_is_read(given, read):
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(given)
    assert answer_json.loads(given.encode()) == read


def test_halves_of_a_character_that_came_as_bytes_are_read():
    assert answer_json.loads(b'"\xed\xa0\xbd and \xed\xa0\xbd\xed\xb8\x80"') == "\ufffd and \U0001f600"


@pytest.mark.parametrize(
    "given",
    [b"", b"<html>", b'{"a": 1', b'{"a": "\\ud83d', b'"\xff"', b"[NaN", b"nan", b"[" * 3000, b'["\\ud83d"] x', b"[1e400,]"],
)  # fmt: skip
def test_what_is_no_json_stays_none(given):
    assert answer_json.strict(given) is None
    with pytest.raises(orjson.JSONDecodeError):
        answer_json.loads(given)


@pytest.mark.parametrize(
    "number",
    [
        "9400111899223197428490",
        "-9223372036854775809",
        "18446744073709551615",
        "0.12345678901234567890",
        "123456789.123456789123",
        "1.2345678901234567e-300",
        "0.1",
        "1e-400",
        "-7",
    ],
)
def test_numbers_keep_all_their_digits(number):
    given = f'{{"a":[{number}],"b":"x"}}'.encode()
    assert orjson.dumps(answer_json.exact(given)) == given


@pytest.mark.parametrize("number", ["9400111899223197428490", "0.1234567890123456789", "1234567.8901234567"])
def test_long_numbers_are_seen(number):
    assert answer_json.has_long_number(b'{"a":%b}' % number.encode())


def test_plain_lines_are_not_read_twice():
    assert not answer_json.has_long_number(
        b'{"created":1764451200,"id":"msg_013Zva2CMHLNnXjNJJKqJ2EF","at":"12:00:00.123456"}'
    )


@given(VALUES)
@settings(deadline=None)
def test_whatever_python_writes_is_read_as_python_reads_it_but_for_what_nobody_holds(value):
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        found = answer_json.strict(text.encode("utf-8", "surrogatepass"))
        assert found is not None
        orjson.loads(found)
        assert json.loads(found) == readable(json.loads(text))


@given(VALUES)
@settings(deadline=None)
def test_whatever_is_written_every_reader_reads(value):
    found = answer_json.dumps(value)
    orjson.loads(found)
    assert json.loads(found) == readable(value)


@given(st.text('[]{}"\\,:1aN', max_size=60).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_what_is_read_can_be_read_again(data):
    found = answer_json.strict(data)
    if found is not None:
        orjson.loads(found)


def test_what_is_nested_too_deeply_is_cut_where_it_is_written():
    deep = json.loads(nested(900))
    written = answer_json.dumps({"a": deep, "b": 1})
    assert orjson.loads(written) == {"a": json.loads(nested(DEPTH_MAX - 1, "null")), "b": 1}
    assert answer_json.dumps(json.loads(nested(DEPTH_MAX))) == nested(DEPTH_MAX).encode()


def readable(value):
    """With null and U+FFFD as the module's table says; integers as Python has them."""
    if isinstance(value, str):
        pairs = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return re.sub("[\ud800-\udfff]", "\ufffd", pairs)
    if isinstance(value, dict):
        return {readable(name): readable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [readable(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
