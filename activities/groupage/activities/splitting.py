"""Cutting a stream of requests into shards: pure, greedy, in input order.

Rows come in chunks (one segment of the job at a time), so memory holds two shards' rows a group,
whatever the size of the job. The same rows and limits give the same shards.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.uint32]
Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """What a shard may hold; `tokens`, `inputs` None: no limit. Bytes are those of the rendered file."""

    requests: int
    bytes: int
    tokens: int | None = None
    inputs: int | None = None
    min_requests: int = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """A shard before it has a number. The arrays have one entry a request, `index` ascending; `inputs` (inputs.py) is
    None where nobody counts them.
    """

    index: Indices
    sizes: Sizes
    tokens: Sizes
    inputs: Sizes | None = None

    @property
    def requests(self) -> int:
        return len(self.index)

    @property
    def total_bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def total_tokens(self) -> int:
        return int(self.tokens.sum())

    @property
    def total_inputs(self) -> int:
        """0 where they are not counted."""
        return 0 if self.inputs is None else int(self.inputs.sum())

    def cut(self, start: int, end: int | None = None) -> "Draft":
        return self.only(slice(start, end))

    def only(self, which: slice | npt.NDArray[np.bool_]) -> "Draft":
        inputs = None if self.inputs is None else self.inputs[which]
        return Draft(self.index[which], self.sizes[which], self.tokens[which], inputs)


def join(drafts: list[Draft]) -> Draft:
    """One of several, whose inputs are counted in all or in none."""
    counted = [draft.inputs for draft in drafts if draft.inputs is not None]
    return Draft(
        np.concatenate([draft.index for draft in drafts]),
        np.concatenate([draft.sizes for draft in drafts]),
        np.concatenate([draft.tokens for draft in drafts]),
        np.concatenate(counted) if counted else None,
    )


class Splitter:
    """Fills one shard after the other with the requests of one (endpoint, model).

    A shard exceeds a limit only if it holds a single request: one that is larger than the (lowered)
    limit by itself has to go somewhere. Requests over the provider's limit for a line must not get
    here. `canary`: the first shard holds so many requests at most.
    """

    def __init__(self, limits: ShardLimits, *, canary: int = 0) -> None:
        self._limits = limits
        self._canary = min(max(canary, limits.min_requests), limits.requests) if canary else 0
        self._open: list[Draft] = []
        self._count = self._bytes = self._tokens = self._inputs = 0
        self._held: Draft | None = None

    def add(self, rows: Draft) -> list[Draft]:
        """Take rows (indices above all earlier ones); returns the shards that are final now."""
        final: list[Draft] = []
        up_to = _Sums(rows)
        start = 0
        while start < rows.requests:
            end = self._room(start, rows.requests, up_to)
            if end == start and self._count:
                final += self._close_open()
                continue
            taken = rows.cut(start, max(end, start + 1))
            self._open.append(taken)
            self._count += taken.requests
            self._bytes += taken.total_bytes
            self._tokens += taken.total_tokens
            self._inputs += taken.total_inputs
            start += taken.requests
        return final

    def finish(self) -> list[Draft]:
        """The last shards, evened out so that the last one is not below the provider's minimum (IV-21)."""
        last = join(self._open) if self._open else None
        self._open = []
        drafts = [draft for draft in (self._held, last) if draft is not None]
        self._held = None
        if len(drafts) < 2:
            return drafts
        return _evened(drafts[0], drafts[1], self._limits)

    def _room(self, start: int, end: int, up_to: "_Sums") -> int:
        """How far from `start` the open shard can still take rows."""
        limits = self._limits
        end = min(end, start + (self._canary or limits.requests) - self._count)
        end = min(end, _fitting(up_to.bytes, start, limits.bytes - self._bytes))
        if limits.tokens is not None:
            end = min(end, _fitting(up_to.tokens, start, limits.tokens - self._tokens))
        if limits.inputs is not None and up_to.inputs is not None:
            end = min(end, _fitting(up_to.inputs, start, limits.inputs - self._inputs))
        return max(start, end)

    def _close_open(self) -> list[Draft]:
        closed = join(self._open)
        self._open = []
        self._count = self._bytes = self._tokens = self._inputs = 0
        if self._canary:
            self._canary = 0
            return [closed]
        released = [] if self._held is None else [self._held]
        self._held = closed
        return released


class _Sums:
    """Of the rows up to each one, itself included."""

    def __init__(self, rows: Draft) -> None:
        self.bytes: Sizes = np.cumsum(rows.sizes)
        self.tokens: Sizes = np.cumsum(rows.tokens)
        self.inputs: Sizes | None = None if rows.inputs is None else np.cumsum(rows.inputs)


def _fitting(up_to: Sizes, start: int, room: int) -> int:
    """Up to where the rows from `start` on fit into `room`."""
    done = int(up_to[start - 1]) if start else 0
    return int(np.searchsorted(up_to, done + room, side="right"))


def _evened(before: Draft, last: Draft, limits: ShardLimits) -> list[Draft]:
    missing = limits.min_requests - last.requests
    if missing <= 0 or before.requests - missing < limits.min_requests:
        return [before, last]
    keep = before.requests - missing
    filled = join([before.cut(keep), last])
    if (
        filled.total_bytes > limits.bytes
        or (limits.tokens is not None and filled.total_tokens > limits.tokens)
        or (limits.inputs is not None and filled.total_inputs > limits.inputs)
    ):
        return [before, last]
    return [before.cut(0, keep), filled]


def split(rows: Draft, limits: ShardLimits, *, canary: int = 0) -> list[Draft]:
    """All shards of rows that are in memory: what `Splitter` does, in one call."""
    splitter = Splitter(limits, canary=canary)
    return [*splitter.add(rows), *splitter.finish()]
