"""Every error that Groupage raises on purpose, who sees it, and whether it is retried.

::

    GroupageError
    ├── UsageError            bad argument or setting            caller; never retried
    │   ├── InputRefused      lines of the input are wrong       caller; carries the report
    │   ├── KeyConflict       same key, other content            caller
    │   └── UnknownJob        no such job                        caller
    ├── StaleResult           older than the reader's max_age    reader
    ├── JobFailed             the job ended failed or cancelled  reader
    ├── StoreError            object store unreachable, object damaged   activity retries
    └── ProviderError         what a provider said, classified by us; `error_class` decides
        └── AmbiguousCreate   may have been accepted: look before anything else; activity retries

`exit_code` is what the command `groupage` exits with. No error's text tells a secret (secrets.py).
"""

from collections.abc import Sequence

from groupage.schemas.secrets import redacted
from groupage.schemas.states import ErrorClass

PROBLEMS_IN_TEXT = 3


class GroupageError(Exception):
    """Base of all. `hint` says what to do next; a traceback shows it, too."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(redacted(message))
        self.hint = redacted(hint)
        if hint:
            self.add_note(f"→ {self.hint}")


class UsageError(GroupageError):
    exit_code = 2


class InputRefused(UsageError):
    """The input holds lines that cannot be sent. `problems` are "line N: ..." texts, first ones only.

    Its text is `headline` and the first few of them.
    """

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), total: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.headline = message
        self.problems = problems
        self.total = total or len(problems)

    def __str__(self) -> str:
        shown = self.problems[:PROBLEMS_IN_TEXT]
        more = self.total - len(shown)
        lines = [self.headline, *shown, *([f"… and {more:,} more"] if shown and more else ())]
        return "\n  ".join(lines)


class KeyConflict(UsageError):
    """A job with this key was accepted with other content: its answers are not answers to this input."""


class UnknownJob(UsageError):
    pass


class StaleResult(GroupageError):
    """A result is older than the reader's max_age."""


class JobFailed(GroupageError):
    exit_code = 4


class StoreError(GroupageError):
    pass


class ProviderError(GroupageError):
    """What a provider said. `error_class` is ours, `code` and `status` are the provider's.

    `retry_after_s` is the server's own wish in seconds, if it had one. `lines` are the lines of a batch's input, from
    1, to which alone the error is due.
    """

    def __init__(
        self,
        message: str,
        *,
        error_class: ErrorClass,
        code: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
        hint: str = "",
        lines: Sequence[int] = (),
    ) -> None:
        super().__init__(_encodable(message), hint=hint)
        self.error_class = error_class
        self.lines = lines
        self.code = _encodable(code)
        self.status = status
        self.retry_after_s = retry_after_s


def _encodable(text: str) -> str:
    """With "?" for half a surrogate pair: servers quote what was cut, and Temporal refuses a failure with one."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class AmbiguousCreate(ProviderError):
    """The create call ended without a clear answer: the batch may exist and be billed."""
