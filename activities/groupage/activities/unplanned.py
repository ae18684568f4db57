"""Requests that no batch may hold, and those that are too few for one: each has its outcome at once.

They lie in a shard without a plan, whose number follows the last planned one.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from groupage.activities.inputs import count_inputs
from groupage.activities.splitting import ShardLimits
from groupage.activities.threads import check
from groupage.schemas import ErrorClass, Outcome, ProviderLimits, Route
from groupage.schemas.activity_calls import PlanRound
from groupage.store.objects import Store
from groupage.store.results import ResultLine
from groupage.store.segments import SegmentReader
from groupage.store.shard_results import ShardResultWriter

Routes = npt.NDArray[np.uint8]
"""One byte a request of the job: what this round does with it."""

NOT_PLANNED, BATCH, SYNC, TOO_LARGE, TOO_MANY_INPUTS, TOO_FEW = range(6)


@dataclass(frozen=True, slots=True)
class Group:
    """One (endpoint, model) of the job and what its provider allows."""

    endpoint: str
    model: str
    limits: ProviderLimits
    shard: ShardLimits
    overhead: int
    """Bytes that rendering adds to a body at most, the newline included."""


def refuse_unplanned(
    store: Store,
    reader: SegmentReader,
    call: PlanRound,
    routes: Routes,
    groups: list[Group],
    *,
    shard: int,
    directory: Path,
    stop: threading.Event,
) -> None:
    """An outcome with line number and reason for each line that no batch may hold (IV-18), or that is one of
    too few for a batch and may not go by sync (IV-21); in the shard of that number.
    """
    refused = np.flatnonzero(routes >= TOO_LARGE).astype(np.uint32)
    if not len(refused):
        return
    # The moment of acceptance, so that planning again writes the same bytes.
    at = datetime.fromisoformat(reader.manifest.accepted_at)
    with ShardResultWriter(store, call.job.tenant, call.job.key, call.round, shard, directory=directory) as writer:
        for number, indices in _by_segment(reader, refused):
            check(stop)
            offsets = indices.astype(np.int64) - reader.starts[number]
            rows = reader.rows(number)[offsets]
            for index, offset, row in zip(indices.tolist(), offsets, rows, strict=True):
                group = groups[int(row["group"])]
                if routes[index] == TOO_FEW:
                    why = _too_few(call.job.provider, group)
                elif routes[index] == TOO_MANY_INPUTS:
                    inputs = count_inputs(reader, number, np.array([offset]))
                    why = _too_many_inputs(int(row["line"]), int(inputs[0]), group)
                else:
                    why = _too_large(row, group)
                error_class, code, message = why
                writer.add(
                    ResultLine(
                        index,
                        Outcome.failed,
                        call.job.provider,
                        Route.batch,
                        call.round,
                        at,
                        error_class=error_class,
                        code=code,
                        message=message,
                        model=group.model,
                    )
                )
        writer.close()


Why = tuple[ErrorClass, str, str]
"""(class, code, message)."""


def _too_large(row: np.void, group: Group) -> Why:
    rendered = int(row["size"]) - 2 - int(row["body_at"]) + group.overhead
    limit = min(group.limits.max_line_bytes, group.limits.max_bytes)
    why = f"the provider takes {limit} a line" if rendered > limit else "refused as too large for a batch of its own"
    return ErrorClass.too_large, "line_too_large", f"input line {int(row['line'])}: {rendered} bytes as sent, {why}"


def _too_many_inputs(line: int, inputs: int, group: Group) -> Why:
    message = f"input line {line}: {inputs} inputs, the provider takes {group.limits.max_inputs} a batch"
    return ErrorClass.too_large, "too_many_inputs", f"{message}: make several requests of it"


def _too_few(provider: str, group: Group) -> Why:
    """Nothing is wrong with the request: with others left over as well it may find its batch in a later round."""
    message = (
        f"{provider} takes no batch of fewer than {group.limits.min_requests} requests, "
        "too few are left, and the policy says never to send by sync (escalate)"
    )
    return ErrorClass.not_sent, "below_minimum", message


def _by_segment(reader: SegmentReader, indices: npt.NDArray[np.uint32]) -> Iterator[tuple[int, npt.NDArray[np.uint32]]]:
    """(segment, those of the sorted indices that lie in it)."""
    at = 0
    while at < len(indices):
        number = reader.segment_of(int(indices[at]))
        end = int(np.searchsorted(indices, reader.starts[number + 1]))
        yield number, indices[at:end]
        at = end
