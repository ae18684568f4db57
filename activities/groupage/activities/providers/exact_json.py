"""JSON bodies that are taken apart and put together again without loss.

orjson reads integers beyond 64 bits as floats, and cannot write them; Python's own reader and writer can.
"""

import json
from typing import Any

import orjson


def loads(body: bytes) -> Any:
    value = orjson.loads(body)
    # What comes back letter by letter has lost nothing; bodies in our store are in orjson's form.
    return value if orjson.dumps(value) == body else json.loads(body)


def dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
