"""Azure's result lines: OpenAI's without an id of their own, with what the content filter found."""

import orjson
from groupage.emulator.dialects import Dialect
from groupage.emulator.faults import RequestRule
from groupage.emulator.outcomes import faulty_lines, head_of, unfinished_line
from groupage.emulator.work import Form

_SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_FOUND = b'"content_filter_results":%b,"finish_reason":' % orjson.dumps(_SAFE)
_PROMPT = b',"prompt_filter_results":%b}' % orjson.dumps([{"prompt_index": 0, "content_filter_results": _SAFE}])
_REASON = b'"finish_reason":'

_CODES = {
    "invalid_url": "url_mismatch",
    "mismatched_model": "model_mismatch",
    "missing_required_parameter": "invalid_request",
    "invalid_type": "invalid_request",
    "invalid_method": "invalid_request",
    "too_many_inputs": "invalid_request",
    "file_too_large": "invalid_request",
}
"""To the codes of Microsoft's REST guide; the others are the same there."""

FILTERED = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": _SAFE | {"violence": {"filtered": True, "severity": "high"}},
        },
    }
}


def filtered(reply: bytes) -> bytes:
    """An answer with what the filter found. Inside a JSON text the pattern's quotes would be escaped."""
    if _REASON not in reply:
        return reply
    return reply.replace(_REASON, _FOUND)[:-1] + _PROMPT


def _line(code: bytes, count: int, identity: bytes, status: int, reply: bytes) -> bytes:
    return b'{"custom_id":%b,"response":{"body":%b,"request_id":"%b-%06x","status_code":%d},"error":null}\n' % (
        identity,
        filtered(reply) if status == 200 else reply,
        code,
        count,
        status,
    )


def _urls(endpoint: str) -> tuple[str, ...]:
    return (endpoint, endpoint.removeprefix("/v1"))


def _faulty(rule: RequestRule, line: bytes) -> tuple[list[bytes], list[bytes]]:
    """As at OpenAI, but a prompt that is refused is an error of the filter."""
    if rule.kind != "refused":
        return faulty_lines(rule, line)
    response = orjson.dumps({"body": FILTERED, "request_id": "", "status_code": 400})
    return [], [b'%b,"response":%b,"error":null}\n' % (head_of(line), response)]


def _unfinished(line: bytes, ending: str) -> bytes:
    return unfinished_line(head_of(line), f"batch_{ending}")


DIALECT = Dialect(
    id_prefix="batch_",
    faulty=_faulty,
    unfinished=_unfinished,
    form=Form(_line, _urls, _CODES),
    empty_errors=True,
    results_life_s=None,
    max_requests=100_000,
)
