"""A shard's plan and its members: the sorted indices of the requests that it holds."""

import numpy as np
from groupage.schemas import RoundPlan, ShardPlan
from groupage.schemas.errors import StoreError
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.rows import Indices


def write_shard(store: Store, tenant: str, key: str, plan: ShardPlan, members: Indices) -> None:
    """Members first, then the plan: a shard with a plan is whole. Writing the same again is harmless.

    `members` are indices of requests, rising, without repeats; their number and bounds are the plan's.
    """
    packed = np.ascontiguousarray(members, dtype="<u4")
    if len(packed) != plan.requests:
        raise ValueError(f"the plan says {plan.requests} requests, the members are {len(packed)}")
    if len(packed) and not (np.diff(packed.astype(np.int64)) > 0).all():
        raise ValueError("members must rise without repeats")
    store.put(keys.shard_members(tenant, key, plan.round, plan.shard), packed.tobytes())
    store.put_message(keys.shard_plan(tenant, key, plan.round, plan.shard), plan)


def read_members(store: Store, tenant: str, key: str, round_: int, shard: int) -> Indices:
    """4 bytes a request, sorted."""
    name = keys.shard_members(tenant, key, round_, shard)
    return _indices(name, store.get(name))


def _indices(name: str, data: bytes) -> Indices:
    if len(data) % 4:
        raise StoreError(f"{name} is damaged: {len(data)} bytes")
    return np.frombuffer(data, dtype="<u4")


def read_shard_plan(store: Store, tenant: str, key: str, round_: int, shard: int) -> ShardPlan:
    return store.get_message(keys.shard_plan(tenant, key, round_, shard), ShardPlan)


def write_round_plan(store: Store, tenant: str, key: str, plan: RoundPlan) -> None:
    """Written after all shards of the round: a round with a plan is whole."""
    store.put_message(keys.round_plan(tenant, key, plan.round), plan)


def read_round_plan(store: Store, tenant: str, key: str, round_: int) -> RoundPlan | None:
    return store.get_message_or_none(keys.round_plan(tenant, key, round_), RoundPlan)


def count_rounds(store: Store, tenant: str, key: str) -> int:
    """Rounds that have a plan: they are numbered without gaps."""
    count = 0
    while store.exists(keys.round_plan(tenant, key, count)):
        count += 1
    return count


def write_answered(store: Store, tenant: str, key: str, round_: int, indices: Indices) -> None:
    """Note which members of a planned round have an answer by now, sorted: they need not be sent any more."""
    store.put(keys.round_answered(tenant, key, round_), np.ascontiguousarray(indices, dtype="<u4").tobytes())


def read_answered(store: Store, tenant: str, key: str, round_: int) -> Indices:
    """What was noted so; empty for a round that was not taken up again."""
    name = keys.round_answered(tenant, key, round_)
    return _indices(name, store.get_or_none(name) or b"")


def count_answered(store: Store, tenant: str, key: str, round_: int, shard: int) -> int:
    """How many of a shard's members were noted so."""
    answered = read_answered(store, tenant, key, round_)
    return len(np.intersect1d(read_members(store, tenant, key, round_, shard), answered)) if len(answered) else 0
