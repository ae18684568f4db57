"""Secrets that this process knows, kept out of what it writes: no error and no line of a log tells one.

Whoever reads a secret says so (`know`). Every error of ours passes its text through `redacted`, and so does
whatever else leaves the process: logs, replies of servers that repeat what was sent.
"""

import re
from collections.abc import Iterator

HIDDEN = "[hidden]"
SHORTEST = 8
"""Characters of what is looked for. Keys are longer; shorter words are in ordinary texts."""

_PARTS = re.compile(r"""[^\x21-\x7e]+|['"\\]""")
"""Between what looks the same however a text is quoted: b'Bearer sk-...\\n', JSON, several lines."""
_HEADER_VALUE = re.compile(r"""(header value:? ?)b?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.IGNORECASE | re.DOTALL)
"""How HTTP libraries refuse a header that cannot be sent: with all that stands in it."""
_CREDENTIALS = re.compile(r"\b(bearer|basic)( +)[A-Za-z0-9._~+/=-]{20,}", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"//[^/@\s]*:([^/@\s]*)@")

_known: set[str] = set()
_pattern: "re.Pattern[str] | None" = None


def know(*secrets: str | None) -> None:
    """Let none of these be told from now on. Texts around a secret (a line end, quotes) do not matter."""
    global _pattern  # noqa: PLW0603 - what is known grows with what is read, anywhere in the process
    parts = {part for secret in secrets if secret for part in _PARTS.split(secret) if len(part) >= SHORTEST}
    if parts <= _known:
        return
    _known.update(parts)
    # The longest first: one secret may begin with another.
    _pattern = re.compile("|".join(re.escape(each) for each in sorted(_known, key=lambda part: (-len(part), part))))


def know_address(url: str | None) -> str | None:
    """The address without blanks and line ends around it; a password in it is a secret."""
    know(*_IN_ADDRESS.findall(url or ""))
    return url.strip() if url else url


def redacted(text: str) -> str:
    """The text without secrets that are known, and without what follows the words that usually introduce one."""
    text = _HEADER_VALUE.sub(rf"\1{HIDDEN}", text)
    text = _CREDENTIALS.sub(rf"\1\2{HIDDEN}", text)
    return _pattern.sub(HIDDEN, text) if _pattern is not None else text


def tells_a_secret(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, has a secret in its text: a traceback would show it."""
    return any(redacted(text) != text for each in _chain(error) for text in _texts(each))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions


def _texts(error: BaseException) -> list[str]:
    return [str(error), *getattr(error, "__notes__", ())]
