"""From our errors to what Temporal sees: type, detail, and whether and when it is tried again.

::

    ProviderError    -> ApplicationError "provider.<error_class>", detail BatchError
                        definitive classes: non_retryable; the others: next_retry_delay
    KeyConflict      -> "input.conflict", InputRefused -> "input.refused": non_retryable
    StoreError       -> "store.unavailable": retried by the activity's policy
    a full disk      -> "worker.disk_full", detail BatchError: retried, maybe by a worker with more room
    anything else    -> left as it is: Temporal names the failure by its class and retries it; its text is told
                        without the secret that may be in it

Messages are cut: the server keeps 4 KiB of a failure.
"""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from groupage.activities.providers.bad_lines import OF_ALL_LINES, bad_lines
from groupage.activities.providers.call_errors import TOO_FEW
from groupage.schemas import BatchError, ErrorClass
from groupage.schemas.activity_calls import COLLECT_BATCH, DISK_FULL, SUBMIT_BATCH
from groupage.schemas.errors import AmbiguousCreate, GroupageError, InputRefused, KeyConflict, ProviderError, StoreError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX
from groupage.schemas.secrets import redacted, tells_a_secret
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError

DEFINITIVE = frozenset(
    {
        ErrorClass.invalid,
        ErrorClass.too_large,
        ErrorClass.account,
        ErrorClass.quota,
        ErrorClass.missing,
        ErrorClass.cancelled,
    }
)
"""Trying the same call again cannot help: the workflow decides what is next. A quota is waited for by the
workflow as well, because only it knows what else of ours fills the quota."""

RETRY_DELAYS_S = {ErrorClass.rate_limit: 20.0, ErrorClass.transient: 5.0, ErrorClass.unknown: 10.0}
"""First pause by class where the server names none; it doubles with each attempt."""
RETRY_DELAY_MAX_S = 300.0


DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
SHOWN_BY_WORKFLOW = frozenset({COLLECT_BATCH.name, SUBMIT_BATCH.name})
"""Activities that fail for good at the third attempt that finds the disk full: their workflow says so, and tries on."""
DISK_FULL_ATTEMPTS = 3


def cut(text: str, limit: int = FAILURE_MESSAGE_MAX) -> str:
    """The text, shortened to what a failure may carry."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def batch_error(error: ProviderError) -> BatchError:
    # What an account lacks is asked of a person, who is to read what to do about it.
    hint = f" ({error.hint})" if error.hint and error.error_class is ErrorClass.account else ""
    return BatchError(
        error_class=error.error_class,
        code=cut(error.code, 200),
        message=cut(f"{error}{hint}"),
        retry_after_s=error.retry_after_s,
        bad_lines=bad_lines((line, error.code, cut(str(error))) for line in error.lines),
        of_all_lines=error.code in OF_ALL_LINES,
    )


def retry_delay_s(error_class: ErrorClass, retry_after_s: float | None, attempt: int) -> float:
    """Seconds until the next attempt: never less than the server asked for (docs/cases.md SDK-06)."""
    first = RETRY_DELAYS_S.get(error_class, 5.0)
    grown = min(RETRY_DELAY_MAX_S, first * 2.0 ** min(max(attempt - 1, 0), 16))
    return max(grown, retry_after_s or 0.0)


def to_application_error(error: GroupageError, attempt: int) -> ApplicationError:
    """What is raised from an activity for one of our errors."""
    message = cut(f"{error} ({error.hint})" if error.hint else str(error))
    if isinstance(error, ProviderError):
        definitive = error.error_class in DEFINITIVE or error.code == TOO_FEW
        # After a create without an answer the next attempt only looks. Attempts that waited for proof before
        # count as well and would make that a matter of minutes.
        counted = 1 if isinstance(error, AmbiguousCreate) else attempt
        delay = (
            None if definitive else timedelta(seconds=retry_delay_s(error.error_class, error.retry_after_s, counted))
        )
        return ApplicationError(
            message,
            batch_error(error),
            type=f"provider.{error.error_class}",
            non_retryable=definitive,
            next_retry_delay=delay,
        )
    if isinstance(error, StoreError):
        return ApplicationError(message, type="store.unavailable")
    if isinstance(error, KeyConflict):
        return ApplicationError(
            message,
            BatchError(error_class=ErrorClass.invalid, code="conflict", message=message),
            type="input.conflict",
            non_retryable=True,
        )
    if isinstance(error, InputRefused):
        return ApplicationError(
            message,
            BatchError(error_class=ErrorClass.invalid, code="refused", message=message),
            type="input.refused",
            non_retryable=True,
        )
    return ApplicationError(message, type=type(error).__name__, non_retryable=True)


def disk_full(error: OSError, activity_type: str, attempt: int) -> ApplicationError:
    """No fault of a request or of the provider. `error` is one of DISK_IS_FULL."""
    message = cut(f"no space left on the worker's disk: {error}")
    return ApplicationError(
        message,
        BatchError(error_class=ErrorClass.transient, code=DISK_FULL, message=message),
        type="worker.disk_full",
        non_retryable=activity_type in SHOWN_BY_WORKFLOW and attempt >= DISK_FULL_ATTEMPTS,
    )


def retried(error: ProviderError, attempt: int, slowly_s: float = RETRY_DELAY_MAX_S) -> ApplicationError:
    """A provider's error that must not end the activity whatever its class: "cannot see" is not "failed".

    Classes that do not pass by themselves are asked again slowly.
    """
    delay_s = slowly_s if error.error_class in DEFINITIVE else RETRY_DELAYS_S[ErrorClass.transient]
    delay_s = max(retry_delay_s(error.error_class, error.retry_after_s, attempt), delay_s)
    return ApplicationError(
        cut(str(error)),
        batch_error(error),
        type=f"provider.{error.error_class}",
        next_retry_delay=timedelta(seconds=delay_s),
    )


def waiting(message: str, *details: Any, delay_s: float) -> ApplicationError:
    """Not a failure: look again in `delay_s` seconds. BENIGN keeps it out of logs and failure metrics."""
    return ApplicationError(
        cut(message),
        *details,
        type="waiting",
        next_retry_delay=timedelta(seconds=delay_s),
        category=ApplicationErrorCategory.BENIGN,
    )


@contextmanager
def reported() -> Generator[None, None, None]:
    """Raise our errors as what Temporal acts on; everything unexpected passes through unchanged."""
    try:
        yield
    except GroupageError as error:
        failure = to_application_error(error, activity.info().attempt)
        # The text is clean; a library's error that it was raised from may not be.
        cause = None if tells_a_secret(error) else error
        activity.logger.info("%s: %s", failure.type, failure.message, exc_info=cause)
        # Without the chain of causes: the server keeps 4 KiB of a failure, and SDKs' stack traces would take the
        # place of the one line that says what is wrong (`temporal workflow describe`, Web UI).
        raise failure from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_IS_FULL:
            raise disk_full(error, activity.info().activity_type, activity.info().attempt) from None
        if isinstance(error, FailureError) or not tells_a_secret(error):
            raise
        raise ApplicationError(cut(redacted(str(error))), type=type(error).__name__) from None
