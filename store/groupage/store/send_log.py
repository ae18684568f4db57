"""Which sync calls may be with the provider: written before they are sent, for whoever comes after a kill.

A killed worker cannot tell which calls were in flight, and Temporal's heartbeats are too rare to tell it
(the SDK passes on one in 0.8 of the heartbeat timeout). So each attempt at a shard writes down what it
is about to send, a handful at a time. The next attempt compares that with what was flushed: the rest may
have been answered and billed, and will be paid again.

::

    sends/00000.json   {"indices": [0, 1, 2, 3]}            about to be sent
    sends/00001.json   {"maybe": 3, "of": ["00000.json"]}   stands for the entries that it names
"""

from collections import Counter

from groupage.schemas import Message
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import Indices
from pydantic import Field


class Sends(Message):
    """One entry. `maybe`: requests that may be paid twice, counted from the entries in `of`."""

    indices: list[int] = Field(default_factory=list)
    maybe: int = 0
    of: list[str] = Field(default_factory=list)


class SendLog:
    """The log of one sync shard, for one attempt. Opening it settles what earlier attempts left open.

    What an attempt wrote down and did not get to send counts as well: `maybe_paid_twice` is an upper
    bound, too high by one block of `add` at most for each worker that was killed.
    """

    def __init__(self, store: Store, tenant: str, key: str, round_: int, shard: int, *, flushed: Indices) -> None:
        """`flushed` are the indices with a stored result, read before this. Raises StoreError."""
        self._store = store
        self._at = (tenant, key, round_, shard)
        self._number = 0
        entries = {name: store.get_message(name, Sends) for name in sorted(store.list(keys.shard_sends(*self._at)))}
        if entries:
            self._number = _number(max(entries)) + 1
        covered = {name for entry in entries.values() for name in entry.of}
        live = {name: entry for name, entry in entries.items() if name.rpartition("/")[2] not in covered}
        sent = Counter(index for entry in live.values() for index in entry.indices)
        done = set(flushed.tolist())
        self.maybe_paid_twice = sum(entry.maybe for entry in live.values())
        """From all earlier attempts."""
        self.maybe_paid_twice += sum(n - (index in done) for index, n in sent.items())
        self._names = sorted(entries)
        if sent:
            self.settle(self.maybe_paid_twice)

    def add(self, indices: list[int]) -> None:
        """These are about to be sent; one that is sent again because its reply was lost is added again."""
        self._put(Sends(indices=indices))

    def settle(self, maybe: int) -> None:
        """Nothing is in flight: `maybe` stands for all that was written down so far."""
        before = list(self._names)
        self._put(Sends(maybe=maybe, of=[name.rpartition("/")[2] for name in before]))
        self._names = self._names[len(before) :]
        self._store.delete(before)

    def clear(self) -> None:
        """The shard is finished and its report is stored."""
        self._store.delete(self._names)
        self._names = []

    def _put(self, entry: Sends) -> None:
        # A zombie of an earlier attempt may write at the same time: both get numbers of their own.
        while not self._store.put_new_message(keys.shard_send(*self._at, self._number), entry):
            self._number += 1
        self._names.append(keys.shard_send(*self._at, self._number))
        self._number += 1


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))
