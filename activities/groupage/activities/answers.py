"""Reading OpenAI-shaped answers: one line of a result file, or one reply of the sync API.

Both are judged by the same rules, and nothing here raises: what cannot be read is `unreadable`.

* An answer is a 2xx *and* a body shaped like an answer of its endpoint (docs/cases.md RP-10). A body of
  the wrong shape is `unreadable`, a status other than 2xx is an error whatever the body looks like.
* `finish_reason` "length" is `truncated` (RP-14); a content filter or a refusal is `refused` (RP-16).
  Both are answers: they were paid for, and the same bytes would end the same way. Other words: finish_reasons.py.
* The error class is decided here, from status and code, not by an SDK (invariant 6).

The first lines of `read_batch_line` and `_read_chat` are the hot path of collecting: a job of a
million requests runs them a million times.
"""

import re
from collections.abc import Callable
from typing import Any

import orjson
from groupage.activities.answers_shared import count, ids_beside, make_usage, unparsed, unreadable
from groupage.activities.finish_reasons import judge
from groupage.activities.own_words import own_words
from groupage.activities.providers.base import Answer
from groupage.schemas import ErrorClass, Outcome, Usage
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_SUCCEEDED = Outcome.succeeded
_loads = orjson.loads
_IDS = ids_beside("custom_id")

_ACCOUNT_CODES = frozenset(
    {
        "Arrearage",
        "account_deactivated",
        "access_terminated",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_organization",
        "organization_restricted",
        "authentication_error",
        "billing_error",
    }
)
_FORBIDDEN_CODES = frozenset({"permission_denied", "permission_error"})
_CODE_CLASSES = {
    "batch_expired": ErrorClass.expired,
    "batch_cancelled": ErrorClass.cancelled,
    "request_timeout": ErrorClass.transient,
    "timeout": ErrorClass.transient,
    "server_error": ErrorClass.transient,
    "internal_error": ErrorClass.transient,
    "internal_server_error": ErrorClass.transient,
    "api_error": ErrorClass.transient,
    "overloaded_error": ErrorClass.transient,
    "service_unavailable": ErrorClass.transient,
    "vector_store_timeout": ErrorClass.transient,
    "rate_limit_exceeded": ErrorClass.rate_limit,
    "rate_limit_error": ErrorClass.rate_limit,
    "tokens_usage_based": ErrorClass.rate_limit,
    "token_limit_exceeded": ErrorClass.quota,
    "invalid_request_error": ErrorClass.invalid,
    "context_length_exceeded": ErrorClass.invalid,
    "string_above_max_length": ErrorClass.invalid,
    "invalid_prompt": ErrorClass.invalid,
    "model_not_found": ErrorClass.invalid,
    "mismatched_model": ErrorClass.invalid,
}
_REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation", "responsible_ai_policy_violation"})
"""Azure and OpenAI refuse a prompt with a 400 and one of these: refused, not invalid (RP-16)."""

_CREDIT = re.compile(
    r"credit balance|out of credit|insufficient (credit|funds|balance)|exceeded your current quota"
    r"|account is in good standing|organization has been (disabled|restricted)"
)
"""Account-level trouble reported as a bad request, line by line (QU-06)."""


def _lacks_credit(error: Any, message: str) -> bool:
    """An error that names a parameter is about that, and quotes it."""
    if not _CREDIT.search(message.lower()) or (type(error) is dict and error.get("param")):
        return False
    return bool(_CREDIT.search(own_words(message)))


def read_batch_line(line: bytes, endpoint: str) -> Answer:
    """One line of an output or error file of the OpenAI batch API and its kin (vLLM, Azure, Groq, ...).

    `line` is the bytes between two 0x0A. The wire id is None where the line carries none.
    """
    try:
        row = _loads(line)
    except orjson.JSONDecodeError as reason:
        return unparsed(line, str(reason), _IDS, lambda rest: read_batch_line(rest, endpoint))
    if type(row) is not dict:
        return _unreadable(None, "not_an_object", f"the line is a JSON {_json_type(row)}, not an object")
    wire_id = row.get("custom_id")
    if type(wire_id) is not str:
        wire_id = None
    response = row.get("response")
    error = row.get("error")
    if type(response) is dict:
        return _read_response(wire_id, endpoint, response, error)
    if error:
        return _failed(wire_id, None, error, None, "")
    return _unreadable(wire_id, "no_response", "the line has neither a response nor an error")


def _read_response(wire_id: str | None, endpoint: str, response: dict[str, Any], error: Any) -> Answer:
    status = response.get("status_code")
    body = response.get("body")
    request_id = response.get("request_id")
    if type(request_id) is not str:
        request_id = ""
    if error and not body:
        return _failed(wire_id, status if type(status) is int else None, error, None, request_id)
    if type(status) is not int:
        return _unreadable(wire_id, "no_status", "the line's response has no status code", body, request_id)
    return read_reply(wire_id, endpoint, status, body, request_id)


def read_reply(wire_id: str | None, endpoint: str, status: int, body: Any, request_id: str = "") -> Answer:
    """An HTTP status and a parsed body (None where it was empty or no JSON) to an Answer."""
    if status < 200 or status > 299:
        error = body.get("error", body) if type(body) is dict else body
        return _failed(wire_id, status, error, body, request_id)
    if type(body) is not dict or not body:
        what = "empty" if not body else f"a JSON {_json_type(body)}"
        return _unreadable(wire_id, "empty_body", f"status {status}, but the body is {what}", body, request_id)
    reader = _READERS.get(endpoint)
    try:
        answer = reader(wire_id, body, request_id) if reader else _read_any(wire_id, body, request_id)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as reason:
        # A shape that nobody thought of, deep inside the body: one line's trouble, not the file's.
        message = f"status {status}, but the body has an odd shape: {reason!r}"
        return _unreadable(wire_id, "not_an_answer", message, body, request_id)
    if answer is not None:
        return answer
    error = body.get("error")
    if error:
        return _failed(wire_id, None, error, body, request_id)
    message = f"status {status}, but the body is not shaped like an answer of {endpoint}"
    return _unreadable(wire_id, "not_an_answer", message, body, request_id)


def classify(status: int | None, error: Any) -> tuple[ErrorClass, str, str]:
    """(class, code, message) of an error object as OpenAI-shaped APIs write it, or of a bare text.

    `status` is None where the error came without HTTP (a line's own error, a batch's errors.data[]);
    0 is what some result files say for "nothing came back" (RP-11): unknown, so it is tried again.
    """
    code, kind, message = _error_fields(error)
    shown = code or kind or (f"http_{status}" if status is not None else "")
    known = _CODE_CLASSES.get(code) or _CODE_CLASSES.get(kind)
    if code in _ACCOUNT_CODES or kind in _ACCOUNT_CODES or status in {401, 402} or _lacks_credit(error, message):
        found = ErrorClass.account
    elif status == 403 or code in _FORBIDDEN_CODES or kind in _FORBIDDEN_CODES:
        found = ErrorClass.forbidden
    elif status is None:
        found = known or ErrorClass.unknown
    elif status == 0:
        found, shown = ErrorClass.unknown, code or "status_0"
    elif status == 429:
        found = ErrorClass.quota if known is ErrorClass.quota else ErrorClass.rate_limit
    elif status >= 500 or status in {408, 409, 425}:
        found = ErrorClass.transient
    elif status >= 400:
        found = known or ErrorClass.invalid
    else:
        found = known or ErrorClass.unknown
    return found, shown[:200] or "no_code", message[:FAILURE_MESSAGE_MAX]


def _error_fields(error: Any) -> tuple[str, str, str]:
    """(code, type, message) of whatever stands where an error is expected."""
    if type(error) is dict:
        nested = error.get("error")
        if type(nested) is dict and "message" not in error:
            error = nested
        code, kind, message = error.get("code"), error.get("type"), error.get("message")
        return (
            str(code) if code is not None else "",
            kind if type(kind) is str else "",
            message if type(message) is str else "",
        )
    return "", "", error if type(error) is str else ""


def _failed(wire_id: str | None, status: int | None, error: Any, body: Any, request_id: str) -> Answer:
    found, code, message = classify(status, error)
    inner = error.get("innererror") if type(error) is dict else None
    inner_code = str(inner.get("code", "")).lower() if type(inner) is dict else ""
    if code in _REFUSAL_CODES or inner_code == "responsibleaipolicyviolation":
        return _spent(Answer(wire_id, Outcome.refused, None, code, message, body, request_id=request_id))
    outcome = _OUTCOME_OF_CLASS.get(found, Outcome.failed)
    return _spent(Answer(wire_id, outcome, found, code, message, body, request_id=request_id))


_OUTCOME_OF_CLASS = {
    ErrorClass.expired: Outcome.expired,
    ErrorClass.cancelled: Outcome.cancelled,
    ErrorClass.unreadable: Outcome.unreadable,
}


def _unreadable(wire_id: str | None, code: str, message: str, body: Any = None, request_id: str = "") -> Answer:
    return _spent(unreadable(wire_id, code, message, body, request_id))


def _spent(answer: Answer) -> Answer:
    """With the usage and model that the body tells all the same: what was billed is counted (CO-04, CO-05)."""
    body = answer.body
    if type(body) is dict:
        answer.usage = read_usage(body.get("usage"))
        answer.model = _model(body)
    return answer


def _json_type(value: Any) -> str:
    names = {"list": "array", "dict": "object", "str": "string", "NoneType": "null", "bool": "boolean"}
    return names.get(type(value).__name__, "number")


def read_usage(usage: Any) -> Usage | None:
    """The usage object of any endpoint, in either of the two spellings; None where there is none."""
    if type(usage) is not dict:
        return None
    get = usage.get
    inputs = get("prompt_tokens")
    if inputs is not None:
        outputs, ins, outs = get("completion_tokens"), get("prompt_tokens_details"), get("completion_tokens_details")
    else:
        inputs, outputs = get("input_tokens"), get("output_tokens")
        ins, outs = get("input_tokens_details"), get("output_tokens_details")
    cached = written = reasoning = 0
    if type(ins) is dict:
        cached = count(ins.get("cached_tokens"))
        written = count(ins.get("cache_write_tokens") or ins.get("cache_creation_tokens"))
    if type(outs) is dict:
        reasoning = count(outs.get("reasoning_tokens"))
    return make_usage(
        {
            "input_tokens": count(inputs),
            "cached_tokens": cached,
            "cache_write_tokens": written,
            "output_tokens": count(outputs),
            "reasoning_tokens": reasoning,
        }
    )


def _model(body: dict[str, Any]) -> str | None:
    model = body.get("model")
    return model if type(model) is str else None


def _joined(content: Any) -> str | None:
    """A message's content: a text, or a list of parts of which the texts count."""
    if type(content) is str:
        return content
    if type(content) is not list:
        return None
    texts = [part["text"] for part in content if type(part) is dict and type(part.get("text")) is str]
    return "".join(texts) if texts else None


def _read_chat(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        return None
    choice = choices[0]
    message = choice.get("message")
    if type(message) is not dict:
        return None
    content = message.get("content")
    text = content if type(content) is str else _joined(content)
    calls = message.get("tool_calls")
    if calls is not None and type(calls) is not list:
        calls = None
    outcome, found, code, why = _SUCCEEDED, None, "", ""
    reason = choice.get("finish_reason")
    refusal = message.get("refusal")
    if reason != "stop" or refusal or len(choices) > 1:
        outcome, found, code, why = judge([c.get("finish_reason") for c in choices], refusal)
    if text is None and not (code or calls or message.get("function_call") or message.get("audio")):
        code, why = "no_content", "it ended as a whole answer does, but nothing is said"
    if found is not None:
        text, calls = None, None
    model = body.get("model")
    usage = read_usage(body.get("usage"))
    return Answer(
        wire_id, outcome, found, code, why, body, text, calls or None, model if type(model) is str else None,
        usage, request_id,
    )  # fmt: skip


def _read_responses(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    output = body.get("output")
    status = body.get("status")
    if status == "failed":
        return _failed(wire_id, None, body.get("error") or "the response failed", body, request_id)
    if status == "cancelled":
        return Answer(wire_id, Outcome.cancelled, ErrorClass.cancelled, "cancelled", "", body, request_id=request_id)
    if type(output) is not list or status not in {"completed", "incomplete", None}:
        return None
    parts = [part for item in output if item.get("type") == "message" for part in item.get("content") or ()]
    texts = [part["text"] for part in parts if part.get("type") == "output_text"]
    refusal = next((part.get("refusal") or "refused" for part in parts if part.get("type") == "refusal"), "")
    calls = [item for item in output if str(item.get("type")).endswith("_call")]
    outcome, _, code, why = judge([], refusal)
    if status == "incomplete" and not refusal:
        details = body.get("incomplete_details")
        reason = str(details.get("reason", "incomplete")) if type(details) is dict else "incomplete"
        outcome, _, code, why = judge(["content_filter" if reason == "content_filter" else "length"])
        code = reason
    text = "".join(texts) if texts else None
    usage = read_usage(body.get("usage"))
    return Answer(wire_id, outcome, None, code, why, body, text, calls or None, _model(body), usage, request_id)


def _read_completions(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    choices = body.get("choices")
    if type(choices) is not list or not choices or type(choices[0].get("text")) is not str:
        return None
    outcome, found, code, why = judge([choice.get("finish_reason") for choice in choices])
    usage = read_usage(body.get("usage"))
    text = choices[0]["text"] if found is None else None
    return Answer(wire_id, outcome, found, code, why, body, text, None, _model(body), usage, request_id)


def _read_embeddings(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    data = body.get("data")
    if type(data) is not list or not data or not data[0].get("embedding"):
        return None
    usage = read_usage(body.get("usage"))
    return Answer(wire_id, _SUCCEEDED, None, "", "", body, None, None, _model(body), usage, request_id)


def _read_moderations(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    results = body.get("results")
    if type(results) is not list or not results or type(results[0]) is not dict:
        return None
    usage = read_usage(body.get("usage"))
    return Answer(wire_id, _SUCCEEDED, None, "", "", body, None, None, _model(body), usage, request_id)


Reader = Callable[[str | None, dict[str, Any], str], Answer | None]

_READERS: dict[str, Reader] = {
    "/v1/chat/completions": _read_chat,
    "/v1/responses": _read_responses,
    "/v1/embeddings": _read_embeddings,
    "/v1/completions": _read_completions,
    "/v1/moderations": _read_moderations,
}


def _read_any(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    """An endpoint that we have no reader for: whatever shape fits."""
    for reader in _READERS.values():
        answer = reader(wire_id, body, request_id)
        if answer is not None:
            return answer
    return None
