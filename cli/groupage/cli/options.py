"""Options of `run` and `submit`, checked before anything else happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from groupage.schemas import DEFAULT_ENDPOINT, LONGEST, TOO_LONG, JobPolicy, endpoints_of, parse_duration
from groupage.schemas.errors import UsageError
from groupage.schemas.ids import check_key, check_tenant
from pydantic import ValidationError

STDIN = "-"
STDOUT = "-"

_OPTION_OF_FIELD = {
    "max_rounds": "--max-rounds",
    "max_cost_usd": "--max-cost",
    "sync_rpm": "--sync-rpm",
    "poll": "--poll",
    "on_invalid": "--on-invalid",
}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What is asked for. `source` is a path, or - for stdin."""

    source: str
    provider: str
    profile: str
    model: str | None
    endpoint: str
    deadline: timedelta
    key: str | None
    tenant: str
    labels: dict[str, str]
    policy: JobPolicy

    @classmethod
    def parse(
        cls,
        source: str,
        *,
        provider: str,
        profile: str,
        model: str | None,
        endpoint: str | None,
        deadline: str,
        key: str | None,
        tenant: str,
        labels: Sequence[str] | None,
        policy: Sequence[str] | None,
        **policy_options: Any,
    ) -> "JobOptions":
        """Raises UsageError that names the option."""
        wanted = endpoint or DEFAULT_ENDPOINT
        known = endpoints_of(provider)
        if wanted not in known:
            raise UsageError(f"--endpoint {wanted}: not known for {provider}", hint=f"use one of {', '.join(known)}")
        return cls(
            source=source,
            provider=provider,
            profile=profile,
            model=model,
            endpoint=wanted,
            deadline=positive_duration("--deadline", deadline),
            key=None if key is None else _checked(check_key, key),
            tenant=_checked(check_tenant, tenant),
            labels=pairs("--label", labels or ()),
            policy=job_policy(policy or (), policy_options),
        )


def _checked(check: Any, text: str) -> str:
    try:
        return str(check(text))
    except ValueError as error:
        raise UsageError(str(error)) from error


def positive_duration(option: str, text: str, *, zero: bool = False) -> timedelta:
    """`zero` allows 0s."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if value <= timedelta(0) and not zero:
        raise UsageError(f"{option} {text}: must be more than nothing", hint="write 90s, 30m, 6h or 1d")
    if value > LONGEST:
        raise UsageError(f"{option} {text}: {TOO_LONG}")
    return value


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`k=v` texts as a dict; a repeated key is an error, not a silent override."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text!r}: write name=value")
        if name in found:
            raise UsageError(f"{option} {name} is given twice")
        found[name] = value
    return found


def job_policy(assignments: Sequence[str], options: dict[str, Any]) -> JobPolicy:
    fields = pairs("--policy", assignments)
    unknown = sorted(set(fields) - set(JobPolicy.model_fields))
    if unknown:
        raise UsageError(
            f"--policy {unknown[0]}: there is no such field", hint=f"known: {', '.join(JobPolicy.model_fields)}"
        )
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return JobPolicy.model_validate(fields | given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        option = _OPTION_OF_FIELD.get(name, f"--policy {name}")
        raise UsageError(f"{option} {first['input']}: {first['msg'].removeprefix('Value error, ')}") from error


def split_key(tenant: str, key: str) -> tuple[str, str]:
    """KEY may be written tenant/key, or job/tenant/key as in the Web UI."""
    parts = key.removeprefix("job/").split("/")
    if len(parts) == 2:
        tenant, key = parts
    return _checked(check_tenant, tenant), _checked(check_key, key)
