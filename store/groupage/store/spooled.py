"""Validated input on the local disk: what intake leaves and acceptance takes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import zstandard
from groupage.schemas import Rejected, RequestGroup, SegmentInfo
from groupage.store.lines import read_chunks
from groupage.store.rows import REQUEST_ROW, Rows
from groupage.store.segments import parse_rejected


@dataclass(slots=True)
class SpooledInput:
    """Validated input on the local disk, ready for `accept_job`. The caller deletes `directory`."""

    directory: Path
    provider: str
    fingerprint: str = ""
    """sha256 over the canonical content and the provider; white space and segment sizes play no part."""
    requests: int = 0
    """Input lines that are not blank, the rejected ones included."""
    rejected: int = 0
    groups: list[RequestGroup] = field(default_factory=list)
    segments: list[SegmentInfo] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """The first PROBLEMS_SHOWN rejected lines, each "line N: ..."."""

    @property
    def tokens(self) -> int:
        return sum(group.tokens for group in self.groups)

    @property
    def max_output_tokens(self) -> int:
        return sum(group.max_output_tokens for group in self.groups)

    @property
    def rejected_path(self) -> Path:
        return self.directory / "rejected.jsonl.zst"

    def data_path(self, segment: int) -> Path:
        return self.directory / f"{segment:05d}.jsonl.zst"

    def index_path(self, segment: int) -> Path:
        return self.directory / f"{segment:05d}.idx"

    def rows(self, segment: int) -> Rows:
        return np.fromfile(self.index_path(segment), dtype=REQUEST_ROW)

    def lines(self, segment: int) -> bytes:
        return zstandard.ZstdDecompressor().decompress(self.data_path(segment).read_bytes())

    def rejected_lines(self) -> Iterator[Rejected]:
        if self.rejected:
            with self.rejected_path.open("rb") as file:
                yield from parse_rejected(read_chunks(file), self.rejected_path.name)


class Group:
    """Sums of one (endpoint, model)."""

    __slots__ = ("bytes", "endpoint", "max_output", "middle", "model", "number", "requests", "tokens")

    def __init__(self, number: int, endpoint: str, model: str, middle: bytes) -> None:
        """`middle` is what stands between id and labels in a canonical line."""
        self.number = number
        self.endpoint = endpoint
        self.model = model
        self.middle = middle
        self.requests = self.bytes = self.tokens = self.max_output = 0
