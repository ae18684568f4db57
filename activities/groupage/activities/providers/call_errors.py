"""Failed calls, as far as all adapters see them alike: codes, waits, and what follows from a create or cancel that failed.

What an error means is each provider's own business (openai_errors.py, bedrock_errors.py, google_errors.py, ...).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn

from groupage.schemas import BatchPhase, BatchStatus, ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

NOT_SENT = "not_connected"
"""Code of an error before which not a byte of the request had left."""

TOO_FEW = "too_few_records"
"""Code of a batch that was refused for holding too few requests. It is transient, though the same call would fail
again: no request is at fault, and they go again with others, or at last by sync (docs/cases.md IV-21)."""

RETRY_AFTER_MAX_S = 3600.0
"""A server that asks for more is asked again after this."""


def class_of_status(status: int | None, passing: Collection[int]) -> ErrorClass:
    """By the HTTP status alone. `passing`: those below 500 that pass by themselves."""
    if status is None or status < 400:
        return ErrorClass.unknown
    if status == 429:
        return ErrorClass.rate_limit
    if status >= 500 or status in passing:
        return ErrorClass.transient
    known = {401: ErrorClass.account, 402: ErrorClass.account, 403: ErrorClass.forbidden, 404: ErrorClass.missing}
    return known.get(status, ErrorClass.invalid)


def of_whole(found: ErrorClass) -> ErrorClass:
    """The class of an error that is not one request's: what may not be done is the account's lack then."""
    return ErrorClass.account if found is ErrorClass.forbidden else found


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date.

    Names of headers are looked for in lower case.
    """
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / divisor
        except ValueError:
            seconds = _seconds_until(text, now or datetime.now(UTC))
        if 0 <= seconds < float("inf"):
            return min(seconds, RETRY_AFTER_MAX_S)
    return None


def _seconds_until(text: str, now: datetime) -> float:
    """Seconds from `now` to an HTTP date, 0 for one that has passed, -1 for what is no date."""
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return -1.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())


def connection_failed(cause: BaseException | None, what: str, detail: str, *, timed_out: bool) -> ProviderError:
    """A call of httpx2's without an answer. `cause` is httpx2's exception, `what` says what was tried."""
    import httpx2

    if isinstance(cause, httpx2.LocalProtocolError | httpx2.InvalidURL | UnicodeEncodeError):
        return unsendable(cause, what)
    if isinstance(cause, httpx2.UnsupportedProtocol):
        return ProviderError(f"{what}: {detail}", error_class=ErrorClass.account, code="configuration")
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return ProviderError(f"{what}: not connected: {detail}", error_class=ErrorClass.transient, code=NOT_SENT)
    code = "timeout" if timed_out else "connection_lost"
    return ProviderError(f"{what}: {detail}", error_class=ErrorClass.transient, code=code)


def unsendable(cause: BaseException, what: str) -> ProviderError:
    """A request that could not be written: a header or the address cannot be what it is, so a setting is wrong.

    Without the library's own words, which are that header with the key in it, or that address with its password.
    """
    return ProviderError(
        f"{what}: {type(cause).__name__}: a key, a header or the address cannot be sent as it is",
        error_class=ErrorClass.account,
        code="configuration",
        hint="look for line ends, blanks and characters that are not ASCII in them (their text is not shown here)",
    )


def not_of_shape(what: str, missing: str) -> ProviderError:
    """A successful answer without what it must hold: a gateway spoke, not the API (PO-22)."""
    return ProviderError(
        f"{what}: the answer has no {missing}", error_class=ErrorClass.transient, code="not_an_object", status=200
    )


def ambiguous(error: ProviderError) -> AmbiguousCreate:
    """The error of a create call after which there may be a batch."""
    return AmbiguousCreate(
        str(error),
        error_class=ErrorClass.transient,
        code=error.code,
        status=error.status,
        retry_after_s=error.retry_after_s,
    )


def raise_create_failed(failed: ProviderError, error: ProviderError) -> NoReturn:
    """Raise what the provider's `create_failed` made of a create call's error."""
    if failed is error:
        raise error  # from itself it would be its own cause, and whoever follows the causes would never end
    raise failed from error


async def after_refused_cancel(
    error: ProviderError, status: Callable[[str], Awaitable[BatchStatus]], batch_id: str
) -> BatchStatus:
    """What is there after a cancel call that failed. A refusal may mean that the batch has ended: its state tells (PO-16).

    Raises the error again if it was another one, or a real refusal.
    """
    if error.status not in {400, 409}:
        raise error
    now = await status(batch_id)
    if not now.phase.ended and now.phase is not BatchPhase.cancelling and now.settles_as is None:
        raise error
    return now
