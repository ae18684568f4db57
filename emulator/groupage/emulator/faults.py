"""The fault plan: what goes wrong, for which requests, calls and batches. Docs: docs/emulator.md.

A rule has conditions (all must hold), an effect, and `times`. Request rules count `times` for each
question by itself, across batches and sync calls; call and batch rules count it in all.
"""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from groupage.schemas import parse_duration, read_duration
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

CallName = Literal[
    "files.create",
    "files.retrieve",
    "files.list",
    "files.content",
    "files.delete",
    "batches.create",
    "batches.retrieve",
    "batches.list",
    "batches.cancel",
    "uploads.create",
    "uploads.part",
    "uploads.complete",
    "uploads.cancel",
    "sync",
    "identity.token",
]


_Seconds = Annotated[timedelta, BeforeValidator(read_duration)]
"""Of a field that is called `seconds`: a bare number is plain there."""


class BadPlan(ValueError):
    """The fault plan cannot be used; the message names each wrong place."""


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    share: float | None = Field(None, ge=0, le=1)
    every: int | None = Field(None, ge=1)
    times: int | None = Field(None, ge=1)

    @property
    def fingerprint(self) -> str:
        """Stays the same while the rule does: what its counters are stored under."""
        text = orjson.dumps(self.model_dump(), default=_plain, option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(text, digest_size=6).hexdigest()


def _plain(value: Any) -> Any:
    # A set's order differs from process to process; the server and its worker must agree.
    return sorted(value) if isinstance(value, frozenset) else value.total_seconds()


RequestKind = Literal[
    "http",
    "credit",
    "status_zero",
    "missing",
    "duplicate",
    "unknown_id",
    "odd_json",
    "truncated",
    "refused",
    "empty_body",
    "invalid_utf8",
    "malformed",
    "not_an_object",
    "expired",
]
SYNC_KINDS = frozenset({"http", "credit", "truncated", "refused", "empty_body", "odd_json"})
"""What can befall a sync answer; the other kinds are about lines of a result file."""


class RequestRule(_Rule):
    """One way in which single requests go wrong.

    share   of all questions, chosen by a stable hash of the question
    every   each nth line of a batch, each nth sync call
    lines   these lines of each batch, from 1 (never sync calls)
    match   requests whose JSON text holds this
    """

    kind: RequestKind
    lines: frozenset[int] | None = None
    match: str | None = Field(None, min_length=1)
    routes: frozenset[Literal["batch", "sync"]] = frozenset({"batch", "sync"})
    status: int = Field(500, ge=100, le=599)
    code: str | None = None
    message: str | None = None
    retry_after: float | None = Field(None, ge=0)
    billed: bool | None = None
    """None: answers are billed even if their line is damaged; errors and missing lines are not."""

    @model_validator(mode="after")
    def _selects(self) -> "RequestRule":
        if self.share is None and self.every is None and self.lines is None and self.match is None:
            raise ValueError("say which requests: share, every, lines or match")
        return self


Action = Literal[
    "drop_before",
    "drop_after",
    "error",
    "error_after",
    "html",
    "cut",
    "cut_clean",
    "slow",
    "late",
    "trickle",
    "lag",
    "content_type",
]


class CallRule(_Rule):
    """One way in which HTTP calls go wrong.

    drop_before   the connection is reset, nothing was done
    drop_after    it was done, the reply is lost: the connection is reset
    error         `status` instead of doing it (429 and 503 with `retry_after` if set)
    error_after   `status` although it was done
    html          200 and a gateway's HTML page, nothing was done
    cut           the body stops at the share `at` of its length, the connection is reset
    cut_clean     the same without Content-Length and with a clean end: at a line's end, or not (`line_end`)
    slow          the reply starts `seconds` (virtual) later: at once where the clock is moved on so far meanwhile
    late          it is done, and the reply comes, `seconds` (virtual) later likewise, even if the caller has gone
    trickle       the body comes in pieces, the last one `seconds` (virtual) after the first
    lag           what this call creates is invisible to retrieve, list and content for `seconds` (virtual)
    content_type  the reply is declared as `content_type`
    """

    call: CallName
    action: Action
    nth: frozenset[int] | None = None
    status: int = Field(500, ge=100, le=599)
    code: str | None = None
    message: str | None = None
    retry_after: float | None = Field(None, ge=0)
    seconds: _Seconds = Field(default_factory=lambda: parse_duration("5s"))
    at: float = Field(0.6, ge=0, le=1)
    line_end: bool = True
    content_type: str = "text/plain; charset=ISO-8859-1"

    @model_validator(mode="after")
    def _fits(self) -> "CallRule":
        if self.action == "lag" and self.call not in ("files.create", "batches.create"):
            raise ValueError("lag is for files.create and batches.create")
        return self


Effect = Literal[
    "token_limit",
    "fail",
    "refuse",
    "expire",
    "stall",
    "never_expires",
    "slow_cancel",
    "cancel_loses",
    "late_output",
    "counts",
    "status_word",
    "only_errors",
    "turnaround",
    "queue",
    "unlabelled",
    "rewritten",
    "request_only",
    "parts",
]


class BatchRule(_Rule):
    """One way in which whole batches go wrong; decided when a batch is created and then fixed.

    token_limit    ends as failed with token_limit_exceeded
    fail           ends as failed with `code` and `message`
    refuse         ends as failed with `code` and `message` if lines of its input hold `match`; they are `named` or not
    expire         expires when the share `at` of its requests is done
    stall          stops at the share `at`, for `seconds` or (no seconds) for ever
    never_expires  the 24 h window is not enforced
    slow_cancel    cancelling lasts `seconds`, or (no seconds) for ever
    cancel_loses   after cancel, the share `at` of the finished requests is in no file
    late_output    completed, but output_file_id stays null for `seconds`
    counts         request_counts are `null`, `zero`, or count failed lines as completed (`optimistic`); at Vertex
                   they may be -1 (`unknown`)
    status_word    the status `during` is called `word` (null: JSON null)
    only_errors    every request fails with `status`; completed with an error file alone
    turnaround     takes `seconds`
    queue          waits `seconds` before it begins to run

    At Vertex alone:

    unlabelled     the share `at` of the rows repeats its request without labels
    rewritten      rows repeat their request as the server would write it: other order, 1.0 for 1, no defaults
    request_only   requests that did not run have a row with nothing but the request
    parts          the rows lie in so many `files`
    """

    effect: Effect
    nth: frozenset[int] | None = None
    tag: str | None = None
    """Only batches with this text in a metadata value."""
    at: float = Field(0.5, ge=0, le=1)
    seconds: _Seconds | None = None
    counts: Literal["null", "zero", "optimistic", "unknown"] = "null"
    during: str = "in_progress"
    word: str | None = None
    status: int = Field(400, ge=100, le=599)
    code: str = "internal_error"
    message: str = "The batch could not be processed."
    files: int = Field(3, ge=1, le=100)
    match: str = Field("", max_length=200)
    named: bool = True

    @model_validator(mode="after")
    def _fits(self) -> "BatchRule":
        if self.effect in ("late_output", "turnaround", "queue") and self.seconds is None:
            raise ValueError(f"{self.effect} needs seconds")
        if self.effect == "refuse" and not self.match:
            raise ValueError("refuse needs match")
        return self


class FaultPlan(BaseModel):
    """Rules are tried in order; for a request the first that fits wins, for calls too, for batches all apply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 1
    requests: list[RequestRule] = Field(default_factory=list)
    calls: list[CallRule] = Field(default_factory=list)
    batches: list[BatchRule] = Field(default_factory=list)


def read_plan(data: Any, source: str = "fault plan") -> FaultPlan:
    """From parsed JSON. Raises BadPlan with one line per mistake."""
    try:
        return FaultPlan.model_validate(data)
    except ValidationError as error:
        lines = []
        for one in error.errors():
            where = ".".join(str(part) for part in one["loc"]) or "the plan"
            lines.append(f"{where}: {one['msg']}")
        raise BadPlan(f"{source}: " + "; ".join(lines)) from error


def load_plan(path: Path) -> FaultPlan:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadPlan(f"{path}: {error}") from error
    return read_plan(data, str(path))


NO_FAULTS = FaultPlan()


def chosen(share: float, seed: int, salt: str, number: int) -> bool:
    """Whether a thing with this 64-bit number falls into the share: a stable choice, the same everywhere."""
    return _mix(number ^ seed_of(seed, salt)) < int(share * 2**64)


def seed_of(seed: int, salt: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{salt}".encode(), digest_size=8).digest(), "big")


def _mix(value: int) -> int:
    """splitmix64's finaliser; `work.py` does the same with numpy for whole batches."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)
