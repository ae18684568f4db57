"""Whose a result line is that has no id but repeats its request: the request itself tells, never its place.

Identical requests are interchangeable: of several, each takes one of the lines, and no line is used twice. A line
whose request is like none of the shard's, or like two different ones, belongs to nobody that can be named: it goes
to the quarantine. Memory: some 250 bytes a request without a line, and only if there are such lines.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator

from groupage.activities.providers.base import Answer, Echo
from groupage.schemas import ErrorClass

_NONE = 2**32 - 1
_SEVERAL = b""
_OFFSET_BITS = 46
_FILES_MAX = (1 << 16) - 1
_RANK_AT = _OFFSET_BITS + 16


class Later:
    """Lines to be read a second time, 12 bytes each; iterated with the answered ones first."""

    def __init__(self) -> None:
        self._places = array("Q")
        self._numbers = array("I")

    def add(self, answer: Answer, file: int, offset: int, number: int) -> None:
        rank = 0 if answer.error_class is None else 1 if answer.error_class is not ErrorClass.unreadable else 2
        self._places.append(rank << _RANK_AT | file << _OFFSET_BITS | offset)
        self._numbers.append(number)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(file, offset, number of the line)."""
        for at in sorted(range(len(self._places)), key=self._places.__getitem__):
            place = self._places[at]
            yield place >> _OFFSET_BITS & _FILES_MAX, place & (1 << _OFFSET_BITS) - 1, self._numbers[at]


class Echoes:
    """A shard's requests by what a line repeats of them."""

    def __init__(self, requests: Iterable[tuple[int, Echo]], waiting: Collection[int]) -> None:
        """`requests` are (index, echo), all of the shard; only those that are `waiting` for a line can be taken."""
        free = set(waiting)
        self._last: dict[bytes, int] = {}
        self._exact_of: dict[bytes, bytes] = {}
        self._index = array("I")
        self._before = array("I")
        for index, echo in requests:
            last = self._last.setdefault(echo.exact, _NONE)
            if index in free:
                self._last[echo.exact] = len(self._index)
                self._index.append(index)
                self._before.append(last)
            if self._exact_of.setdefault(echo.loose, echo.exact) != echo.exact:
                self._exact_of[echo.loose] = _SEVERAL

    def take(self, echo: Echo | None) -> tuple[int | None, str]:
        """(a request that is waiting, ""), or (None, why there is none); it waits no longer."""
        if echo is None:
            return None, "no_request"
        exact = echo.exact if echo.exact in self._last else self._exact_of.get(echo.loose)
        if exact is None:
            return None, "like_no_request"
        if exact == _SEVERAL:
            return None, "like_several_requests"
        place = self._last[exact]
        if place == _NONE:
            return None, "like_an_answered_request"
        self._last[exact] = self._before[place]
        return self._index[place], ""
