"""Reading Bedrock's answers: one line of a `.jsonl.out` file, or one reply of bedrock-runtime.

A line is `{"recordId", "modelInput", "modelOutput"}`, or has an `error` in place of modelOutput (same file).
modelOutput is in the model's own shape, and nothing in the line names the model: the shape itself tells
which family it is. As in `answers.py` nothing here raises: what cannot be read is `unreadable`.

================  =============================================  ==================================
family            answer                                         why it ended
================  =============================================  ==================================
Claude            content[] of type "message"                    stop_reason
Converse, Nova    output.message.content[]                       stopReason
OpenAI and kin    choices[] (read by answers.py)                 finish_reason
Llama             generation                                     stop_reason
Titan text        results[].outputText                           completionReason
Mistral           outputs[].text                                 stop_reason
Cohere            text, or generations[].text                    finish_reason
Titan embeddings  embedding, embeddingsByType
Cohere Embed      embeddings
================  =============================================  ==================================
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from groupage.activities.answers import read_reply as read_openai_reply
from groupage.activities.answers_shared import (
    claude_extras,
    claude_written,
    count,
    exactly,
    ids_beside,
    tool_call,
    unparsed,
    unreadable,
    with_hours_and_searches,
)
from groupage.activities.providers.base import Answer
from groupage.activities.providers.bedrock_errors import classify
from groupage.schemas import ErrorClass, Outcome, Usage
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

_CHAT = "/v1/chat/completions"
_IDS = ids_beside("recordId")

_TRUNCATED = frozenset({"max_tokens", "model_context_window_exceeded", "length", "MAX_TOKENS", "LENGTH", "ERROR_LIMIT"})
_REFUSED = frozenset(
    {"refusal", "guardrail_intervened", "content_filtered", "content_filter", "CONTENT_FILTERED", "ERROR_TOXIC"}
)
_PAUSED = frozenset({"pause_turn"})
_ANSWERED = frozenset(
    {"end_turn", "stop_sequence", "tool_use", "tool_calls", "function_call", "stop", "FINISH", "FINISHED", "COMPLETE"}
    | {"COMPLETED", "STOP", "STOP_SEQUENCE", "STOP_CRITERIA_MET", "TOOL_CALL", "TOOL_USE"}
    | {"RAG_QUERY_WHEN_RAG_DISABLED", "", None}
)
_BROKEN = frozenset({"malformed_model_output", "malformed_tool_use", "ERROR"})
"""The model said something that cannot be used: another try may end otherwise."""


def read_line(line: bytes, endpoint: str) -> Answer:
    """One line between two 0x0A. The wire id is None where the line carries none."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as reason:
        return unparsed(line, str(reason), _IDS, lambda rest: read_line(rest, endpoint))
    return exactly(_read_row(row), line, _read_row)


def _read_row(row: Any) -> Answer:
    if type(row) is not dict:
        return _unreadable(None, "not_an_object", "the line is JSON, but no object")
    wire_id = row.get("recordId")
    if type(wire_id) is not str:
        wire_id = None
    output, error = row.get("modelOutput"), row.get("error")
    if error and not output:
        return _failed(wire_id, error)
    if "modelOutput" not in row:
        return _unreadable(wire_id, "no_output", "the line has neither a modelOutput nor an error")
    answer = read_output(wire_id, output)
    if error and answer.outcome is Outcome.unreadable:
        usage = answer.usage
        answer = _failed(wire_id, error)
        answer.usage = usage
    return answer


def read_output(wire_id: str | None, body: Any, request_id: str = "") -> Answer:
    """A model's reply, parsed, to an Answer."""
    if type(body) is not dict or not body:
        return _unreadable(wire_id, "empty_body", "the model's output is empty, or no object", body, request_id)
    try:
        answer = _read(wire_id, body, request_id)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as reason:
        message = f"the model's output has an odd shape: {reason!r}"
        return _unreadable(wire_id, "not_an_answer", message, body, request_id)
    if answer is None:
        message = "the model's output is of no shape that is known here"
        return _unreadable(wire_id, "not_an_answer", message, body, request_id)
    # Bedrock's own names have the version and region that prices go by: the model asked for counts, not this one.
    answer.model = None
    return answer


def _read(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    if body.get("amazon-bedrock-guardrailAction") == "INTERVENED":
        return _answer(wire_id, body, request_id, None, [], "guardrail_intervened", _usage_of(body))
    if "choices" in body:
        return _with_last_reason(read_openai_reply(wire_id, _CHAT, 200, body, request_id), body)
    for key, reader in _READERS.items():
        if key in body:
            return reader(wire_id, body, request_id)
    return None


def _answer(  # noqa: PLR0917  # a tuple in all but name, made by every reader
    wire_id: str | None,
    body: dict[str, Any],
    request_id: str,
    text: str | None,
    calls: list[Any],
    reason: Any,
    usage: Usage | None,
) -> Answer:
    outcome, error_class, code, why = _judge(reason)
    return Answer(
        wire_id, outcome, error_class, code, why, body, text, calls or None, None, usage, request_id,
    )  # fmt: skip


def _judge(reason: Any) -> tuple[Outcome, ErrorClass | None, str, str]:
    """(outcome, class, code, message) from a family's own word for why the answer ended."""
    if reason in _TRUNCATED:
        return Outcome.truncated, None, str(reason), "stopped at the output limit"
    if reason in _REFUSED:
        return Outcome.refused, None, str(reason), "stopped by a guardrail, a filter or the model itself"
    if reason in _PAUSED:
        return Outcome.truncated, None, str(reason), "the model paused a long turn: this is not the whole answer"
    if reason in _BROKEN:
        return Outcome.failed, ErrorClass.unknown, str(reason), "the model's output could not be used"
    if reason in _ANSWERED:
        return Outcome.succeeded, None, "", ""
    return Outcome.succeeded, None, f"stop_{reason}"[:200], f"stop reason {reason!r}, which is not known here"[:200]


def _with_last_reason(answer: Answer, body: dict[str, Any]) -> Answer:
    """Some open models say stop_reason where OpenAI says finish_reason."""
    reason = body["choices"][0].get("stop_reason")
    judged = _judge(reason if isinstance(reason, str) else None)
    # A word that is not known may be the stop sequence that was met.
    if answer.outcome is Outcome.succeeded and judged[0] is not Outcome.succeeded:
        answer.outcome, answer.error_class, answer.code, answer.message = judged
    if answer.error_class is ErrorClass.unreadable and type(body["choices"][0].get("text")) is str:
        choice = body["choices"][0]
        return _answer(answer.wire_id, body, answer.request_id, choice["text"], [], reason, _usage_of(body))
    return answer


def _read_message(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    """Claude. `content` may be empty, after a refusal or where thoughts used up the limit."""
    blocks = body["content"]
    if type(blocks) is not list or body.get("role") != "assistant":
        return None
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    calls = [
        _call(block["id"], block["name"], block.get("input")) for block in blocks if block.get("type") == "tool_use"
    ]
    return _answer(wire_id, body, request_id, _joined(texts), calls, body.get("stop_reason"), _usage_of(body))


def _read_converse(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    output = body["output"]
    message = output.get("message") if type(output) is dict else None
    if type(message) is not dict or type(message.get("content")) is not list:
        return None
    blocks = message["content"]
    texts = [block["text"] for block in blocks if type(block.get("text")) is str]
    uses = [block["toolUse"] for block in blocks if type(block.get("toolUse")) is dict]
    calls = [_call(use.get("toolUseId"), use["name"], use.get("input")) for use in uses]
    return _answer(wire_id, body, request_id, _joined(texts), calls, body.get("stopReason"), _usage_of(body))


def _read_llama(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    text = body["generation"]
    if text is not None and type(text) is not str:
        return None
    usage = _usage(body.get("prompt_token_count"), body.get("generation_token_count"))
    return _answer(wire_id, body, request_id, text, [], body.get("stop_reason"), usage)


def _read_titan(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    results = body["results"]
    produced = sum(count(result.get("tokenCount")) for result in results)
    usage = _usage(body.get("inputTextTokenCount"), produced)
    text = _joined([result["outputText"] for result in results])
    return _answer(wire_id, body, request_id, text, [], _worst(r.get("completionReason") for r in results), usage)


def _read_mistral(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    outputs = body["outputs"]
    text = _joined([output["text"] for output in outputs])
    return _answer(wire_id, body, request_id, text, [], _worst(o.get("stop_reason") for o in outputs), _usage_of(body))


def _read_generations(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    made = body["generations"]
    text = _joined([each["text"] for each in made])
    return _answer(wire_id, body, request_id, text, [], _worst(g.get("finish_reason") for g in made), _usage_of(body))


def _read_command(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    """Cohere's Command: calls have no ids, so they are numbered."""
    if type(body["text"]) is not str:
        return None
    calls = [
        _call(f"call_{number}", call["name"], call.get("parameters"))
        for number, call in enumerate(body.get("tool_calls") or ())
    ]
    return _answer(wire_id, body, request_id, body["text"], calls, body.get("finish_reason"), _usage_of(body))


def _read_vector(wire_id: str | None, body: dict[str, Any], request_id: str) -> Answer | None:
    found = body.get("embedding") or body.get("embeddings") or body.get("embeddingsByType")
    if not found:
        return None
    tokens = body.get("inputTextTokenCount")
    usage = _usage(tokens, 0) if tokens is not None else None
    return _answer(wire_id, body, request_id, None, [], None, usage)


Reader = Callable[[str | None, dict[str, Any], str], Answer | None]

_READERS: dict[str, Reader] = {
    "content": _read_message,
    "output": _read_converse,
    "generation": _read_llama,
    "results": _read_titan,
    "outputs": _read_mistral,
    "generations": _read_generations,
    "embedding": _read_vector,
    "embeddings": _read_vector,
    "embeddingsByType": _read_vector,
    "text": _read_command,
}
"""By the key that only this family's answers have, in the order of looking."""


def _joined(texts: list[str]) -> str | None:
    return "".join(texts) if texts else None


def _worst(reasons: Iterable[Any]) -> Any:
    """Of several answers' reasons the one that says most: one cut short is reported."""
    found = list(reasons)
    unknown = next((reason for reason in found if _judge(reason)[2]), None)
    return next((reason for reason in found if _judge(reason)[0] is not Outcome.succeeded), unknown)


def _call(id_: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return tool_call(id_, name, {} if arguments is None else arguments)


def _usage(inputs: Any, outputs: Any, cached: Any = 0, written: Any = 0) -> Usage:
    """`inputs` without what was read from or written to the cache, as Claude and Converse count."""
    read, wrote = count(cached), count(written)
    return Usage(
        input_tokens=count(inputs) + read + wrote,
        cached_tokens=read,
        cache_write_tokens=wrote,
        output_tokens=count(outputs),
    )


def _usage_of(body: dict[str, Any]) -> Usage | None:
    """The usage object of Claude, Converse and Nova; None where there is none."""
    usage = body.get("usage")
    if type(usage) is not dict:
        return None
    get = usage.get
    if "inputTokens" in usage or "outputTokens" in usage:
        # Nova's own body says ...TokenCount where Converse says ...Tokens.
        cached = get("cacheReadInputTokens", get("cacheReadInputTokenCount"))
        written = get("cacheWriteInputTokens", get("cacheWriteInputTokenCount"))
        found = _usage(get("inputTokens"), get("outputTokens"), cached, written)
        return with_hours_and_searches(found, _hour_writes(get("cacheDetails")), 0)
    if "input_tokens" in usage or "output_tokens" in usage:
        found = _usage(
            get("input_tokens"),
            get("output_tokens"),
            get("cache_read_input_tokens"),
            claude_written(usage),
        )
        details = get("output_tokens_details")
        thoughts = count(details.get("thinking_tokens")) if type(details) is dict else 0
        found = found.model_copy(update={"reasoning_tokens": thoughts}) if thoughts else found
        return with_hours_and_searches(found, *claude_extras(usage))
    return _usage(get("prompt_tokens"), get("completion_tokens"))


def _hour_writes(details: Any) -> int:
    """Of what Converse wrote to a cache, by how long it stays there."""
    if type(details) is not list:
        return 0
    return sum(count(each.get("inputTokens")) for each in details if type(each) is dict and each.get("ttl") == "1h")


def usage_of_headers(headers: dict[str, str]) -> Usage | None:
    """What InvokeModel tells beside the body: for families whose bodies tell nothing (Cohere Embed)."""
    inputs = headers.get("x-amzn-bedrock-input-token-count", "")
    outputs = headers.get("x-amzn-bedrock-output-token-count", "")
    if not inputs.isdecimal() and not outputs.isdecimal():
        return None
    return _usage(int(inputs) if inputs.isdecimal() else 0, int(outputs) if outputs.isdecimal() else 0)


def _failed(wire_id: str | None, error: Any) -> Answer:
    """`{"errorCode": 400, "errorMessage": "..."}`; the code may also be a word or a number in text."""
    code = error.get("errorCode") if type(error) is dict else None
    message = error.get("errorMessage") if type(error) is dict else error
    text = message if type(message) is str else ""
    if type(code) is str and code.isdecimal():
        code = int(code)
    if code == 0:
        return Answer(wire_id, Outcome.failed, ErrorClass.unknown, "status_0", text[:FAILURE_MESSAGE_MAX])
    status = code if type(code) is int else None
    word = "ValidationException" if status == 400 else (code if type(code) is str else "")
    found = classify(status, word, text)
    if found in {ErrorClass.too_large, ErrorClass.missing}:
        # Of one record: no smaller batch makes it fit, and a model that is not there is a wrong request.
        found = ErrorClass.invalid
    outcome = _OUTCOMES.get(_word(text), Outcome.failed)
    if outcome is not Outcome.failed:
        found = ErrorClass.expired if outcome is Outcome.expired else ErrorClass.cancelled
    shown = f"http_{status}" if status is not None else word or "no_code"
    return Answer(wire_id, outcome, found, shown[:200], text[:FAILURE_MESSAGE_MAX])


_OUTCOMES = {"expired": Outcome.expired, "stopped": Outcome.cancelled}
_NOT_RUN = re.compile(r"(?:job|batch)[^.]{0,40}\b(expired|stopped)\b|\b(expired|stopped) before")


def _word(message: str) -> str:
    """Expired or stopped, where a record's error says that its job ended first."""
    found = _NOT_RUN.search(message.lower())
    return (found[1] or found[2]) if found else ""


def _unreadable(wire_id: str | None, code: str, message: str, body: Any = None, request_id: str = "") -> Answer:
    usage = _usage_of(body) if type(body) is dict else None
    return unreadable(wire_id, code, message, body, request_id, usage=usage)
