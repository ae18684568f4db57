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
    data = store.get(name)
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
