"""JSON of answers that orjson refuses or would alter, though everybody else reads it.

Half a surrogate pair (an emoji cut at the token limit), NaN and Infinity (Python's servers write them), numbers
beyond a float, nesting beyond any reader's patience: such an answer was made and paid for. It is read all the same,
and what is written of it every reader can read::

    half a surrogate pair                          U+FFFD
    NaN, Infinity, a number that no float holds    null
    what is nested deeper than DEPTH_MAX           null

Numbers of more digits than a float or 64 bits hold keep them all in `exact`, as orjson.Fragment: it costs several
times what orjson does, so `has_long_number` says first whether there may be any.
"""

import codecs
import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

DEPTH_MAX = 250
"""orjson writes 254 levels, and reads 1024."""
_FLOAT_MAX_DIGITS = 15
"""Decimal digits that every float gives back as they came."""
_LONG_NUMBER = b"0" * (_FLOAT_MAX_DIGITS + 1)
_DIGITS = bytes(ord("0") if chr(code) in "0123456789." else ord(" ") for code in range(256))
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[][{}]', re.DOTALL)


def loads(data: bytes) -> Any:
    """As orjson.loads; what that refuses is read with care. Raises orjson.JSONDecodeError where it is no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        readable = strict(data)
        if readable is None:
            raise
        return orjson.loads(readable)


def strict(data: bytes) -> bytes | None:
    """The same JSON as everybody reads it, numbers digit by digit; None where it is none."""
    try:
        return orjson.dumps(exact(data))
    except ValueError:  # of UTF-8 and of JSON
        return None


def exact(data: bytes) -> Any:
    """Numbers that would lose digits as orjson.Fragment. Raises ValueError where it is no JSON."""
    text = _shallow(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogatepass"))
    return _plain(_DECODER.decode(text))


def has_long_number(data: bytes) -> bool:
    """Whether there may be a number that orjson would alter, in a string or outside. 2 µs for 1.5 KB."""
    return _LONG_NUMBER in data.translate(_DIGITS)


def dumps(value: Any, option: int | None = None) -> bytes:
    """As orjson.dumps, whatever a reader of JSON made: half surrogate pairs, integers beyond 64 bits, any depth."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        return orjson.dumps(_plain(value), option=option)


def _int(text: str) -> int | orjson.Fragment | None:
    # Python refuses to convert more than 4,300 digits; 20 hold 64 bits.
    value = int(text) if len(text) <= 20 else _UINT64_MAX + 1
    if _INT64_MIN <= value <= _UINT64_MAX:
        return value
    return orjson.Fragment(text) if math.isfinite(float(text)) else None


def _float(text: str) -> float | orjson.Fragment | None:
    value = float(text)
    if repr(value) == text:
        return value
    if not math.isfinite(value):
        return None
    try:
        same = Decimal(text) == Decimal(repr(value))
    except InvalidOperation:  # an exponent of more than 18 digits
        same = False
    return value if same else orjson.Fragment(text)


_DECODER = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=lambda _: None)


def _shallow(text: str) -> str:
    """With null for what is nested deeper than DEPTH_MAX: Python's reader goes no deeper than its own stack."""
    kept, start, depth = [], 0, 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == DEPTH_MAX + 1:
                kept += [text[start : found.start()], "null"]
                start = len(text)
        elif found[0] in "]}":
            if depth == DEPTH_MAX + 1:
                start = found.end()
            depth -= 1
    return "".join((*kept, text[start:])) if kept else text


def _plain(value: Any, depth: int = 1) -> Any:
    """What orjson can write, numbers digit by digit."""
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, (dict, list)) and depth > DEPTH_MAX:
        return None
    if isinstance(value, dict):
        return {_whole(name): _plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in value]
    if type(value) is int and not _INT64_MIN <= value <= _UINT64_MAX:
        return _int(str(value))
    return value


def _whole(text: str) -> str:
    """With U+FFFD for half a surrogate pair; two halves that stand together are one character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
