"""Planning a round: which requests go, by which route, in which shards.

Two bytes a request of memory (its route in this round, what earlier ones know of it) and two shards' rows; index rows are read a
segment at a time, so 20 million requests only take longer. The same round planned twice gives the
same objects, and a round whose plan stands is never planned anew: its shards may have been sent. What was
answered since it was planned is noted beside it (`rounds/N.answered.u32`): a shard that nothing was sent of yet
and that holds such requests is not sent, and sync shards pass them over (promise 3).

Requests that no batch may hold are not planned, nor those that are too few for one where the policy forbids the
sync API. They get their outcome at once (unplanned.py; docs/cases.md IV-18, IV-21).
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from groupage.activities.inputs import count_inputs
from groupage.activities.leftovers import answered_before, ended_before, left_by_round
from groupage.activities.providers.base import BatchProvider, traits_of
from groupage.activities.refusals import read_refusal
from groupage.activities.splitting import Draft, ShardLimits, Splitter
from groupage.activities.threads import check
from groupage.activities.unplanned import (
    BATCH,
    NOT_PLANNED,
    SYNC,
    TOO_FEW,
    TOO_LARGE,
    TOO_MANY_INPUTS,
    Group,
    Routes,
    refuse_unplanned,
)
from groupage.schemas import (
    ErrorClass,
    FailureAction,
    JobManifest,
    RoundPlan,
    Route,
    ShardPlan,
)
from groupage.schemas.activity_calls import PlanRound
from groupage.schemas.ids import submission_tag, wire_id
from groupage.schemas.requests import EMBEDDINGS
from groupage.store.objects import Store
from groupage.store.rows import ERROR_CLASS_CODE, ERROR_CLASSES, REJECTED, Rows
from groupage.store.segments import SegmentReader, read_manifest
from groupage.store.shard_results import read_shard_rows
from groupage.store.shards import (
    read_members,
    read_round_plan,
    read_shard_plan,
    write_answered,
    write_round_plan,
    write_shard,
)

CUT = frozenset({ErrorClass.too_large, ErrorClass.invalid, ErrorClass.unknown})
"""Refusals after which a shard is cut in halves."""

_ANSWERED, _UNEXPLAINED = 1, 2
"""Flags of what earlier rounds know of a request."""

SHARD_MAX = 999_999
"""Highest shard number that an id can carry (schemas.ids)."""


def plan_round(
    store: Store, provider: BatchProvider, call: PlanRound, directory: Path, stop: threading.Event
) -> RoundPlan:
    """Write the shards of a round, then its plan; return the plan. Blocks: run it in a thread.

    Raises StoreError, UnknownJob, and ValueError where a round needs more shards than ids can number.
    """
    job = call.job
    found = read_round_plan(store, job.tenant, job.key, call.round)
    if found is not None:
        _note_answered(store, call, found, stop)
        return found
    manifest = read_manifest(store, job.tenant, job.key)
    reader = SegmentReader(store, manifest)
    if call.round == 0:
        routes, left, ended_again = *_first_routes(reader, call, stop), 0
    else:
        routes, left, ended_again = _next_routes(store, manifest, call, stop)
    ceiling = NO_CEILING if call.round == 0 else _ceiling(store, call, routes)
    groups = [plan_group(provider, manifest, call, number, ceiling) for number in range(len(manifest.groups))]
    planner = _Planner(store, reader, call, routes, groups, stop=stop)
    planner.plan_batches()
    batch_shards = planner.shards
    planner.plan_sync()
    refuse_unplanned(store, reader, call, routes, groups, shard=planner.shards, directory=directory, stop=stop)
    plan = RoundPlan(
        round=call.round,
        batch_shards=batch_shards,
        sync_shards=planner.shards - batch_shards,
        requests=planner.requests,
        tokens=planner.tokens,
        given_up=left - planner.requests,
        ended_again=ended_again,
        limits_factor=call.limits_factor,
        max_requests=ceiling.requests,
        max_bytes=ceiling.bytes,
    )
    write_round_plan(store, job.tenant, job.key, plan)
    return plan


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a shard may hold after shards were refused as too large; None: nothing was."""

    requests: int | None = None
    bytes: int | None = None


NO_CEILING = Ceiling()


def plan_group(
    provider: BatchProvider, manifest: JobManifest, call: PlanRound, number: int, ceiling: Ceiling = NO_CEILING
) -> Group:
    """The provider's limits, lowered by the job's own, by `limits_factor` and by what was refused before."""
    group = manifest.groups[number]
    limits = provider.limits(group.endpoint, group.model)

    def lowered(theirs: int | None, ours: int | None) -> int | None:
        lowest = min((limit for limit in (theirs, ours) if limit is not None), default=None)
        return None if lowest is None else max(1, int(lowest * call.limits_factor))

    requests = min(lowered(limits.max_requests, call.max_shard_requests) or 1, ceiling.requests or limits.max_requests)
    size = min(lowered(limits.max_bytes, call.max_shard_bytes) or 1, ceiling.bytes or limits.max_bytes)
    shard = ShardLimits(
        requests=max(requests, limits.min_requests),
        bytes=size,
        tokens=lowered(limits.max_tokens, call.max_shard_tokens),
        inputs=lowered(limits.max_inputs, None) if group.endpoint == EMBEDDINGS else None,
        min_requests=limits.min_requests,
    )
    # The longest wire id of this round: an exact upper bound for every line, whatever its shard.
    longest = wire_id(submission_tag(call.job.token, call.round, SHARD_MAX), max(0, manifest.requests - 1))
    overhead = len(provider.render(longest, group.endpoint, b"{}")) - 2 + traits_of(provider).growth
    return Group(group.endpoint, group.model, limits, shard, overhead)


def _first_routes(reader: SegmentReader, call: PlanRound, stop: threading.Event) -> tuple[Routes, int]:
    routes = np.zeros(reader.manifest.requests, np.uint8)
    route = SYNC if call.first_route is Route.sync else BATCH
    for number, start in enumerate(reader.starts[:-1]):
        check(stop)
        accepted = reader.rows(number)["group"] != REJECTED
        routes[start : start + len(accepted)][accepted] = route
    return routes, int(np.count_nonzero(routes))


def _next_routes(
    store: Store, manifest: JobManifest, call: PlanRound, stop: threading.Event
) -> tuple[Routes, int, int]:
    """(routes, requests that have no answer, those of them that are given up for `call.once_more` alone)."""
    by_class = np.zeros(len(ERROR_CLASSES), np.uint8)
    for error_class, action in call.actions.items():
        if action is FailureAction.resubmit:
            by_class[ERROR_CLASS_CODE[error_class]] = BATCH
        elif action is FailureAction.sync:
            by_class[ERROR_CLASS_CODE[error_class]] = SYNC
    once = np.zeros(len(ERROR_CLASSES), np.bool_)
    once[[ERROR_CLASS_CODE[error_class] for error_class in call.once_more]] = True
    routes = np.zeros(manifest.requests, np.uint8)
    before = np.zeros(manifest.requests, np.uint8)
    # Asked for anew: a batch of an earlier round may have settled after the previous one was planned.
    for done, unexplained in ended_before(store, call.job, call.round - 1):
        check(stop)
        before[done] |= _ANSWERED
        before[unexplained] |= _UNEXPLAINED
    left = ended_again = 0
    for indices, classes, alike in left_by_round(store, call.job, call.round - 1):
        check(stop)
        chosen = by_class[classes]
        # In a batch together, nobody could tell their lines apart the next time, and they would be paid for nothing.
        chosen[alike & (chosen == BATCH)] = SYNC if call.escalate else NOT_PLANNED
        answered = before[indices] & _ANSWERED > 0
        again = once[classes] & (before[indices] & _UNEXPLAINED > 0) & (chosen != NOT_PLANNED) & ~answered
        chosen[again | answered] = NOT_PLANNED
        routes[indices] = chosen
        left += len(indices) - int(np.count_nonzero(answered))
        ended_again += int(np.count_nonzero(again))
    return routes, left, ended_again


def _note_answered(store: Store, call: PlanRound, plan: RoundPlan, stop: threading.Event) -> None:
    """A round that stands is taken up (again): note which of its members need not be sent any more."""
    job = call.job
    answered = np.zeros(read_manifest(store, job.tenant, job.key).requests, np.bool_)
    for indices in answered_before(store, job, call.round):
        check(stop)
        answered[indices] = True
    if not answered.any():
        return
    members = [
        read_members(store, job.tenant, job.key, call.round, shard)
        for shard in range(plan.batch_shards + plan.sync_shards)
    ]
    ours = np.sort(np.concatenate([part[answered[part]] for part in members] or [np.empty(0, np.uint32)]))
    if len(ours):
        write_answered(store, job.tenant, job.key, call.round, ours)


def _ceiling(store: Store, call: PlanRound, routes: Routes) -> Ceiling:
    """Half of the largest shard of the previous round that was refused as too large (QU-07), or for a line that
    nobody named or a reason that nobody knows, where the job found one.

    The cut starts from what was refused, not from the provider's limit: the same bytes are never sent
    again. A single request that was refused as too large cannot be cut: it is marked so in `routes`.
    """
    job = call.job
    before = read_round_plan(store, job.tenant, job.key, call.round - 1)
    if before is None:
        return NO_CEILING
    ceiling = Ceiling(before.max_requests, before.max_bytes)
    if call.limits_factor >= before.limits_factor:
        return ceiling
    refused: list[ShardPlan] = []
    for shard in range(before.batch_shards):
        at = (job.tenant, job.key, call.round - 1, shard)
        refusal = read_refusal(store, job, call.round - 1, shard)
        if refusal is None or refusal.error_class not in CUT or read_shard_rows(store, *at) is not None:
            continue
        plan = read_shard_plan(store, *at)
        refused.append(plan)
        if plan.requests == 1 and routes[plan.first_index] == BATCH:
            routes[plan.first_index] = TOO_LARGE
    if not refused:
        return ceiling
    largest = max(refused, key=lambda plan: plan.requests)
    if largest.requests == 1:
        return Ceiling(1, None)
    # One line of slack, so that halves by count are not cut again by bytes.
    size = max(plan.bytes for plan in refused) // 2 + largest.bytes // largest.requests
    return Ceiling(largest.requests // 2, size)


class _Planner:
    """Cuts and writes the shards of one round; `shards`, `requests` and `tokens` count what is written."""

    def __init__(
        self,
        store: Store,
        reader: SegmentReader,
        call: PlanRound,
        routes: Routes,
        groups: list[Group],
        *,
        stop: threading.Event,
    ) -> None:
        self._store = store
        self._reader = reader
        self._call = call
        self._routes = routes
        self._groups = groups
        self._stop = stop
        self.shards = self.requests = self.tokens = 0

    def plan_batches(self) -> None:
        """The batch shards. What the provider would refuse is marked for sync or as too large meanwhile."""
        splitters: dict[int, Splitter] = {}
        canary = self._call.canary_requests if self._call.round == 0 else 0
        for group, rows in self._rows(BATCH):
            if group not in splitters:
                # The canary is one shard of one group: the first that occurs.
                splitters[group] = Splitter(self._groups[group].shard, canary=0 if splitters else canary)
            for draft in splitters[group].add(self._that_fit(group, rows)):
                self._write_batch(group, draft)
        for group in sorted(splitters):
            for draft in splitters[group].finish():
                self._write_batch(group, draft)

    def plan_sync(self) -> None:
        limits = ShardLimits(requests=self._call.sync_shard_requests, bytes=2**62)
        splitters: dict[int, Splitter] = {}
        for group, rows in self._rows(SYNC):
            splitter = splitters.setdefault(group, Splitter(limits))
            for draft in splitter.add(rows):
                self._write(group, draft, Route.sync)
        for group in sorted(splitters):
            for draft in splitters[group].finish():
                self._write(group, draft, Route.sync)

    def _rows(self, route: int) -> Iterator[tuple[int, Draft]]:
        """(group, its rows in one segment) of the requests that take a route, in input order."""
        for number, start in enumerate(self._reader.starts[:-1]):
            check(self._stop)
            chosen = np.flatnonzero(self._routes[start : self._reader.starts[number + 1]] == route)
            if not len(chosen):
                continue
            rows = self._reader.rows(number)[chosen]
            for group in np.unique(rows["group"]).tolist():
                ours = rows["group"] == group
                # By sync each goes alone, whatever it holds.
                counted = route == BATCH and self._groups[group].shard.inputs is not None
                inputs = count_inputs(self._reader, number, chosen[ours]) if counted else None
                index = (chosen[ours] + start).astype(np.uint32)
                yield group, _draft(rows[ours], index, self._groups[group].overhead, inputs)

    def _that_fit(self, group: int, rows: Draft) -> Draft:
        """The rows that a batch may hold; the others are marked."""
        limits = self._groups[group].limits
        unfit = rows.sizes > min(limits.max_line_bytes, limits.max_bytes)
        self._routes[rows.index[unfit]] = TOO_LARGE
        if rows.inputs is not None and limits.max_inputs is not None:
            over = (rows.inputs > limits.max_inputs) & ~unfit
            self._routes[rows.index[over]] = TOO_MANY_INPUTS
            unfit |= over
        return rows.only(~unfit) if unfit.any() else rows

    def _write_batch(self, group: int, draft: Draft) -> None:
        if draft.requests < self._groups[group].shard.min_requests:
            # The provider would refuse so few (IV-21), and there are no others to put them with.
            self._routes[draft.index] = SYNC if self._call.escalate else TOO_FEW
            return
        self._write(group, draft, Route.flex if self._call.first_route is Route.flex else Route.batch)

    def _write(self, group: int, draft: Draft, route: Route) -> None:
        if self.shards >= SHARD_MAX:
            raise ValueError(f"round {self._call.round} needs more than {SHARD_MAX} shards: raise the job's own limits")
        plan = ShardPlan(
            round=self._call.round,
            shard=self.shards,
            route=route,
            endpoint=self._groups[group].endpoint,
            model=self._groups[group].model,
            requests=draft.requests,
            bytes=draft.total_bytes,
            tokens=draft.total_tokens,
            first_index=int(draft.index[0]),
            last_index=int(draft.index[-1]),
        )
        write_shard(self._store, self._call.job.tenant, self._call.job.key, plan, draft.index)
        self.shards += 1
        self.requests += draft.requests
        self.tokens += plan.tokens


def _draft(rows: Rows, index: npt.NDArray[np.uint32], overhead: int, inputs: npt.NDArray[np.int64] | None) -> Draft:
    # A canonical line ends with the body, "}" and a newline.
    sizes = rows["size"].astype(np.int64) - rows["body_at"] - 2 + overhead
    return Draft(index, sizes, rows["tokens"].astype(np.int64), inputs)
