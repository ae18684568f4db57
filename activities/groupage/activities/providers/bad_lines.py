"""The lines that a provider names when it refuses a whole batch for them, in a form that fits through Temporal."""

import re
from collections.abc import Iterable

from groupage.schemas import BadLines

GROUPS_MAX = 8
LINES_MAX = 1000
"""What is named beyond these is named again in the next round, when the first ones are gone."""
TEXT_MAX = 200

OF_ALL_LINES = frozenset(
    {
        "duplicate_custom_id",
        "empty_batch",
        "empty_file",
        "input_modified",
        "input_no_permissions",
        "invalid_method",
        "invalid_url",
        "mismatched_model",
        "missing_custom_id",
        "model_mismatch",
        "model_not_found",
        "too_many_inputs",
        "too_many_requests",
        "too_many_tasks",
        "url_mismatch",
    }
)
"""Codes about what all lines of a file have in common, because we write it: the line that is named is only the first."""

_REQUEST_PATH = re.compile(r"\brequests\.(\d+)(?=[.:\s])")


def bad_lines(named: Iterable[tuple[int, str, str]]) -> list[BadLines]:
    """From (line, code, message) of each error; empty where the lines do not tell which requests are at fault."""
    groups: dict[tuple[str, str], list[int]] = {}
    count = 0
    for line, code, message in named:
        if line < 1 or code in OF_ALL_LINES:
            return []
        key = (code[:TEXT_MAX], message[:TEXT_MAX])
        if count < LINES_MAX and (key in groups or len(groups) < GROUPS_MAX):
            groups.setdefault(key, []).append(line)
            count += 1
    return [BadLines(lines=lines, code=code, message=message) for (code, message), lines in groups.items()]


def request_paths(message: str) -> list[int]:
    """Lines that a text names as `requests.3.params.max_tokens: ...`, which counts from 0."""
    return sorted({int(number) + 1 for number in _REQUEST_PATH.findall(message)})
