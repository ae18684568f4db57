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

import orjson
from groupage.activities.providers.base import Echo
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.portable import Inexpressible, target_endpoint, translate

LABEL = "groupage_id"
"""Of the request: keys and values of labels are at most 63 of [a-z0-9_-]."""
LABELS_MAX = 64
CLAUDE = "/rawPredict"

_DIGEST_BYTES = 16
_BASE64_FIELDS = frozenset({"data", "thoughtSignature"})
_SNAKE = re.compile(r"_([a-z0-9])")


def native(endpoint: str, body: bytes) -> tuple[str, str, dict[str, Any]]:
    """(model, /generateContent or /rawPredict, Vertex's body). Raises ProviderError(invalid)."""
    request = _loads(body)
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise _invalid("the body has no model")
    try:
        return model, target_endpoint("vertex", model, endpoint), translate("vertex", model, endpoint, request)
    except Inexpressible as error:
        # Intake has refused such requests: this one came in by another way.
        raise _invalid(str(error)) from error


def is_claude(endpoint: str, model: str) -> bool:
    """Whether a job of these requests takes rawPredict bodies: one job has one endpoint and one model."""
    try:
        return target_endpoint("vertex", model, endpoint) == CLAUDE
    except Inexpressible as error:
        raise _invalid(f"{endpoint} for {model}: {error}") from error


def model_path(model: str, *, claude: bool) -> str:
    """`publishers/google/models/gemini-2.5-flash`; a name with slashes is a path already."""
    if "/" in model:
        return model
    return f"publishers/{'anthropic' if claude else 'google'}/models/{model}"


def labelled(wire_id: str, request: bytes) -> bytes:
    """The request with our label beside its own; as it is where it has no room for one more."""
    ours = b'"labels":{"%b":"%b"}' % (LABEL.encode(), wire_id.encode())
    if b'"labels"' not in request:
        return b"{%b}" % ours if request == b"{}" else b"%b,%b}" % (request[:-1], ours)
    value = _loads(request)
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


def dumps(value: Any) -> bytes:
    """Compact JSON, integers of any size."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _loads(body: bytes) -> dict[str, Any]:
    value = orjson.loads(body)
    if not isinstance(value, dict):
        raise _invalid("the body is not an object")
    # Integers beyond 64 bits become floats in orjson; Python's own reader keeps them.
    return value if orjson.dumps(value) == body else dict(json.loads(body))


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


def _invalid(detail: str) -> ProviderError:
    return ProviderError(f"vertex: {detail}", error_class=ErrorClass.invalid, code="inexpressible")
