"""From our requests to Vertex's: translated, without their model; and what a row repeats of a request.

A row of Gemini's has no id of ours but the label `groupage_id` in the request that it repeats. Where a server
drops it, the request itself is compared, by two digests (base.Echo). Labels are left out of both: they change no
answer.

exact   the JSON value: without regard to the order of keys, white space, escapes, and 1 for 1.0
loose   besides: snake_case keys as camelCase; nothing for null, "", [], {}, false and 0 of a field; numbers to six
        digits (32-bit floats); base64 of either alphabet, padded or not
"""

import hashlib
import json
import re
from typing import Any

from groupage.activities.providers.base import Echo
from groupage.activities.providers.exact_json import dumps, loads
from groupage.activities.providers.native_bodies import native_endpoint
from groupage.schemas.portable import VERTEX_LABEL as LABEL

LABELS_MAX = 64
CLAUDE = "/rawPredict"

_DIGEST_BYTES = 16
_BASE64_FIELDS = frozenset({"data", "thoughtSignature"})
_SNAKE = re.compile(r"_([a-z0-9])")


def is_claude(endpoint: str, model: str) -> bool:
    """Whether a job of these requests takes rawPredict bodies: one job has one endpoint and one model."""
    return native_endpoint("vertex", endpoint, model) == CLAUDE


def model_path(model: str, *, claude: bool) -> str:
    """`publishers/google/models/gemini-2.5-flash`; a name with slashes is a path already."""
    if "/" in model:
        return model
    return f"publishers/{'anthropic' if claude else 'google'}/models/{model}"


def labelled(wire_id: str, request: bytes) -> bytes:
    """The request with our label beside its own (which are not called so: intake refuses that); as it is where it
    has no room for one more.
    """
    ours = b'"labels":{"%b":"%b"}' % (LABEL.encode(), wire_id.encode())
    if b'"labels"' not in request:
        return b"{%b}" % ours if request == b"{}" else b"%b,%b}" % (request[:-1], ours)
    value = loads(request)
    labels = value.get("labels")
    if labels and (not isinstance(labels, dict) or (len(labels) >= LABELS_MAX and LABEL not in labels)):
        return request
    return dumps(value | {"labels": {**(labels or {}), LABEL: wire_id}})


def label_of(request: Any) -> str | None:
    """The id in a request that a row repeats: under our label nothing else stands."""
    labels = request.get("labels") if type(request) is dict else None
    found = labels.get(LABEL) if type(labels) is dict else None
    return found if type(found) is str else None


def echo_of(request: dict[str, Any]) -> Echo:
    """What is compared where a row has no id."""
    asked = {name: value for name, value in request.items() if name != "labels"}
    return Echo(_digest(_exact(asked)), _digest(_loose(asked)))


def _digest(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_exact(inner) for inner in value]
    return _number(value)


def _number(value: Any) -> Any:
    """1 and 1.0 are one number; integers that no float holds stay what they are."""
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    return value


def _loose(value: Any, field: str = "") -> Any:
    if isinstance(value, dict):
        named = ((_SNAKE.sub(lambda found: found[1].upper(), name), inner) for name, inner in value.items())
        loose = {name: _loose(inner, name) for name, inner in named}
        return {name: inner for name, inner in loose.items() if inner not in _SAYS_NOTHING}
    if isinstance(value, list):
        return [_loose(inner) for inner in value]
    if isinstance(value, str) and field in _BASE64_FIELDS:
        return value.replace("-", "+").replace("_", "/").rstrip("=")
    value = _number(value)
    return float(f"{value:.6g}") if type(value) is float else value


_SAYS_NOTHING: tuple[Any, ...] = (None, "", [], {}, False, 0)
