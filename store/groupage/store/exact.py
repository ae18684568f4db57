"""The careful way to read a JSON line, for the few that the fast way might alter.

orjson turns integers beyond 64 bits into floats, rounds long decimals, keeps the last of two equal
keys and refuses lone surrogates and numbers beyond a float. A body must not be altered silently: here such
a line keeps its bytes (white space outside strings removed), or is refused where readers would disagree
about it. Of a body that orjson refuses, parsing.py makes a refusal.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import orjson

EXCERPT_CHARACTERS = 80
_SPACES_OR_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[ \t\r\n]+', re.DOTALL)
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1


class LineRefused(Exception):
    """A line that cannot be sent; becomes a `Rejected`."""

    def __init__(self, code: str, message: str, *, at: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        """Where in the line the excerpt should be, in bytes or characters."""


class _Reading:
    """Hooks for the json module that notice what orjson would alter."""

    def __init__(self) -> None:
        self.lossy = False
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=self._int,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def _int(self, text: str) -> int:
        # Python refuses to convert more than 4,300 digits; the value is not needed, the text is kept.
        value = int(text) if len(text) <= 20 else _UINT64_MAX + 1
        if not _INT64_MIN <= value <= _UINT64_MAX:
            self.lossy = True
        return value

    def _float(self, text: str) -> float:
        value = float(text)
        try:
            exact = Decimal(text) == Decimal(repr(value))
        except InvalidOperation:  # an exponent of more than 18 digits
            exact = False
        if not exact:
            self.lossy = True
        return value

    def _constant(self, text: str) -> NoReturn:
        raise LineRefused("invalid_json", f"{text} is not JSON")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise LineRefused("duplicate_key", f"the key {twice[:60]!r} stands twice in one object: readers disagree")
        return found


def read_exactly(raw: bytes) -> tuple[Any, dict[str, bytes] | None]:
    """The line's value, and None if orjson reads and writes it faithfully; otherwise the JSON text of
    each top-level value, white space removed. Raises LineRefused.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise LineRefused("invalid_utf8", f"not UTF-8 at byte {error.start + 1}", at=error.start) from None
    reading = _Reading()
    try:
        value = reading.decoder.decode(text)
    except json.JSONDecodeError as error:
        raise LineRefused(
            "invalid_json", f"not JSON: {error.msg.removesuffix(' at')} at column {error.pos + 1}", at=error.pos
        ) from None
    except RecursionError:
        raise LineRefused("too_deep", "nested too deeply") from None
    if not reading.lossy:
        try:
            return orjson.loads(raw), None
        except orjson.JSONDecodeError:
            pass  # lone surrogates: json reads them, orjson does not
    return value, _top_level(text, reading) if isinstance(value, dict) else None


def _top_level(text: str, reading: _Reading) -> dict[str, bytes]:
    """`{"a": 1, "b": [2]}` to {"a": b"1", "b": b"[2]"}; `text` is known to be a valid object."""
    small = _SPACES_OR_STRING.sub(lambda match: match[0] if match[0][0] == '"' else "", text)
    found: dict[str, bytes] = {}
    at = 1
    while small[at] != "}":
        at += small[at] == ","
        name, at = reading.decoder.raw_decode(small, at)
        _, end = reading.decoder.raw_decode(small, at + 1)
        found[name] = small[at + 1 : end].encode()
        at = end
    return found


def excerpt(raw: bytes, at: int = 0) -> str:
    """Some characters of a line around `at`, on one line, fit to be shown."""
    start = max(0, at - 20)
    text = raw[start : start + 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace")[:EXCERPT_CHARACTERS]
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    cut = len(raw) > start + len(text.encode())
    return f"{'…' if start else ''}{shown}{'…' if cut else ''}"
