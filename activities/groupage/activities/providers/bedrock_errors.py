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
signature, token, 401, KMS..., an account,     account; no
  role or bucket that a ValidationException of
  a batch names
AccessDenied..., 403                           forbidden; account where no request is meant; no
NoSuchBucket, a bucket elsewhere (301)         account; no: bucket and region are settings
too few records, in a ValidationException      transient, as "too_few_records"; no
404, ResourceNotFoundException, NoSuchKey      missing; no
413, sizes in a ValidationException            too_large; no
400, ValidationException, other 4xx            invalid; no
=============================================  ==========================================================
"""

import re
from http import HTTPStatus
from typing import Any

from groupage.activities.own_words import own_words
from groupage.activities.providers.call_errors import (
    NOT_SENT,
    TOO_FEW,
    ambiguous,
    class_of_status,
    of_whole,
    retry_after_s,
    unsendable,
)
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
    "AccessDeniedException": ErrorClass.forbidden,
    "AccessDenied": ErrorClass.forbidden,
    "ExpiredTokenException": ErrorClass.account,
    "ExpiredToken": ErrorClass.account,
    "UnrecognizedClientException": ErrorClass.account,
    "InvalidSignatureException": ErrorClass.account,
    "AccountProblem": ErrorClass.account,
    "AllAccessDisabled": ErrorClass.account,
    "AuthFailure": ErrorClass.account,
    "AuthorizationHeaderMalformed": ErrorClass.account,
    "IncompleteSignature": ErrorClass.account,
    "IncompleteSignatureException": ErrorClass.account,
    "InvalidAccessKeyId": ErrorClass.account,
    "InvalidClientTokenId": ErrorClass.account,
    "InvalidToken": ErrorClass.account,
    "MissingAuthenticationToken": ErrorClass.account,
    "MissingAuthenticationTokenException": ErrorClass.account,
    "NotSignedUp": ErrorClass.account,
    "OptInRequired": ErrorClass.account,
    "PermanentRedirect": ErrorClass.account,
    "RequestExpired": ErrorClass.account,
    "RequestTimeTooSkewed": ErrorClass.account,
    "SignatureDoesNotMatch": ErrorClass.account,
    "TokenRefreshRequired": ErrorClass.account,
    "NoSuchBucket": ErrorClass.account,
    "ResourceNotFoundException": ErrorClass.missing,
    "NoSuchKey": ErrorClass.missing,
    "ValidationException": ErrorClass.invalid,
}

_PAYMENT = re.compile(
    r"invalid_payment_instrument|payment instrument|subscription has (expired|been cancel)"
    r"|marketplace[^.]{0,80}subscri|subscri[^.]{0,80}marketplace"
)
_TOO_LARGE = re.compile(
    r"(exceed\w*|above|over|more than|greater than) the (maximum|max|limit|allowed)"
    r"|(number of records|record count|size|bytes)[^.]{0,60}(exceed|greater than|more than|larger than|above)"
    r"|too (large|many records)"
)
_TOO_FEW = re.compile(
    r"(less|fewer|minimum|at least \d)[^.]{0,60}record|record[^.]{0,60}(less|fewer|minimum|at least \d)"
)
_QUOTA = re.compile(r"quota|too many (batch|jobs|running|concurrent)|concurrent (batch|job|invocation)")
_ACCOUNT = re.compile(
    r"access denied|accessdenied|not authorized|unauthorized|permission|support case|\bkms\b|\bs3:\w+"
    r"|assume[^.]{0,20}\brole\b|\brole\b[^.]{0,80}\bassumed|(provided|service|execution|iam) role|arn:aws[\w-]*:iam"
    r"|bucket[^.]{0,80}(region|not exist|not found)|region[^.]{0,40}bucket"
)
"""Of a whole batch only: a record's error may speak of a role or a permission that is its own."""
_OF_ONE_REQUEST = frozenset({"Converse", "InvokeModel"})
_TRANSIENT = re.compile(r"internal|unavailable|try again|timed? ?out|temporar")
_THROTTLED = re.compile(r"throttl|too many (requests|tokens)|rate exceeded")
_INVALID = re.compile(r"validation|invalid|malformed|not (a )?valid|not supported|unsupported|parse|duplicate")


def classify(status: int | None, code: str, message: str) -> ErrorClass:
    """The class of an error that a call answered with, or that a record's line carries."""
    lowered = message.lower()
    if _PAYMENT.search(own_words(message)) or status in {301, 401, 402} or code.startswith("KMS."):
        return ErrorClass.account
    found = _BY_CODE.get(code)
    if found is ErrorClass.invalid and _THROTTLED.search(lowered):
        return ErrorClass.rate_limit
    if found is not None and found is not ErrorClass.invalid:
        return found
    if status == 413 or (status in {400, 422, None} and found is not None and _TOO_LARGE.search(lowered)):
        return ErrorClass.too_large
    return found or class_of_status(status, _PASSING)


def classify_call(status: int | None, code: str, message: str) -> tuple[ErrorClass, str]:
    """(class, code) of a call about a whole batch or its data: what is wrong beside its requests is told in words only."""
    found, lowered = of_whole(classify(status, code, message)), message.lower()
    if found in {ErrorClass.invalid, ErrorClass.too_large}:
        if _TOO_FEW.search(lowered):
            return ErrorClass.transient, TOO_FEW
        if _ACCOUNT.search(lowered):
            return ErrorClass.account, code
    return found, code


def failed_job(message: str) -> BatchError:
    """Why a job failed as a whole; Bedrock gives a text only, and its words are not documented."""
    text = message.strip() or "the provider gives no reason"
    lowered = text.lower()
    found, code = ErrorClass.unknown, "failed"
    if _TOO_FEW.search(lowered):
        found, code = ErrorClass.transient, TOO_FEW
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
        return _answered(dict(error.response), what, error.operation_name)
    fetching = (exceptions.CredentialRetrievalError, exceptions.MetadataRetrievalError, exceptions.TokenRetrievalError)
    if isinstance(error, exceptions.HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
        # A header could not be written (UnicodeEncodeError is a ValueError, too).
        return unsendable(error.kwargs["error"], what)
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


def _answered(response: dict[str, Any], what: str, operation: str) -> ProviderError:
    metadata = response.get("ResponseMetadata") or {}
    status = metadata.get("HTTPStatusCode")
    inner = response.get("Error") or {}
    said, message = str(inner.get("Code") or ""), str(inner.get("Message") or "")
    # After a wrong signature it repeats the request's headers, a session's token among them.
    message = message.partition("The Canonical String")[0].strip()
    if operation in _OF_ONE_REQUEST:
        found, code = classify(status, said, message), said
    elif operation == "HeadObject" and status == HTTPStatus.BAD_REQUEST:
        # Without a body, and with nothing in the call that could be wrong but the credentials.
        found, code = ErrorClass.account, said
    else:
        found, code = classify_call(status, said, message)
    return ProviderError(
        f"{what}: HTTP {status} {said} {message or 'without a message'}"[:FAILURE_MESSAGE_MAX],
        error_class=found,
        code=code or f"http_{status}",
        status=status,
        retry_after_s=retry_after_s(metadata.get("HTTPHeaders") or {}),
    )


def create_failed(error: ProviderError) -> ProviderError:
    """The error of a create call: AmbiguousCreate unless it is sure that nothing was accepted."""
    if error.code in {NOT_SENT, TOO_FEW, "configuration", "ParamValidation"}:
        return error
    answered = error.status is not None and 400 <= error.status < 500 and error.code != CONFLICT
    if answered and error.error_class is not ErrorClass.transient:
        return error
    return ambiguous(error)
