"""Whose a result line is that has no id but repeats its request: the request itself tells, never its place.

Identical requests are interchangeable: of several, each takes one of the lines, and no line is used twice. Requests
that a server might write alike (0 and nothing, say) are told apart only if as many lines repeat each as there are
requests of that kind: else a line may be of either. A line whose request is like none of the shard's, or may be of
two different ones, belongs to nobody that can be named: it goes to the quarantine.

Memory: some 400 bytes a request and 44 a line, and only if there are such lines.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from groupage.activities.providers.base import Answer, Echo
from groupage.schemas import ErrorClass

ALIKE = "like_several_requests"
"""Why a line is nobody's, and the code of the requests that it may be of."""

_NONE = 2**32 - 1
_DIGEST = 16
_OFFSET_BITS = 46
_FILES_MAX = (1 << 16) - 1
_RANK_AT = _OFFSET_BITS + 16


class Later:
    """Lines to be read a second time, 44 bytes each; iterated with the answered ones first."""

    def __init__(self) -> None:
        self._places = array("Q")
        self._numbers = array("I")
        self._digests = bytearray()

    def add(self, answer: Answer, file: int, offset: int, number: int) -> None:
        assert answer.echo is not None
        self._digests += answer.echo.exact + answer.echo.loose
        rank = 0 if answer.error_class is None else 1 if answer.error_class is not ErrorClass.unreadable else 2
        self._places.append(rank << _RANK_AT | file << _OFFSET_BITS | offset)
        self._numbers.append(number)

    def echoes(self) -> Iterator[Echo]:
        for at in range(0, len(self._digests), 2 * _DIGEST):
            middle = at + _DIGEST
            yield Echo(bytes(self._digests[at:middle]), bytes(self._digests[middle : middle + _DIGEST]))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(file, offset, number of the line)."""
        for at in sorted(range(len(self._places)), key=self._places.__getitem__):
            place = self._places[at]
            yield place >> _OFFSET_BITS & _FILES_MAX, place & (1 << _OFFSET_BITS) - 1, self._numbers[at]


class Echoes:
    """A shard's requests by what a line repeats of them."""

    def __init__(self, requests: Iterable[tuple[int, Echo]], waiting: Collection[int], lines: Iterable[Echo]) -> None:
        """`requests` are (index, echo), all of the shard; only those that are `waiting` for a line can be taken.

        `lines` are all that will ask for one.
        """
        free = set(waiting)
        self._last: dict[bytes, int] = {}
        self._kinds: dict[bytes, bytes | set[bytes]] = {}
        """Loose digest to the exact one, or to all exact ones that share it."""
        self._index = array("I")
        self._before = array("I")
        for index, echo in requests:
            last = self._last.setdefault(echo.exact, _NONE)
            if index in free:
                self._last[echo.exact] = len(self._index)
                self._index.append(index)
                self._before.append(last)
            known = self._kinds.setdefault(echo.loose, echo.exact)
            if isinstance(known, set):
                known.add(echo.exact)
            elif known != echo.exact:
                self._kinds[echo.loose] = {known, echo.exact}
        self._told: frozenset[bytes] = frozenset()
        self._doubtful = self._doubts(lines)

    def untold(self) -> Iterator[int]:
        """The requests that wait for a line, and for which lines came that may as well be of others."""
        for loose in self._doubtful & self._told:
            kinds = self._kinds[loose]
            assert isinstance(kinds, set)
            for exact in kinds:
                place = self._last[exact]
                while place != _NONE:
                    yield self._index[place]
                    place = self._before[place]

    def _doubts(self, lines: Iterable[Echo]) -> set[bytes]:
        """Loose digests of several kinds of requests whose lines are not as many of each kind as there are requests."""
        several = {loose: kinds for loose, kinds in self._kinds.items() if isinstance(kinds, set)}
        told = Counter(echo for echo in lines if echo.loose in several) if several else Counter()
        self._told = frozenset(echo.loose for echo in told)
        doubts = {echo.loose for echo in told if echo.exact not in several[echo.loose]}
        for loose, kinds in several.items():
            if any(told[Echo(exact, loose)] != self._waiting(exact) for exact in kinds):
                doubts.add(loose)
        return doubts

    def _waiting(self, exact: bytes) -> int:
        count, place = 0, self._last[exact]
        while place != _NONE:
            count, place = count + 1, self._before[place]
        return count

    def take(self, echo: Echo | None) -> tuple[int | None, str]:
        """(a request that is waiting, ""), or (None, why there is none); it waits no longer."""
        kinds = None if echo is None else self._kinds.get(echo.loose)
        if echo is None or kinds is None:
            return None, "like_no_request"
        if echo.loose in self._doubtful:
            return None, ALIKE
        exact = kinds if isinstance(kinds, bytes) else echo.exact
        place = self._last[exact]
        if place == _NONE:
            return None, "like_an_answered_request"
        self._last[exact] = self._before[place]
        return self._index[place], ""
