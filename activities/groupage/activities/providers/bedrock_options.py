"""What Bedrock needs beside credentials: where data lies in S3, which role a job takes, and a job's limits.

Each option is read from the profile's `options`, else from the variable beside it. Credentials, region and
endpoints are AWS's own business: the usual chain, AWS_REGION, AWS_ENDPOINT_URL_BEDROCK, ..._BEDROCK_RUNTIME, ..._S3.

==============  ==============================  ==========================================================
bucket          GROUPAGE_BEDROCK_BUCKET         where inputs and outputs of jobs lie
prefix          GROUPAGE_BEDROCK_PREFIX         in front of all keys; default `groupage/`
role_arn        GROUPAGE_BEDROCK_ROLE_ARN       the service role that reads and writes there
bucket_owner    GROUPAGE_BEDROCK_BUCKET_OWNER   account id, where the bucket is another account's
kms_key         GROUPAGE_BEDROCK_KMS_KEY        key that outputs are encrypted with
timeout_hours   GROUPAGE_BEDROCK_TIMEOUT_HOURS  24 to 168; default: by the job's deadline
min_requests    GROUPAGE_BEDROCK_MIN_REQUESTS   records a job must have, by model: `100, amazon.nova=500`
region          AWS_REGION
aws_profile     AWS_PROFILE                     a profile of AWS's configuration files
==============  ==============================  ==========================================================
"""

import re
from dataclasses import dataclass

from groupage.activities.providers.profile_options import given_options, wrong_settings
from groupage.activities.settings import ProviderSettings
from groupage.schemas import parse_duration
from groupage.schemas.errors import ProviderError

TIMEOUT_HOURS = (24, 168)
"""Bounds of timeoutDurationInHours in botocore's model."""

_VARIABLES = {
    "bucket": "GROUPAGE_BEDROCK_BUCKET",
    "prefix": "GROUPAGE_BEDROCK_PREFIX",
    "role_arn": "GROUPAGE_BEDROCK_ROLE_ARN",
    "bucket_owner": "GROUPAGE_BEDROCK_BUCKET_OWNER",
    "kms_key": "GROUPAGE_BEDROCK_KMS_KEY",
    "timeout_hours": "GROUPAGE_BEDROCK_TIMEOUT_HOURS",
    "min_requests": "GROUPAGE_BEDROCK_MIN_REQUESTS",
    "region": "",
    "aws_profile": "",
}
# Patterns: S3Uri and RoleArn in botocore's model of `bedrock`.
_BUCKET = re.compile(r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"([-!_*'().a-z0-9A-Z]+/)*")
_ROLE = re.compile(r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+")


@dataclass(frozen=True, slots=True)
class BedrockOptions:
    """Checked values; `bucket` and `role_arn` may be empty where only the sync API is used."""

    bucket: str
    prefix: str
    role_arn: str
    bucket_owner: str
    kms_key: str
    timeout_hours: int | None
    """None: by the job's deadline."""
    min_requests: int | None
    """None: the catalog's."""
    min_by_model: tuple[tuple[str, int], ...]
    """(part of a model's id, records), the longest part first."""
    region: str
    aws_profile: str

    def minimum(self, model: str) -> int | None:
        """None: nothing is set, the catalog's holds."""
        return next((least for part, least in self.min_by_model if part in model), self.min_requests)

    def hours(self, left_s: float | None) -> int:
        """How long a job may take whose deadline is so many seconds away: until then, within Bedrock's bounds."""
        low, high = TIMEOUT_HOURS
        if self.timeout_hours is not None:
            return self.timeout_hours
        return low if left_s is None else min(high, max(low, int(left_s // 3600)))

    def folder(self, tag: str) -> str:
        """Everything of one submission lies under this key."""
        return f"{self.prefix}{tag}/"


def read_options(settings: ProviderSettings) -> BedrockOptions:
    """Raises ProviderError(account) that names what is wrong: nothing would work before it is set right."""
    given = given_options("bedrock", settings, _VARIABLES)
    if settings.api_key or settings.api_key_env:
        raise wrong("it takes no api_key: credentials come from AWS's own chain (AWS_PROFILE, AWS_ACCESS_KEY_ID, ...)")
    prefix = given["prefix"] or "groupage/"
    if not prefix.endswith("/"):
        prefix += "/"
    if given["bucket"] and not _BUCKET.fullmatch(given["bucket"]):
        raise wrong(f"bucket {given['bucket']!r} is not a bucket's name")
    if not _PREFIX.fullmatch(prefix):
        raise wrong(f"prefix {prefix!r}: use letters, digits and -!_*'(). between slashes")
    if given["role_arn"] and not _ROLE.fullmatch(given["role_arn"]):
        raise wrong(f"role_arn {given['role_arn']!r} is not of the form arn:aws:iam::123456789012:role/name")
    least, by_model = _minimums(given["min_requests"])
    return BedrockOptions(
        bucket=given["bucket"],
        prefix=prefix,
        role_arn=given["role_arn"],
        bucket_owner=given["bucket_owner"],
        kms_key=given["kms_key"],
        timeout_hours=_hours(given["timeout_hours"], settings),
        min_requests=least,
        min_by_model=by_model,
        region=given["region"],
        aws_profile=given["aws_profile"],
    )


def _hours(text: str, settings: ProviderSettings) -> int | None:
    low, high = TIMEOUT_HOURS
    if text:
        where = "timeout_hours" if settings.options.get("timeout_hours") else _VARIABLES["timeout_hours"]
        hours = int(text) if text.isdecimal() else 0
    elif settings.completion_window:
        where, text = "completion_window", settings.completion_window
        hours = _whole_hours(text)
    else:
        return None
    if not low <= hours <= high:
        raise wrong(f"{where} {text!r}: Bedrock lets a job take {low} to {high} whole hours")
    return hours


def _whole_hours(window: str) -> int:
    """0 where it is no whole number of hours."""
    try:
        hours, rest = divmod(parse_duration(window).total_seconds(), 3600)
    except ValueError:
        return 0
    return 0 if rest else int(hours)


def _minimums(text: str) -> tuple[int | None, tuple[tuple[str, int], ...]]:
    least: int | None = None
    by_model: list[tuple[str, int]] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        model, equals, number = part.rpartition("=")
        if not number.strip().isdecimal() or int(number) < 1 or bool(equals) != bool(model.strip()):
            raise wrong(f"min_requests {part!r}: write 100, or amazon.nova-lite=500 for a model")
        if equals:
            by_model.append((model.strip(), int(number)))
        else:
            least = int(number)
    return least, tuple(sorted(by_model, key=lambda pair: -len(pair[0])))


def wrong(detail: str) -> ProviderError:
    """The error for settings that have to be put right by a person."""
    return wrong_settings("bedrock", detail)
