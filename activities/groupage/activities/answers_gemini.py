"""Reading Gemini's answers: a generateContent or embedContent response, and a line of a Gemini API batch.

Vertex's rows hold the same responses. Nothing here raises: what cannot be read is `unreadable`.

===========================================================  ==========================================
finishReason                                                 outcome
===========================================================  ==========================================
STOP, or none, with something said                           succeeded
MAX_TOKENS, CONTINUATION; OTHER in mid-answer                truncated (RP-14), even with nothing said
SAFETY, RECITATION, PROHIBITED_CONTENT, BLOCKLIST, SPII,     refused (RP-16), with the reason as its code
  LANGUAGE, MODEL_ARMOR, IMAGE_*
promptFeedback.blockReason and no candidate                  refused: the prompt itself was blocked
STOP, OTHER or no reason, and no parts                       refused: there is nothing that could be used
MALFORMED_FUNCTION_CALL, MALFORMED_RESPONSE, NO_IMAGE,       failed, class unknown: another try may end
  UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS                    otherwise
MISSING_THOUGHT_SIGNATURE                                    failed, invalid: the request lacks it
an error beside a response in which nothing is said          failed, by that error; its usage is counted
any other word                                               succeeded, with the word as code; refused
                                                               where nothing is said
===========================================================  ==========================================

Thoughts are billed as output, but stand beside candidatesTokenCount; cached tokens are inside promptTokenCount
(CO-06). What tools of Google's own brought in is billed as input and stands beside promptTokenCount.
"""

import re
from typing import Any

import orjson
from groupage.activities import answers_shared
from groupage.activities.answers_shared import exactly, ids_beside, make_usage, tool_call, unparsed, unreadable
from groupage.activities.providers.base import Answer
from groupage.activities.providers.google_errors import of_one_request, read_error
from groupage.schemas import ErrorClass, Outcome, Usage
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_IDS = ids_beside("key")

_REFUSED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "LANGUAGE",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
    }
)
_CUT_OFF = frozenset({"MAX_TOKENS", "CONTINUATION"})
_BROKEN = frozenset(
    {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "NO_IMAGE"}
)
_NO_REASON = frozenset({"", "STOP", "FINISH_REASON_UNSPECIFIED"})

Verdict = tuple[Outcome, ErrorClass | None, str, str]
"""(outcome, class, code, message)."""

_SUCCEEDED: Verdict = (Outcome.succeeded, None, "", "")


def read_line(line: bytes, endpoint: str) -> Answer:
    """One line of a batch's results file: `{"key", "response"}` or `{"key", "error"}`, between two 0x0A."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as reason:
        return unparsed(line, str(reason), _IDS, lambda rest: read_line(rest, endpoint))
    return exactly(_read_row(row), line, _read_row)


def _read_row(row: Any) -> Answer:
    if type(row) is not dict:
        return _unreadable(None, "not_an_object", "the line is JSON, but no object")
    wire_id = row.get("key")
    if type(wire_id) is not str:
        wire_id = None
    response, error = row.get("response"), row.get("error")
    if error and not has_answer(response):
        return with_usage(failed(wire_id, None, error), response)
    if response is None:
        return _unreadable(wire_id, "no_response", "the line has neither a response nor an error")
    return read_response(wire_id, response)


def read_reply(wire_id: str | None, status: int, body: Any, request_id: str = "") -> Answer:
    """An HTTP status and a parsed body (a text where it was no JSON) to an Answer."""
    if 200 <= status <= 299:
        return read_response(wire_id, body, request_id)
    return failed(wire_id, status, body, request_id)


def has_answer(response: Any) -> bool:
    """Whether it says anything that the model, or a filter, said: beside an error the error counts otherwise."""
    return type(response) is dict and any(response.get(name) for name in _SAID)


_SAID = ("candidates", "promptFeedback", "embedding", "embeddings")


def with_usage(answer: Answer, response: Any) -> Answer:
    """With what the response tells all the same: what was billed is counted (CO-04, CO-05)."""
    if type(response) is dict:
        answer.usage, answer.model = read_usage(response), _model(response)
    return answer


def read_response(wire_id: str | None, body: Any, request_id: str = "") -> Answer:
    """A GenerateContentResponse or an EmbedContentResponse, parsed."""
    if type(body) is not dict or not body:
        return _unreadable(wire_id, "empty_body", "the response is empty, or no object", body, request_id)
    try:
        answer = _read(wire_id, body, request_id)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as reason:
        message = f"the response has an odd shape: {reason!r}"
        return _unreadable(wire_id, "not_an_answer", message, body, request_id)
    if answer is not None:
        return answer
    if body.get("error"):
        return failed(wire_id, None, body, request_id)
    message = "the response has neither candidates nor an embedding"
    return _unreadable(wire_id, "not_an_answer", message, body, request_id)


def failed(wire_id: str | None, status: int | None, error: Any, request_id: str = "") -> Answer:
    """The error of one request, as `google_errors.read_error` takes it."""
    found = read_error(status, error)
    answer = Answer(
        wire_id, Outcome.failed, of_one_request(found.error_class), found.code, found.message, error,
        request_id=request_id, retry_after_s=found.retry_after_s,
    )  # fmt: skip
    if status is None and type(error) is dict and error.get("code") == 0:
        answer.code, answer.error_class = "status_0", ErrorClass.unknown
    elif status is None and found.word == "CANCELLED":
        answer.outcome, answer.error_class = Outcome.cancelled, ErrorClass.cancelled
    elif status is None and found.word == "DEADLINE_EXCEEDED" and _BATCH_EXPIRED.search(found.message.lower()):
        answer.outcome, answer.error_class = Outcome.expired, ErrorClass.expired
    return answer


_BATCH_EXPIRED = re.compile(r"(?:batch|job)[^.]{0,40}\bexpired\b")


def _read(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    candidates = body.get("candidates")
    feedback = body.get("promptFeedback")
    if candidates:
        return _read_candidates(wire_id, body, candidates, request_id)
    if type(feedback) is dict and feedback.get("blockReason"):
        reason = str(feedback["blockReason"])
        why = feedback.get("blockReasonMessage") or "the prompt was blocked"
        return _answer(wire_id, body, request_id, None, [], (Outcome.refused, None, reason, str(why)))
    if body.get("embedding") or body.get("embeddings"):
        return _read_embedding(wire_id, body, request_id)
    if "usageMetadata" in body and "error" not in body:
        # Paid for, and nothing in it: no candidate and no word why.
        verdict = (Outcome.refused, None, "no_candidates", "the response has no candidate, and says not why")
        return _answer(wire_id, body, request_id, None, [], verdict)
    return None


def _answer(  # noqa: PLR0917  # a tuple in all but name
    wire_id: str | None, body: dict[str, Any], request_id: str, text: str | None, calls: list[Any], verdict: Verdict
) -> Answer:
    outcome, error_class, code, why = verdict
    own_id = body.get("responseId")
    return Answer(
        wire_id, outcome, error_class, code[:200], why[:FAILURE_MESSAGE_MAX], body, text, calls or None,
        _model(body), read_usage(body), request_id or (own_id if type(own_id) is str else ""),
    )  # fmt: skip


def _read_candidates(wire_id: str | None, body: dict[str, Any], candidates: list[Any], request_id: str) -> Answer:
    """The first candidate speaks; of several the one that ended worst decides the outcome."""
    first = candidates[0]
    parts = _parts(first)
    texts = [part["text"] for part in parts if type(part.get("text")) is str and not part.get("thought")]
    own_id = body.get("responseId")
    calls = [
        _call(part, f"call_{own_id}_{at}" if own_id else f"call_{at}")
        for at, part in enumerate(part for part in parts if type(part.get("functionCall")) is dict)
    ]
    verdicts = [_judge(candidate, _parts(candidate)) for candidate in candidates]
    verdict = next((each for each in verdicts if each[0] is not Outcome.succeeded), verdicts[0])
    return _answer(wire_id, body, request_id, "".join(texts) if texts else None, calls, verdict)


def _parts(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    """None where the candidate has no content, or content without parts (RP-16)."""
    content = candidate.get("content")
    parts = content.get("parts") if type(content) is dict else None
    return parts if type(parts) is list else []


def _judge(candidate: dict[str, Any], parts: list[dict[str, Any]]) -> Verdict:  # noqa: PLR0911  # a table
    said = any(not part.get("thought") for part in parts)
    given = candidate.get("finishReason")
    reason = given if type(given) is str else ""
    why = candidate.get("finishMessage")
    message = why if type(why) is str and why else ""
    if reason in _CUT_OFF or (reason == "OTHER" and said):
        return Outcome.truncated, None, reason, message or "stopped at the output limit, or before the end"
    if reason in _REFUSED:
        return Outcome.refused, None, reason, message or "stopped by one of the provider's filters"
    if reason in _BROKEN:
        return Outcome.failed, ErrorClass.unknown, reason, message or "the model's output could not be used"
    if reason == "MISSING_THOUGHT_SIGNATURE":
        return Outcome.failed, ErrorClass.invalid, reason, message or "a call in the history has no thought signature"
    if not said:
        return Outcome.refused, None, reason if reason not in _NO_REASON else "no_parts", message or "nothing was said"
    if reason in _NO_REASON:
        return _SUCCEEDED
    return Outcome.succeeded, None, f"finish_{reason}", f"finish reason {reason!r}, which is not known here"


def _call(part: dict[str, Any], stand_in: str) -> dict[str, Any]:
    """In OpenAI's shape. The signature goes where Google's compatibility endpoint has it, and where
    `portable.gemini` looks for it when the call comes back in a history.
    """
    call = part["functionCall"]
    made = tool_call(call.get("id") or stand_in, call["name"], call.get("args") or {})
    signature = part.get("thoughtSignature")
    return made | ({"extra_content": {"google": {"thought_signature": signature}}} if signature else {})


def _read_embedding(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    found = body.get("embedding") or body["embeddings"][0]
    if not found.get("values"):
        return None
    return _answer(wire_id, body, request_id, None, [], _SUCCEEDED)


def _model(body: dict[str, Any]) -> str | None:
    """An alias ("gemini-flash-latest") names in modelVersion what answered."""
    model = body.get("modelVersion")
    return model.removeprefix("models/") if type(model) is str and model else None


def read_usage(body: dict[str, Any]) -> Usage | None:
    """usageMetadata, or the tokenCount of a batch's embedding; None where there is neither."""
    usage = body.get("usageMetadata")
    if type(usage) is not dict:
        tokens = body.get("tokenCount")
        return Usage(input_tokens=_count(tokens)) if tokens is not None else None
    get = usage.get
    thoughts = _count(get("thoughtsTokenCount"))
    return make_usage(
        {
            "input_tokens": _count(get("promptTokenCount")) + _count(get("toolUsePromptTokenCount")),
            "cached_tokens": _count(get("cachedContentTokenCount")),
            "output_tokens": _count(get("candidatesTokenCount")) + thoughts,
            "reasoning_tokens": thoughts,
        }
    )


def _count(value: Any) -> int:
    """Proto JSON writes 64-bit integers as text."""
    if type(value) is str and value.isdecimal():
        return int(value)
    return answers_shared.count(value)


def _unreadable(wire_id: str | None, code: str, message: str, body: Any = None, request_id: str = "") -> Answer:
    usage = read_usage(body) if type(body) is dict else None
    return unreadable(wire_id, code, message, body, request_id, usage=usage)
