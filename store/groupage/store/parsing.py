"""One input line to one canonical request. The hot path of intake: plain tuples, no models.

Two kinds of line are read. OpenAI's batch line, and a short one::

    {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
    {"id": "a", "prompt": "..." | "messages": [...] | "input": ... | "body": {...}, "labels": {"k": "v"}}

`endpoint` is taken in place of `url`. Other keys are refused, not ignored: a `temperature` beside the
prompt would silently not count. An id is text; numbers are refused because 7 and "7" would collide.

For a provider that does not speak OpenAI, `Rules` holds its endpoints and a check: what the provider has
no words for is refused here, with the field's name, before anything is sent anywhere.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from groupage.schemas import DEFAULT_ENDPOINT, ENDPOINTS, Request, endpoints_of
from groupage.schemas.limits import LABELS_MAX_BYTES, REQUEST_ID_MAX_BYTES
from groupage.schemas.portable import Checker, Inexpressible, checker
from groupage.store.estimates import native_output_tokens, native_prompt_tokens, output_tokens, prompt_tokens
from groupage.store.exact import LineRefused, read_exactly

_KNOWN = frozenset({"custom_id", "id", "method", "url", "endpoint", "body", "prompt", "messages", "input", "labels"})
_SOURCES = ("body", "prompt", "messages", "input")
_CHAT, _RESPONSES, _EMBEDDINGS, _COMPLETIONS, _MODERATIONS = ENDPOINTS
_FIELD = {
    ("prompt", _RESPONSES): "input",
    ("prompt", _COMPLETIONS): "prompt",
    ("messages", _CHAT): "messages",
    ("messages", _RESPONSES): "input",
    ("input", _RESPONSES): "input",
    ("input", _EMBEDDINGS): "input",
    ("input", _MODERATIONS): "input",
}
"""Where a short line's value goes in the body; a prompt for chat is wrapped in a message."""

_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_WHITE = b" \t\r\n"
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_dumps = orjson.dumps
_dumps_ascii = json.JSONEncoder(check_circular=False).encode
"""As json.dumps, for what was just read: that has no cycles."""
_loads = orjson.loads


class Parsed(NamedTuple):
    """One valid line. `labels` is JSON or empty; `body` is JSON with the model in it."""

    id: str
    endpoint: str
    model: str
    labels: bytes
    body: bytes
    tokens: int
    max_output: int


class Rules(NamedTuple):
    """What one provider's requests may be."""

    provider: str
    endpoints: Mapping[str, str]
    """The endpoint meant, by each way to write it."""
    check: Checker | None
    """None where requests go out as they are: nothing is looked at then, and nothing is slower."""


@lru_cache(64)
def rules_of(provider: str) -> Rules:
    """`provider` is the name of an adapter; names that are not known speak OpenAI."""
    names = endpoints_of(provider)
    # Azure writes them without /v1.
    written = {name: name for name in names} | {name.removeprefix("/v1"): name for name in names}
    return Rules(provider, written, checker(provider))


OPENAI = rules_of("openai")


def parse_line(raw: bytes, model: str | None, endpoint: str, rules: Rules = OPENAI) -> Parsed:
    """Raises LineRefused. `raw` is not blank; `model` and `endpoint` stand in where the line has none."""
    obj, raws = _read(raw)
    if type(obj) is not dict:
        raise LineRefused("not_an_object", f"a JSON {_kind(obj)}, not an object")
    if not _KNOWN.issuperset(obj):
        name = next(name for name in obj if name not in _KNOWN)
        likely = get_close_matches(name, _KNOWN, n=1)
        meant = f" (did you mean {likely[0]!r}?)" if likely else ""
        raise LineRefused(
            "unknown_key", f"unknown key {name[:60]!r}{meant}: parameters go into body, your own data into labels"
        )
    id_ = _id(obj)
    endpoint = _endpoint(obj, endpoint, rules)
    labels = _labels(obj["labels"]) if obj.get("labels") else b""
    if "body" in obj:
        body = obj["body"]
        if type(body) is not dict:
            raise LineRefused("bad_body", f"body is a JSON {_kind(body)}, not an object")
        data = None if raws is None else raws["body"]
        if "prompt" in obj or "messages" in obj or "input" in obj:
            _only_one_source(obj)
    else:
        body, data = _short(obj, raws, endpoint)
    if model is not None and "model" not in body:
        if data is not None:
            data = b'{"model":' + _dumps(model) + (b"," + data[1:] if body else b"}")
        body = {"model": model, **body}
    name = _model(body)
    if rules.check is not None:
        return _checked(
            rules, Parsed(id_, endpoint, name, labels, data or _dumps(body), 0, 0), body, exact=raws is None
        )
    if data is None:
        data = _dumps(body)
    return Parsed(id_, endpoint, name, labels, data, prompt_tokens(body), output_tokens(endpoint, body))


def parse_request(request: Request, model: str | None, rules: Rules = OPENAI) -> Parsed:
    """A Request made in Python. Raises LineRefused."""
    endpoint = rules.endpoints.get(request.endpoint)
    if endpoint is None:
        raise _unknown_endpoint(request.endpoint, rules)
    body, labels = request.body, b""
    if request.labels:
        labels = _labels(request.labels)
    if model is not None and "model" not in body:
        body = {"model": model, **body}
    found = _model(body)
    check_id(request.id)
    data = _body_json(body)
    if rules.check is not None:
        whole, raws = _read(data)
        return _checked(rules, Parsed(request.id, endpoint, found, labels, data, 0, 0), whole, exact=raws is None)
    return Parsed(request.id, endpoint, found, labels, data, prompt_tokens(body), output_tokens(endpoint, body))


def _checked(rules: Rules, parsed: Parsed, body: dict[str, Any], *, exact: bool) -> Parsed:
    """For a provider that does not take the body as it is: refused, or with its tokens counted."""
    if not exact:
        message = f"holds a number or text that JSON readers alter: it cannot be rewritten for {rules.provider}"
        raise LineRefused("inexpressible", message)
    assert rules.check is not None
    try:
        rules.check(parsed.endpoint, body, parsed.model)
    except Inexpressible as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise LineRefused("inexpressible", f"cannot be said to {rules.provider}: {error}{hint}") from None
    if parsed.endpoint in ENDPOINTS:
        return parsed._replace(tokens=prompt_tokens(body), max_output=output_tokens(parsed.endpoint, body))
    return parsed._replace(tokens=native_prompt_tokens(body), max_output=native_output_tokens(parsed.endpoint, body))


def _read(raw: bytes) -> tuple[Any, dict[str, bytes] | None]:
    """The line's value; with it the texts of its top-level values where orjson would alter them."""
    try:
        obj = _loads(raw)
        return (obj, None) if faithful(obj, raw) else read_exactly(raw)
    except orjson.JSONDecodeError:
        obj, raws = read_exactly(raw)
        for name in _SOURCES:
            if raws is not None and name in raws:
                _readable_by_all(raws[name])
        return obj, raws
    except (orjson.JSONEncodeError, RecursionError):
        raise LineRefused("too_deep", "nested too deeply") from None


def faithful(obj: Any, raw: bytes) -> bool:
    """Whether writing `obj` gives back what `raw` says: nothing was lost in reading.

    Compared with what Python's json.dumps writes by default (escapes for all that is not ASCII), and with
    white space left out. What passes neither test is read again with care; it may be fine.
    """
    compact = _dumps(obj)
    if compact == raw or (b"\\" in raw and b"\\u" in raw and _dumps_ascii(obj).encode() == raw):
        return True
    return compact.translate(None, _WHITE) == raw.translate(None, _WHITE)


def _id(obj: dict[str, Any]) -> str:
    id_ = obj.get("custom_id")
    if id_ is None:
        id_ = obj.get("id")
    elif obj.get("id", id_) != id_:
        raise LineRefused("ambiguous_id", "custom_id and id differ")
    return check_id(id_)


def _endpoint(obj: dict[str, Any], default: str, rules: Rules) -> str:
    if obj.get("method", "POST") != "POST":
        raise LineRefused("bad_method", f"method {str(obj['method'])[:20]!r}: only POST requests can be batched")
    given = obj.get("url")
    if given is None:
        given = obj.get("endpoint")
        if given is None:
            return default
    found = rules.endpoints.get(given) if type(given) is str else None
    if found is None:
        raise _unknown_endpoint(given, rules)
    return found


def _short(obj: dict[str, Any], raws: dict[str, bytes] | None, endpoint: str) -> tuple[dict[str, Any], bytes | None]:
    """The body of a short line, and its JSON where that must be spliced from the line's own text."""
    source = _only_one_source(obj)
    value = obj[source]
    if source == "messages":
        fits = type(value) is list and bool(value)
    elif source == "prompt" and endpoint != _COMPLETIONS:
        fits = type(value) is str
    else:
        fits = type(value) in (str, list)
    if not fits:
        wanted = "a list of messages" if source == "messages" else "text"
        raise LineRefused("bad_body", f"{source} is not {wanted}")
    if source == "prompt" and endpoint == _CHAT:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": value}]}
        return body, raws[source].join((b'{"messages":[{"role":"user","content":', b"}]}")) if raws else None
    field = _FIELD.get((source, endpoint))
    if field is None:
        fitting = [where for name, where in _FIELD if name == source] or [DEFAULT_ENDPOINT]
        raise LineRefused("bad_body", f"{source} does not go with {endpoint}: set the endpoint to one of {fitting}")
    return {field: value}, b'{"%b":%b}' % (field.encode(), raws[source]) if raws else None


def _only_one_source(obj: dict[str, Any]) -> str:
    sources = [name for name in _SOURCES if name in obj]
    if not sources:
        raise LineRefused("bad_body", "no body: give body, or one of prompt, messages, input")
    if len(sources) > 1:
        raise LineRefused("bad_body", f"{' and '.join(sources)}: give only one of them")
    return sources[0]


def check_id(id_: Any) -> str:
    """The id itself. Raises LineRefused where it is none."""
    if type(id_) is not str:
        if id_ is None:
            raise LineRefused("no_id", "no id: give every line an id (custom_id)")
        raise LineRefused("bad_id", f"the id is a JSON {_kind(id_)}: write it as text")
    if not id_ or id_.isspace():
        raise LineRefused("no_id", "the id is empty or blank")
    if len(id_) > REQUEST_ID_MAX_BYTES // 4 or not id_.isascii():
        try:
            size = len(id_.encode())
        except UnicodeEncodeError:
            raise LineRefused("bad_id", "the id has half a surrogate pair: that is no text") from None
        if size > REQUEST_ID_MAX_BYTES:
            raise LineRefused("bad_id", f"the id has {size} bytes; {REQUEST_ID_MAX_BYTES} are allowed")
    return id_


def _labels(labels: Any) -> bytes:
    if type(labels) is not dict:
        raise LineRefused("bad_labels", f"labels are a JSON {_kind(labels)}, not an object of text pairs")
    for name, value in labels.items():
        if type(value) is not str:
            raise LineRefused("bad_labels", f"label {name[:60]!r} is a JSON {_kind(value)}: write it as text")
    try:
        data = _dumps(labels)
    except orjson.JSONEncodeError:
        raise LineRefused("bad_labels", "a label has half a surrogate pair: that is no text") from None
    if len(data) > LABELS_MAX_BYTES:
        raise LineRefused("bad_labels", f"the labels have {len(data)} bytes; {LABELS_MAX_BYTES} are allowed")
    return data


def _model(body: dict[str, Any]) -> str:
    if body.get("stream"):
        raise LineRefused("stream", "stream is set: a batch cannot stream; remove it")
    found = body.get("model")
    if type(found) is str and found:
        if found.isascii():
            return found
        try:
            found.encode()
        except UnicodeEncodeError:
            raise LineRefused("bad_model", "the model has half a surrogate pair: that is no text") from None
        return found
    if "model" not in body:
        raise LineRefused("no_model", "no model: add one to the body or pass --model")
    raise LineRefused("bad_model", "the body's model is not a name")


def _body_json(body: dict[str, Any]) -> bytes:
    """JSON of a body that was made in Python. Refuses what is not JSON rather than guess."""
    try:
        data = orjson.dumps(body, option=_STRICT)
        # orjson writes NaN as null; only then is the slow check needed.
        if b"null" in data:
            json.dumps(body, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        # Lone surrogates, integers beyond 64 bits and keys that are not text come here, too.
        try:
            data = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise LineRefused("bad_body", f"the body is not JSON: {str(error)[:200]}") from None
        _readable_by_all(data)
    return data


def _readable_by_all(body: bytes) -> None:
    """Raises LineRefused for JSON that strict readers refuse: a provider that is strict fails the whole file for it."""
    try:
        _loads(body)
    except orjson.JSONDecodeError:
        half = _HALF_PAIR.search(json.dumps(json.loads(body, parse_int=str), ensure_ascii=False))
        what = f"half a surrogate pair (\\u{ord(half[0]):04x})" if half else "a number beyond what readers can hold"
        message = f"the body holds {what}: strict JSON readers refuse the whole file for it"
        raise LineRefused("bad_body", message) from None


def _unknown_endpoint(given: Any, rules: Rules) -> LineRefused:
    known = ", ".join(dict.fromkeys(rules.endpoints.values()))
    return LineRefused("unknown_endpoint", f"endpoint {str(given)[:80]!r} is none of {known}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "number")
