"""JSON inside a text (a tool call's arguments), where the provider wants the value itself."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson


def read_json(text: str) -> Any:
    """The value of a JSON text; None where it is none, or where writing the value would say something else.

    That is so for numbers that a float or 64 bits cannot hold, keys that stand twice, and half surrogates.
    """
    try:
        value = orjson.loads(text)
        if orjson.dumps(value).decode() == text:
            return value
        value = json.loads(text, parse_float=_exact, parse_constant=_refuse, object_pairs_hook=_object)
        orjson.dumps(value)
    except (ValueError, TypeError, RecursionError, InvalidOperation):
        return None
    return value


def _exact(text: str) -> float:
    value = float(text)
    if Decimal(text) != Decimal(repr(value)):
        raise ValueError(f"{text} is no float")
    return value


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
