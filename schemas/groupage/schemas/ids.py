"""Names that leave this process: workflow ids, submission tags, wire ids.

A wire id is what a provider sees in place of the caller's id. It is unique across all jobs,
rounds and deployments, and a stray result line that carries one alone tells whose it is::

    gk3v9q2-4f7xk2m9ab3cd-r0-s7-123
    |owner| |--- job ---| |   |  └ index of the request in its job
    |----- token --------| |  └ shard
    |-------- tag ------------┘ round = what one submission is found by

The alphabet is [a-z0-9_-] and the length at most 63: the smallest common rule of all providers
(Anthropic custom_id: 64 of [a-zA-Z0-9_-]; Vertex label: 63 of [a-z0-9_-]; docs/how-it-works.md).
"""

import base64
import hashlib
import re
from dataclasses import dataclass

OWNER_LENGTH = 6
JOB_LENGTH = 13

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,127}")
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_TAG = re.compile(r"(g[a-z2-7]{6}-[a-z2-7]{13})-r(\d{1,2})-s(\d{1,6})")
_WIRE = re.compile(r"(g[a-z2-7]{6}-[a-z2-7]{13})-r(\d{1,2})-s(\d{1,6})-(\d{1,10})")
_OWNER = re.compile(r"[a-z2-7]{6}")


@dataclass(frozen=True, slots=True)
class WireId:
    """One decoded wire id. `index` counts requests from 0 in input order."""

    token: str
    round: int
    shard: int
    index: int

    @property
    def tag(self) -> str:
        return f"{self.token}-r{self.round}-s{self.shard}"


def _base32(text: str, length: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest).decode().lower()[:length]


def owner_code(deployment_id: str) -> str:
    """The six characters by which one deployment (one store) knows its own batches and files."""
    return _base32(f"owner\x00{deployment_id}", OWNER_LENGTH)


def job_token(owner: str, tenant: str, key: str, salt: str) -> str:
    """The head of every tag of a job. `salt` is drawn once, when the job is accepted."""
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"owner code {owner!r} is not six characters of a-z2-7")
    return f"g{owner}-{_base32(chr(0).join((tenant, key, salt)), JOB_LENGTH)}"


def submission_tag(token: str, round_: int, shard: int) -> str:
    """What is searched for at the provider before anything is created there."""
    tag = f"{token}-r{round_}-s{shard}"
    if not _TAG.fullmatch(tag):
        raise ValueError(f"cannot make a tag of token {token!r}, round {round_}, shard {shard}")
    return tag


def wire_id(tag: str, index: int) -> str:
    return f"{tag}-{index}"


def decode_tag(text: str) -> tuple[str, int, int] | None:
    """(token, round, shard), or None where the text is not a tag of ours."""
    match = _TAG.fullmatch(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


def decode_wire_id(text: str) -> WireId | None:
    """The decoded id, or None: such a line is quarantined, never guessed."""
    match = _WIRE.fullmatch(text)
    if match is None:
        return None
    return WireId(match[1], int(match[2]), int(match[3]), int(match[4]))


def check_tenant(tenant: str) -> str:
    if not _TENANT.fullmatch(tenant):
        raise ValueError(f"tenant {tenant!r}: use 1 to 63 of a-z, 0-9, '.', '_', '-', starting with a letter or digit")
    return tenant


def check_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"key {key!r}: use 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':', '@', '=', '+', '-', "
            "starting with a letter or digit"
        )
    return key


def job_workflow_id(tenant: str, key: str) -> str:
    return f"job/{check_tenant(tenant)}/{check_key(key)}"


def parse_job_workflow_id(workflow_id: str) -> tuple[str, str] | None:
    """(tenant, key) of a BatchJob's workflow id, or None."""
    parts = workflow_id.split("/")
    if len(parts) != 3 or parts[0] != "job" or not _TENANT.fullmatch(parts[1]) or not _KEY.fullmatch(parts[2]):
        return None
    return parts[1], parts[2]


def shard_workflow_id(tenant: str, key: str, round_: int, shard: int) -> str:
    """`job/search/labels-2026-11-29/r0-s007`: reads well in the Web UI's list of children."""
    return f"{job_workflow_id(tenant, key)}/r{round_}-s{shard:03d}"
