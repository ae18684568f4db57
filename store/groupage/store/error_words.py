"""What the results without an answer say of it: distinct messages and how often each, for the summary.

Rows have an error's class and code only; the words are in the fragments. So that a job of millions of failures ends
no later for it, the first WORDS_OF are read, and DISTINCT_MAX messages are told apart.
"""

import json
import re

WORDS_OF = 100_000
DISTINCT_MAX = 200
SHOWN = 5
TEXT_MAX = 300

_FIELD = b',"error":'
_DECODER = json.JSONDecoder()
_LINE = re.compile(r"^(?:input )?line \d+: ")
_TAG = re.compile(r"\S+-r\d+-s\d+\b")
"""What is another one in each message: the line that we put before it, a submission's tag."""


class ErrorWords:
    """Adds up messages. `counts` is what it knows, to be handed to another one's `take`."""

    def __init__(self, room: int = WORDS_OF) -> None:
        self.counts: dict[str, int] = {}
        self.room = room
        """So many more results are looked at."""

    def add(self, fragment: bytes) -> None:
        """One result without an answer: its fragment (store.results), with or without the end of its line."""
        if self.room <= 0:
            return
        self.room -= 1
        # The body stands before it; without an answer there are no tool calls after it.
        at = fragment.rfind(_FIELD)
        error, _ = _DECODER.raw_decode(fragment[at + len(_FIELD) :].decode()) if at >= 0 else (None, 0)
        if not isinstance(error, dict) or not error.get("message"):
            return
        where = "/".join(part for part in (error["class"], error["code"]) if part)
        self._count(f"{where}: {_TAG.sub('the batch', _LINE.sub('', error['message']))}"[:TEXT_MAX], 1)

    def take(self, part: "ErrorWords") -> None:
        """What another one knows, which had this one's room."""
        self.room = part.room
        self.take_counts(part.counts)

    def take_counts(self, counts: dict[str, int]) -> None:
        for text, n in counts.items():
            self._count(text, n)

    def top(self) -> list[tuple[str, int]]:
        """The most frequent ones."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]

    def _count(self, text: str, n: int) -> None:
        if text in self.counts or len(self.counts) < DISTINCT_MAX:
            self.counts[text] = self.counts.get(text, 0) + n
