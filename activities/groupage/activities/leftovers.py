"""What a round left: the requests that have no answer after it, and why.

A batch may settle after the round that follows was planned: so what earlier rounds have answered is asked for
anew whenever a round is planned, and when one that was planned by an earlier run of the job is taken up again.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from groupage.activities.matching import ALIKE
from groupage.activities.refusals import read_refusal
from groupage.schemas import ErrorClass, JobRef
from groupage.schemas.errors import StoreError
from groupage.schemas.states import UNEXPLAINED
from groupage.store.objects import Store
from groupage.store.rows import ANSWERED_MAX, ERROR_CLASS_CODE, ERROR_CLASSES, Indices
from groupage.store.shard_results import read_shard_rows
from groupage.store.shards import read_members, read_round_plan
from groupage.store.sync_parts import read_flushed

Classes = npt.NDArray[np.uint8]
"""Positions in rows.ERROR_CLASSES."""
Flags = npt.NDArray[np.bool_]

_UNEXPLAINED: Flags = np.array([c in UNEXPLAINED for c in ERROR_CLASSES])
"""By position in rows.ERROR_CLASSES."""


def left_by_round(store: Store, job: JobRef, round_: int) -> Iterator[tuple[Indices, Classes, Flags]]:
    """(indices, error classes, which are `matching.ALIKE`) of the unanswered requests of a round, shard by shard.

    The requests that planning itself gave up on are in the shard after the last planned one. Raises
    StoreError where the round was never planned.
    """
    plan = read_round_plan(store, job.tenant, job.key, round_)
    if plan is None:
        raise StoreError(f"round {round_} of job {job.key!r} has no plan in the store")
    planned = plan.batch_shards + plan.sync_shards
    for shard in range(planned + 1):
        table = read_shard_rows(store, job.tenant, job.key, round_, shard)
        if table is not None:
            rows = table.rows[table.rows["outcome"] > ANSWERED_MAX]
            alike = rows["code"] == table.codes.index(ALIKE) if ALIKE in table.codes else np.zeros(len(rows), np.bool_)
            yield rows["index"], rows["error_class"], alike
        elif shard < planned:
            members, classes = _without_results(store, job, round_, shard)
            yield members, classes, np.zeros(len(members), np.bool_)


def ended_before(store: Store, job: JobRef, round_: int) -> Iterator[tuple[Indices, Indices]]:
    """(indices that have an answer, those that ended UNEXPLAINED) of the rounds before this one, shard by shard."""
    nothing = np.empty(0, np.uint32)
    for earlier in range(round_):
        plan = read_round_plan(store, job.tenant, job.key, earlier)
        for shard in range(plan.batch_shards + plan.sync_shards if plan is not None else 0):
            table = read_shard_rows(store, job.tenant, job.key, earlier, shard)
            if table is not None:
                rows = table.rows
                answered = rows["outcome"] <= ANSWERED_MAX
                yield rows["index"][answered], rows["index"][~answered & _UNEXPLAINED[rows["error_class"]]]
            else:
                yield read_flushed(store, job.tenant, job.key, earlier, shard).answered, nothing


def answered_before(store: Store, job: JobRef, round_: int) -> Iterator[Indices]:
    """Indices that the rounds before this one have an answer of, shard by shard."""
    return (answered for answered, _ in ended_before(store, job, round_))


def _without_results(store: Store, job: JobRef, round_: int, shard: int) -> tuple[Indices, Classes]:
    """The members of a shard that was refused, never started, or not settled yet.

    A sync shard may have flushed answers all the same: those are never sent again (promise 3).
    """
    at = (job.tenant, job.key, round_, shard)
    refused = read_refusal(store, job, round_, shard)
    # What is wrong with a file is wrong with a line of it, and nobody knows with which: none is at fault yet. The less
    # where nobody knows what is wrong.
    at_fault = refused is not None and refused.error_class not in {ErrorClass.invalid, ErrorClass.unknown}
    error_class = refused.error_class if refused is not None and at_fault else ErrorClass.not_sent
    members = np.setdiff1d(read_members(store, *at), read_flushed(store, *at).answered)
    return members, np.full(len(members), ERROR_CLASS_CODE[error_class], np.uint8)
