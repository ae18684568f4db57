"""What a failed call to AWS means, in our classes; botocore's own verdicts and retries are off.

=============================================  ==========================================================
what happened                                  class; may a create have been accepted?
=============================================  ==========================================================
not connected, TLS, credentials not fetched    transient; no: nothing was sent
no credentials, region or profile              account; no
timeout, reset, cut answer                     transient; yes
2xx that is not of the operation's shape       transient; yes (a gateway's page)
408, 409, 424, 5xx                             transient; yes
429, Throttling..., SlowDown                   rate_limit; no
ServiceQuotaExceededException (400)            quota; no: too many jobs, or records, are under way
ConflictException on create                    transient; yes: its token or name is taken, by our own job
AccessDenied..., signature, token, 401, 403    account; no
NoSuchBucket                                   account; no: the bucket is a setting
404, ResourceNotFoundException, NoSuchKey      missing; no
413, sizes in a ValidationException            too_large; no
400, ValidationException, other 4xx            invalid; no
=============================================  ==========================================================
"""

import re
from typing import Any

from groupage.activities.providers.call_errors import NOT_SENT, ambiguous, class_of_status, retry_after_s
from groupage.schemas import BatchError, ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.limits import FAILURE_MESSAGE_MAX

CONFLICT = "ConflictException"
_PASSING = frozenset({408, 409, 424, 425})

_BY_CODE = {
    "ThrottlingException": ErrorClass.rate_limit,
    "Throttling": ErrorClass.rate_limit,
    "TooManyRequestsException": ErrorClass.rate_limit,
    "RequestLimitExceeded": ErrorClass.rate_limit,
    "SlowDown": ErrorClass.rate_limit,
    "ServiceQuotaExceededException": ErrorClass.quota,
    "ModelNotReadyException": ErrorClass.transient,
    "ModelTimeoutException": ErrorClass.transient,
    "ModelErrorException": ErrorClass.transient,
    "InternalServerException": ErrorClass.transient,
    "ServiceUnavailableException": ErrorClass.transient,
    "RequestTimeout": ErrorClass.transient,
    "AccessDeniedException": ErrorClass.account,
    "AccessDenied": ErrorClass.account,
    "ExpiredTokenException": ErrorClass.account,
    "ExpiredToken": ErrorClass.account,
    "UnrecognizedClientException": ErrorClass.account,
    "InvalidSignatureException": ErrorClass.account,
    "NoSuchBucket": ErrorClass.account,
    "ResourceNotFoundException": ErrorClass.missing,
    "NoSuchKey": ErrorClass.missing,
    "ValidationException": ErrorClass.invalid,
}

_PAYMENT = re.compile(
    r"invalid_payment_instrument|payment instrument|subscription has (expired|been cancel)|marketplace"
)
_TOO_LARGE = re.compile(
    r"(exceed\w*|above|over|more than|greater than) the (maximum|max|limit|allowed)"
    r"|(number of records|record count|size|bytes)[^.]{0,60}(exceed|greater than|more than|larger than|above)"
    r"|too (large|many records)"
)
_TOO_FEW = re.compile(r"(less|fewer|minimum|at least)[^.]{0,60}record|record[^.]{0,60}(less|fewer|minimum|at least)")
_QUOTA = re.compile(r"quota|too many (batch|jobs|running|concurrent)|concurrent (batch|job|invocation)")
_ACCOUNT = re.compile(r"access denied|accessdenied|not authorized|unauthorized|permission|assume (the )?role|kms")
_TRANSIENT = re.compile(r"internal|unavailable|try again|timed? ?out|temporar")
_THROTTLED = re.compile(r"throttl|too many (requests|tokens)|rate exceeded")
_INVALID = re.compile(r"validation|invalid|malformed|not (a )?valid|not supported|unsupported|parse|duplicate")


def classify(status: int | None, code: str, message: str) -> ErrorClass:
    """The class of an error that a call answered with, or that a record's line carries."""
    lowered = message.lower()
    if _PAYMENT.search(lowered) or status in {401, 402}:
        return ErrorClass.account
    found = _BY_CODE.get(code)
    if found is ErrorClass.invalid and _THROTTLED.search(lowered):
        return ErrorClass.rate_limit
    if found is not None and found is not ErrorClass.invalid:
        return found
    if status == 413 or (status in {400, 422, None} and found is not None and _TOO_LARGE.search(lowered)):
        return ErrorClass.too_large
    return found or class_of_status(status, _PASSING)


def failed_job(message: str) -> BatchError:
    """Why a job failed as a whole; Bedrock gives a text only, and its words are not documented."""
    text = message.strip() or "the provider gives no reason"
    lowered = text.lower()
    found, code = ErrorClass.unknown, "failed"
    if _TOO_FEW.search(lowered):
        # Not the requests' fault, and no smaller batch helps: they go again, and at last by sync (IV-21).
        found, code = ErrorClass.transient, "too_few_records"
    elif _QUOTA.search(lowered):
        found, code = ErrorClass.quota, "quota"
    elif _ACCOUNT.search(lowered):
        found, code = ErrorClass.account, "access"
    elif _TOO_LARGE.search(lowered):
        found, code = ErrorClass.too_large, "too_large"
    elif _TRANSIENT.search(lowered):
        found, code = ErrorClass.transient, "internal"
    elif _INVALID.search(lowered):
        found, code = ErrorClass.invalid, "invalid"
    return BatchError(error_class=found, code=code, message=text[:FAILURE_MESSAGE_MAX])


def translate(error: Exception, what: str) -> ProviderError | None:
    """An exception of boto3's as ours; None for one that is not botocore's. `what` says what was tried."""
    from botocore import exceptions, parsers  # type: ignore[import-untyped]

    if isinstance(error, exceptions.ClientError):
        return _answered(dict(error.response), what)
    fetching = (exceptions.CredentialRetrievalError, exceptions.MetadataRetrievalError, exceptions.TokenRetrievalError)
    kinds: list[tuple[Any, ErrorClass, str]] = [
        (exceptions.ReadTimeoutError, ErrorClass.transient, "timeout"),
        ((exceptions.ConnectionError, *fetching), ErrorClass.transient, NOT_SENT),
        (exceptions.HTTPClientError, ErrorClass.transient, "connection_lost"),
        (
            (exceptions.IncompleteReadError, exceptions.ChecksumError, exceptions.FlexibleChecksumError),
            ErrorClass.transient,
            "cut_short",
        ),
        (parsers.ResponseParserError, ErrorClass.transient, "not_json"),
        (exceptions.ParamValidationError, ErrorClass.invalid, "ParamValidation"),
        # No credentials, no region, no such profile: found before anything is sent.
        (exceptions.BotoCoreError, ErrorClass.account, "configuration"),
    ]
    for kind, error_class, code in kinds:
        if isinstance(error, kind):
            return ProviderError(f"{what}: {type(error).__name__}: {error}", error_class=error_class, code=code)
    return None


def _answered(response: dict[str, Any], what: str) -> ProviderError:
    metadata = response.get("ResponseMetadata") or {}
    status = metadata.get("HTTPStatusCode")
    inner = response.get("Error") or {}
    code, message = str(inner.get("Code") or ""), str(inner.get("Message") or "")
    return ProviderError(
        f"{what}: HTTP {status} {code} {message or 'without a message'}"[:FAILURE_MESSAGE_MAX],
        error_class=classify(status, code, message),
        code=code or f"http_{status}",
        status=status,
        retry_after_s=retry_after_s(metadata.get("HTTPHeaders") or {}),
    )


def create_failed(error: ProviderError) -> ProviderError:
    """The error of a create call: AmbiguousCreate unless it is sure that nothing was accepted."""
    if error.code in {NOT_SENT, "configuration", "ParamValidation"}:
        return error
    answered = error.status is not None and 400 <= error.status < 500 and error.code != CONFLICT
    if answered and error.error_class is not ErrorClass.transient:
        return error
    return ambiguous(error)
