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
    """What a shard may hold; `tokens` None: no limit. Bytes are those of the rendered file."""

    requests: int
    bytes: int
    tokens: int | None = None
    min_requests: int = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """A shard before it has a number. The three arrays have one entry a request, `index` ascending."""

    index: Indices
    sizes: Sizes
    tokens: Sizes

    @property
    def requests(self) -> int:
        return len(self.index)

    @property
    def total_bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def total_tokens(self) -> int:
        return int(self.tokens.sum())

    def cut(self, start: int, end: int | None = None) -> "Draft":
        return Draft(self.index[start:end], self.sizes[start:end], self.tokens[start:end])


def join(drafts: list[Draft]) -> Draft:
    return Draft(
        np.concatenate([draft.index for draft in drafts]),
        np.concatenate([draft.sizes for draft in drafts]),
        np.concatenate([draft.tokens for draft in drafts]),
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
        self._count = self._bytes = self._tokens = 0
        self._held: Draft | None = None

    def add(self, rows: Draft) -> list[Draft]:
        """Take rows (indices above all earlier ones); returns the shards that are final now."""
        final: list[Draft] = []
        bytes_up_to = np.cumsum(rows.sizes)
        tokens_up_to = np.cumsum(rows.tokens)
        start = 0
        while start < rows.requests:
            end = self._room(start, rows.requests, bytes_up_to, tokens_up_to)
            if end == start and self._count:
                final += self._close_open()
                continue
            taken = rows.cut(start, max(end, start + 1))
            self._open.append(taken)
            self._count += taken.requests
            self._bytes += taken.total_bytes
            self._tokens += taken.total_tokens
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

    def _room(self, start: int, end: int, bytes_up_to: Sizes, tokens_up_to: Sizes) -> int:
        """How far from `start` the open shard can still take rows."""
        most = self._canary or self._limits.requests
        end = min(end, start + most - self._count)
        done_bytes = int(bytes_up_to[start - 1]) if start else 0
        end = min(end, int(np.searchsorted(bytes_up_to, done_bytes + self._limits.bytes - self._bytes, side="right")))
        if self._limits.tokens is not None:
            done_tokens = int(tokens_up_to[start - 1]) if start else 0
            room = done_tokens + self._limits.tokens - self._tokens
            end = min(end, int(np.searchsorted(tokens_up_to, room, side="right")))
        return max(start, end)

    def _close_open(self) -> list[Draft]:
        closed = join(self._open)
        self._open = []
        self._count = self._bytes = self._tokens = 0
        if self._canary:
            self._canary = 0
            return [closed]
        released = [] if self._held is None else [self._held]
        self._held = closed
        return released


def _evened(before: Draft, last: Draft, limits: ShardLimits) -> list[Draft]:
    missing = limits.min_requests - last.requests
    if missing <= 0 or before.requests - missing < limits.min_requests:
        return [before, last]
    keep = before.requests - missing
    filled = join([before.cut(keep), last])
    if filled.total_bytes > limits.bytes or (limits.tokens is not None and filled.total_tokens > limits.tokens):
        return [before, last]
    return [before.cut(0, keep), filled]


def split(rows: Draft, limits: ShardLimits, *, canary: int = 0) -> list[Draft]:
    """All shards of rows that are in memory: what `Splitter` does, in one call."""
    splitter = Splitter(limits, canary=canary)
    return [*splitter.add(rows), *splitter.finish()]
