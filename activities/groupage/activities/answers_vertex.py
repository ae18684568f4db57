"""Reading Vertex's answers: one row of a job's output, or one reply of generateContent or rawPredict.

A row is `{"request", "response", "status", "processed_time"}`; Claude's rows have a `custom_id`, BigQuery's a
`wire_id`, Gemini's in Cloud Storage only the label in the request that they repeat. What failed stands in the same
file, with a text in `status`. As in `answers.py` nothing here raises: what cannot be read is `unreadable`.

============================================  ==========================================================
row                                           reading
============================================  ==========================================================
response of Gemini's shape                    answers_gemini.py (thoughts, cached tokens: there)
response of Claude's shape                    answers_anthropic.py
status or error, and no answer in a response  failed, by that error (google_errors.py); its usage is counted
an answer beside a status or an error         the answer counts: it is paid for
the request alone, or with nothing in         says nothing: it did not run (after expiry or cancel)
  response, status and processed_time
============================================  ==========================================================
"""

import re
from http import HTTPStatus
from typing import Any

import orjson
from groupage.activities.answers_anthropic import read_message
from groupage.activities.answers_gemini import failed, has_answer, read_response, with_usage
from groupage.activities.answers_shared import exactly, ids_beside, unparsed, unreadable
from groupage.activities.providers.anthropic_errors import classify as classify_claude
from groupage.activities.providers.base import Answer
from groupage.activities.providers.google_errors import WORDS, of_one_request
from groupage.activities.providers.vertex_bodies import echo_of, label_of
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.ids import decode_wire_id

_IDS = ids_beside("groupage_id", "custom_id", "wire_id")
_STATUS_NUMBER = re.compile(r"\b([45]\d\d)\b")
_PHRASES = {status.phrase.lower(): status.value for status in HTTPStatus if status >= 400}
_WORD = re.compile(rf"\b({'|'.join(WORDS.values())})\b")


def read_line(line: bytes, endpoint: str) -> Answer:
    """One row as a JSON line, the bytes between two 0x0A."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as reason:
        return unparsed(line, str(reason), _IDS, lambda rest: read_line(rest, endpoint))
    if type(row) is not dict:
        return unreadable(None, "not_an_object", "the line is JSON, but no object")
    answer = exactly(_read_row(row), line, _read_row)
    request = row.get("request")
    if answer.wire_id is None and type(request) is dict and request:
        answer.echo = echo_of(request)
    return answer


def _read_row(row: dict[str, Any]) -> Answer:
    return _read(_id_of(row, row.get("request")), row)


def _id_of(row: dict[str, Any], request: Any) -> str | None:
    """Ours in one of its places; else whatever stands where an id should be, so that it is seen to be foreign."""
    places = (row.get("custom_id"), row.get("wire_id"), label_of(request))
    given = [place for place in places if type(place) is str and place]
    return next((each for each in given if decode_wire_id(each) is not None), given[0] if given else None)


def _read(wire_id: str | None, row: dict[str, Any]) -> Answer:
    response, status = row.get("response"), row.get("status")
    error = row.get("error") or (response.get("error") if type(response) is dict else None)
    if (error or status) and not _has_answer(response):
        return with_usage(_failed(wire_id, None, error or status_error(status)), response)
    if response:
        return read_claude_or_gemini(wire_id, response)
    if row.get("request") and (response is None or not row.get("processed_time")):
        return Answer(None, Outcome.cancelled, ErrorClass.cancelled, "not_run", says_nothing=True)
    if response is not None:
        return unreadable(wire_id, "empty_body", "the response is empty")
    return unreadable(wire_id, "no_response", "the line has neither a response nor a status")


def _has_answer(response: Any) -> bool:
    return has_answer(response) or _is_claudes(response)


def _is_claudes(response: Any) -> bool:
    return type(response) is dict and (response.get("type") == "message" or "stop_reason" in response)


def read_claude_or_gemini(wire_id: str | None, response: Any) -> Answer:
    """By its shape: Claude's is a message with content."""
    if _is_claudes(response):
        return read_message(wire_id, response)
    return read_response(wire_id, response)


def read_reply(wire_id: str | None, status: int, body: Any, *, claude: bool, request_id: str = "") -> Answer:
    """A reply of the sync API: HTTP status and parsed body (a text where it was no JSON)."""
    if not 200 <= status <= 299:
        return _failed(wire_id, status, body, request_id)
    return read_message(wire_id, body, request_id) if claude else read_response(wire_id, body, request_id)


def _failed(wire_id: str | None, status: int | None, error: Any, request_id: str = "") -> Answer:
    """Google's error object, or Claude's: `{"type": "error", "error": {"type": "overloaded_error", ...}}`."""
    inner = error.get("error", error) if type(error) is dict else None
    if type(inner) is dict and type(inner.get("type")) is str and "code" not in inner:
        found, code, message = classify_claude(status, error)
        found = of_one_request(found)
        return Answer(wire_id, Outcome.failed, found, code, message, error, request_id=request_id)
    return failed(wire_id, status, error, request_id)


def status_error(status: Any) -> Any:
    """The error in a row's status: an object, or a text like `Bad Request: {"error": {"code": 400, ...}}`."""
    if type(status) is not str:
        return status
    inner = _object_in(status)
    if inner is not None:
        return inner
    word, number = _WORD.search(status), _STATUS_NUMBER.search(status)
    code = int(number[1]) if number else next((n for said, n in _PHRASES.items() if said in status.lower()), None)
    return {"status": word[1] if word else None, "code": code, "message": status}


def _object_in(text: str) -> Any:
    """The JSON at the end of a text, None where there is none."""
    at = text.find("{")
    if at < 0:
        return None
    try:
        return orjson.loads(text[at:])
    except orjson.JSONDecodeError:
        return None
