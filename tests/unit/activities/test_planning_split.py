"""Every request in exactly one shard, limits held, whatever comes in chunks."""

from itertools import pairwise

import numpy as np
from groupage.activities.splitting import Draft, ShardLimits, Splitter, join, split
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40), st.integers(1, 20)), max_size=200)
"""(bytes, tokens, inputs) of each request."""
LIMITS = st.builds(
    ShardLimits,
    requests=st.integers(1, 30),
    bytes=st.integers(20, 500),
    tokens=st.none() | st.integers(10, 300),
    inputs=st.none() | st.integers(5, 60),
    min_requests=st.integers(1, 8),
)


def rows(each, first=0):
    """Of (bytes, tokens), or (bytes, tokens, inputs)."""
    sizes, tokens, *inputs = np.array(each, np.int64).T if each else np.empty((3, 0), np.int64)
    return Draft(np.arange(first, first + len(each), dtype=np.uint32), sizes, tokens, *inputs)


@given(pairs=SIZES, limits=LIMITS, canary=st.integers(0, 5))
def test_every_request_is_planned_exactly_once_and_in_order(pairs, limits, canary):
    shards = split(rows(pairs), limits, canary=canary)
    planned = np.concatenate([shard.index for shard in shards]) if shards else np.array([])
    assert planned.tolist() == list(range(len(pairs)))
    assert all(shard.requests for shard in shards)


@given(pairs=SIZES, limits=LIMITS, canary=st.integers(0, 5))
def test_IV_16_limits_hold_unless_one_request_alone_is_over_them(pairs, limits, canary):
    for shard in split(rows(pairs), limits, canary=canary):
        if shard.requests > 1:
            assert shard.requests <= max(limits.requests, limits.min_requests)
            assert shard.total_bytes <= limits.bytes
            assert limits.tokens is None or shard.total_tokens <= limits.tokens
            assert limits.inputs is None or shard.total_inputs <= limits.inputs


@given(pairs=SIZES, limits=LIMITS, cuts=st.lists(st.integers(0, 200), max_size=4), canary=st.integers(0, 5))
def test_the_shards_do_not_depend_on_how_the_rows_arrive(pairs, limits, cuts, canary):
    whole = rows(pairs)
    splitter = Splitter(limits, canary=canary)
    shards = []
    edges = [0, *sorted(min(cut, len(pairs)) for cut in cuts), len(pairs)]
    for start, end in pairwise(edges):
        shards += splitter.add(whole.cut(start, end))
    shards += splitter.finish()
    assert [s.index.tolist() for s in shards] == [s.index.tolist() for s in split(whole, limits, canary=canary)]


@given(count=st.integers(1, 500), most=st.integers(20, 60), least=st.integers(1, 20))
def test_IV_21_no_last_shard_is_below_the_minimum(count, most, least):
    limits = ShardLimits(requests=most, bytes=10**9, min_requests=least)
    shards = split(rows([(10, 1)] * count), limits)
    if count >= least and 2 * least <= most + 1:
        assert min(shard.requests for shard in shards) >= least


def test_a_shard_is_as_full_as_it_may_be():
    shards = split(rows([(10, 1)] * 25), ShardLimits(requests=10, bytes=10**9))
    assert [shard.requests for shard in shards] == [10, 10, 5]
    shards = split(rows([(10, 1)] * 25), ShardLimits(requests=100, bytes=70))
    assert [shard.requests for shard in shards] == [7, 7, 7, 4]
    shards = split(rows([(10, 3)] * 25), ShardLimits(requests=100, bytes=10**9, tokens=31))
    assert [shard.requests for shard in shards] == [10, 10, 5]
    shards = split(rows([(10, 1, 3)] * 25), ShardLimits(requests=100, bytes=10**9, inputs=31))
    assert [(shard.requests, shard.total_inputs) for shard in shards] == [(10, 30), (10, 30), (5, 15)]


def test_IV_21_a_last_shard_is_not_filled_up_beyond_the_inputs_that_a_batch_may_hold():
    limits = ShardLimits(requests=10, bytes=10**9, inputs=20, min_requests=4)
    shards = split(rows([(10, 1, 1)] * 10 + [(10, 1, 9)] * 2), limits)
    assert [shard.requests for shard in shards] == [8, 4]
    shards = split(rows([(10, 1, 1)] * 9 + [(10, 1, 6)] + [(10, 1, 9)] * 2), limits)
    assert [shard.requests for shard in shards] == [10, 2]


def test_the_canary_is_the_first_shard_alone():
    shards = split(rows([(10, 1)] * 25), ShardLimits(requests=10, bytes=10**9), canary=3)
    assert [shard.requests for shard in shards] == [3, 10, 10, 2]


def test_joined_drafts_keep_their_sums():
    both = join([rows([(1, 2)]), rows([(3, 4)], first=1)])
    assert (both.requests, both.total_bytes, both.total_tokens, both.inputs) == (2, 4, 6, None)
    assert join([rows([(1, 2, 5)]), rows([(3, 4, 6)], first=1)]).total_inputs == 11
