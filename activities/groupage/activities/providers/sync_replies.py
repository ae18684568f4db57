"""Replies of sync APIs, as far as all adapters see them alike: those that did not come, and those that are no JSON."""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.activities.answers_shared import exactly, unreadable
from groupage.activities.providers.base import Answer, SyncCall
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.schemas.secrets import redacted
from groupage.store import answer_json


def no_reply(call: SyncCall, error_class: ErrorClass, code: str, message: str) -> Answer:
    """Nothing came that the model said."""
    return Answer(call.wire_id, Outcome.failed, error_class, code, redacted(message)[:FAILURE_MESSAGE_MAX])


def timed_out(call: SyncCall) -> Answer:
    return no_reply(call, ErrorClass.transient, "timeout", f"no answer within {call.timeout_s:g} s")


def failed_call(call: SyncCall, error: ProviderError, error_class: ErrorClass | None = None) -> Answer:
    """A call that raised. `error_class` instead of the error's own."""
    answer = no_reply(call, error_class or error.error_class, error.code, str(error))
    answer.retry_after_s = error.retry_after_s
    return answer


def read_sync(
    call: SyncCall,
    status: int,
    content: bytes,
    read: Callable[[Any], Answer],
    wait_s: Callable[[], float | None],
) -> Answer:
    """A reply, whatever its status. `read` gets the parsed body, or a text where an error's body is no JSON.

    `wait_s` tells what the headers ask for; it is used where the reply is an error that asks for nothing itself.
    """
    if status >= 400:
        # Some servers repeat a key that they refuse; this body is kept.
        content = redacted(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        body: Any = answer_json.loads(content)
    except orjson.JSONDecodeError:
        if 200 <= status <= 299:
            if answer_json.strict(content.decode("utf-8", "replace").encode()) is not None:
                # An answer, and paid for: as a line of a result file that is not UTF-8 (RP-12).
                return unreadable(call.wire_id, "not_utf8", f"status {status}, but the answer is not UTF-8")
            # A gateway's page, or an answer cut in its middle (PO-22).
            message = f"status {status}, but the answer is not JSON"
            return no_reply(call, ErrorClass.transient, "not_json", message)
        body = content[:FAILURE_MESSAGE_MAX].decode("utf-8", "replace")
    answer = exactly(read(body), content, read)
    if answer.error_class is not None:
        answer.retry_after_s = answer.retry_after_s or wait_s()
    return answer
