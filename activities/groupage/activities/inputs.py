"""How many inputs requests for embeddings hold: what some providers limit beside the requests of a batch.

Counted where shards are cut, from the bodies as accepted: nothing of it is in the index, so jobs of any age have it,
and intake does nothing for it. One segment is in memory at a time.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from groupage.store.segments import SegmentReader


def inputs_of(body: Any) -> int:
    """Texts, or lists of tokens, that a body wants embedded: `"a"` and `[1, 2]` are one, `["a", "b"]` two.

    What is none of these counts as one: the provider will say what it thinks of it.
    """
    given = body.get("input") if isinstance(body, dict) else None
    return len(given) if isinstance(given, list) and given and not isinstance(given[0], int) else 1


def count_inputs(reader: SegmentReader, segment: int, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The inputs of each request at offsets in a segment."""
    return np.fromiter((_count(body) for _, body in reader.segment(segment).bodies(offsets)), np.int64, len(offsets))


def _count(body: bytes) -> int:
    try:
        return inputs_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        # Taken in by an older version: today's intake takes only what this reader reads.
        return 1
