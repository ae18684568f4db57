"""Result lines out of request lines (id, labels) and fragments (all else), without parsing any."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from groupage.schemas import RequestGroup
from groupage.store.results import FRAGMENT_END
from groupage.store.rows import REJECTED
from groupage.store.segments import ENDPOINT_MARK, ID_AT, Segment

_BODY_MARK = b',"body":'
_LABELS_MARK = b',"labels":'

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a segment's data each line starts, its id ends, its labels start and its body's mark starts.

    Labels start where the body's mark does if there are none.
    """

    data: bytes
    begins: Int64s
    id_ends: Int64s
    labels: Int64s
    stops: Int64s

    def ids(self) -> list[bytes]:
        """The JSON of each request's id."""
        data = self.data
        begins = (self.begins + ID_AT).tolist()
        return [data[i:j] for i, j in zip(begins, self.id_ends.tolist(), strict=True)]

    def labels_json(self) -> list[bytes | None]:
        """The JSON of each request's labels, or None."""
        data = self.data
        found: list[bytes | None] = [None] * len(self.begins)
        for offset in np.flatnonzero(self.labels != self.stops).tolist():
            found[offset] = data[int(self.labels[offset]) + len(_LABELS_MARK) : int(self.stops[offset])]
        return found


def layout_of(segment: Segment, groups: list[RequestGroup]) -> Layout:
    """Find the parts of each line; by arithmetic where the segment has no labels, else by looking."""
    rows, data = segment.rows, segment.data
    stops: Int64s = segment.starts + rows["body_at"] - len(_BODY_MARK)
    if _LABELS_MARK in data:
        looked_at = np.arange(len(rows))
        id_ends = np.zeros(len(rows), dtype=np.int64)
    else:
        # An accepted line is {"id":...,"endpoint":"...","body":...}: the endpoint's length tells the id's end.
        lengths = np.array([len(group.endpoint.encode()) for group in groups] or [0], dtype=np.int64)
        group = np.minimum(rows["group"], len(lengths) - 1)
        id_ends = stops - lengths[group] - len(ENDPOINT_MARK) - 2
        looked_at = np.flatnonzero(rows["group"] == REJECTED)
    labels = stops.copy()
    for offset in looked_at.tolist():
        id_end = data.index(ENDPOINT_MARK, int(segment.starts[offset]))
        id_ends[offset] = id_end
        labels[offset] = data.index(b'"', id_end + len(ENDPOINT_MARK) + 1) + 1
    return Layout(data, segment.starts, id_ends, labels, stops)


def assemble(layout: Layout, start: int, fragments: list[bytes], tail: bytes) -> tuple[list[bytes], Int64s]:
    """Result lines from offset `start` on, as pieces to be joined, and the size of each line.

    `fragments` are without their last two bytes; `tail` is what ends a line that has no labels.
    """
    end = start + len(fragments)
    data = layout.data
    begins, id_ends = layout.begins[start:end], layout.id_ends[start:end]
    labels, stops = layout.labels[start:end], layout.stops[start:end]
    labelled = np.flatnonzero(labels != stops).tolist()
    pieces: list[bytes] = [tail] * (3 * len(fragments))
    pieces[0::3] = [data[i:j] for i, j in zip(begins.tolist(), id_ends.tolist(), strict=True)]
    pieces[1::3] = fragments
    for offset in labelled:
        own = data[int(labels[offset]) : int(stops[offset])]
        pieces[3 * offset + 2] = tail.removesuffix(FRAGMENT_END) + own + FRAGMENT_END
    sizes = (id_ends - begins) + np.fromiter(map(len, fragments), np.int64, len(fragments)) + len(tail) + stops - labels
    return pieces, sizes
