"""Why an OpenAI-shaped answer ended, by the servers' words, and what that makes of it.

==========================================  =============================================================
finish_reason                               outcome
==========================================  =============================================================
stop, tool_calls, function_call, none       succeeded
length, model_length, max_tokens            truncated (RP-14)
content_filter; or a refusal in the answer  refused (RP-16)
abort, error, insufficient_system_resource  failed, class unknown: the server broke off, with status 200 and
                                              half a text (vLLM, SGLang, OpenRouter, Mistral, DeepSeek)
any other word                              succeeded, with the word as code
==========================================  =============================================================

Of several choices the reason that says most counts: one cut short is reported.
"""

from typing import Any

from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

Verdict = tuple[Outcome, ErrorClass | None, str, str]
"""(outcome, class, code, message)."""

_WHOLE = ("stop", "tool_calls", "function_call", None)
_CUT_OFF = ("length", "model_length", "max_tokens")
_BROKEN_OFF = ("abort", "error", "insufficient_system_resource")


def judge(reasons: list[Any], refusal: Any = None) -> Verdict:
    """From the finish reasons of all choices. SGLang's may be an object with the word as its type."""
    words = [reason.get("type") if type(reason) is dict else reason for reason in reasons]
    if refusal:
        return Outcome.refused, None, "refusal", str(refusal)[:FAILURE_MESSAGE_MAX]
    if "content_filter" in words:
        return Outcome.refused, None, "content_filter", "stopped by the provider's content filter"
    for word in words:
        if word in _BROKEN_OFF:
            return Outcome.failed, ErrorClass.unknown, word, "the server broke off the answer"
    for word in words:
        if word in _CUT_OFF:
            return Outcome.truncated, None, word, "stopped at the output limit"
    for word in words:
        if word not in _WHOLE:
            return Outcome.succeeded, None, f"finish_{word}"[:200], f"finish reason {word!r}, which is not known here"
    return Outcome.succeeded, None, "", ""
