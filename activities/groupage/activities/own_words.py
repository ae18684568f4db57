"""What a server says itself in an error's text, without what it repeats of the request.

A refusal of a field quotes it: `Invalid value: '...'`, `Unknown name "..."`, `extraneous key [...]`, pydantic's
`'input': {...}`. A prompt or a schema of a bank's or a shop's may hold any word that trouble with the account is told by.
"""

import re

_QUOTED = re.compile(r"(?<!\w)(['\"`]).*?\1(?!\w)", re.DOTALL)
"""From a quotation mark that follows no word to one that no word follows: an apostrophe is neither."""
_CUT_QUOTE = re.compile(r"(?<!\w)['\"`](?=\w).*", re.DOTALL)
_BRACKETED = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_CUT_BRACKET = re.compile(r"[\[{].*", re.DOTALL)
_INPUT = re.compile(r"(?:['\"]input['\"]\s*:|\binput_value\s*=).*", re.DOTALL)
_PASSED_ON = re.compile(
    r"[^\[{]*\{\s*(?:['\"]type['\"]\s*:\s*['\"]error['\"]\s*,\s*)?['\"]error['\"]\s*:\s*"
    r"\{[^{}]*?['\"]message['\"]\s*:\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)')",
    re.DOTALL,
)
"""A gateway's text that repeats, first of all, the error object of the server behind it."""
_PASSED_ON_MAX = 3
_READ_MAX = 4000
"""Characters that are looked at: what is said of an account is short."""


def own_words(message: str) -> str:
    """In lower case. Of several quotations or brackets, what stands between two brackets counts as quoted as well."""
    message = message[:_READ_MAX]
    for _ in range(_PASSED_ON_MAX):
        found = _PASSED_ON.match(message)
        if found is None:
            break
        message = found[1] or found[2] or ""
    for quoted in (_INPUT, _BRACKETED, _CUT_BRACKET, _QUOTED, _CUT_QUOTE):
        message = quoted.sub(" ", message)
    return message.lower()
