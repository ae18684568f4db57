"""plan_round: every request in one shard, limits held, nothing that has an answer planned again."""

import time

import numpy as np
import pytest
import zstandard
from data_world import CHAT, World, answer_body, bad, http, ok
from groupage.schemas import (
    BatchError,
    BatchPhase,
    ErrorClass,
    FailureAction,
    JobManifest,
    JobRef,
    Outcome,
    ProviderLimits,
    RequestGroup,
    RoundPlan,
    Route,
    SegmentInfo,
)
from groupage.store import keys
from groupage.store.results import ResultLine
from groupage.store.rows import REQUEST_ROW
from groupage.store.shards import count_answered, read_answered, read_round_plan, read_shard_plan
from groupage.store.sync_parts import SyncPartWriter

RESUBMIT, SYNC, GIVE_UP, ASK = FailureAction.resubmit, FailureAction.sync, FailureAction.give_up, FailureAction.ask


def shard_plan(world: World, round_: int, shard: int):
    return read_shard_plan(world.store, world.job.tenant, world.job.key, round_, shard)


def objects(world: World, below: str) -> dict[str, bytes]:
    prefix = f"{keys.job(world.job.tenant, world.job.key)}/{below}"
    return {name: world.store.get(name) for name in world.store.list(prefix)}


def limited(world: World, **limits: int) -> None:
    world.provider.limit = ProviderLimits(
        **{"max_requests": 50_000, "max_bytes": 10**9, "max_line_bytes": 10**7, **limits}
    )


def test_a_round_is_planned_by_count_and_every_request_once(world):
    limited(world, max_requests=40)
    world.requests(100)
    plan = world.plan()
    assert (plan.batch_shards, plan.sync_shards, plan.requests, plan.given_up) == (3, 0, 100, 0)
    assert [len(world.members(0, shard)) for shard in range(3)] == [40, 40, 20]
    assert sorted(n for shard in range(3) for n in world.members(0, shard)) == list(range(100))


def test_IV_16_shards_hold_the_byte_limit_after_rendering(world):
    limited(world, max_bytes=3000, max_line_bytes=3000)
    world.prepare([world.request(n, text="荷物を送る" * (n % 9)) for n in range(60)])
    plan = world.plan()
    assert plan.batch_shards > 3
    from groupage.store.segments import SegmentReader, read_manifest

    reader = SegmentReader(world.store, read_manifest(world.store, world.job.tenant, world.job.key))
    for shard in range(plan.batch_shards):
        rendered = sum(
            len(world.provider.render(world.wire(r.index, 0, shard), CHAT, r.body))
            for r in reader.requests(np.array(world.members(0, shard)))
        )
        stated = shard_plan(world, 0, shard).bytes
        # Above by no more than the longest shard and index numbers could take.
        assert rendered <= stated <= min(3000, rendered + 10 * len(world.members(0, shard)))


def test_shards_hold_the_token_limit(world):
    limited(world, max_tokens=100)
    world.requests(60)
    plan = world.plan()
    assert plan.batch_shards > 1
    assert all(shard_plan(world, 0, shard).tokens <= 100 for shard in range(plan.batch_shards))


EMBEDDINGS = "/v1/embeddings"


def embedded(n: int, given: object, **line: object) -> dict[str, object]:
    return {"custom_id": f"e{n}", "url": EMBEDDINGS, "body": {"model": "m", "input": given}} | line


def test_IV_16_shards_hold_the_limit_of_embedding_inputs(world):
    limited(world, max_inputs=10)
    texts = [f"text {n}" for n in range(4)]
    tokens = [[1, 2, 3], [4, 5], [6], [7]]
    world.prepare([embedded(n, (texts, tokens, "one", [1, 2, 3, 4, 5])[n % 4]) for n in range(12)])
    plan = world.plan()
    # 4, 4, 1, 1 inputs in turn.
    assert [world.members(0, shard) for shard in range(plan.batch_shards)] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11],
    ]  # fmt: skip


def test_inputs_are_those_of_embeddings_alone(world):
    limited(world, max_inputs=10)
    rows = [
        {"custom_id": f"m{n}", "url": "/v1/moderations", "body": {"model": "m", "input": ["a"] * 9}} for n in range(5)
    ]
    world.prepare([*rows, *(world.request(n) for n in range(30))])
    plan = world.plan()
    assert [shard_plan(world, 0, shard).requests for shard in range(plan.batch_shards)] == [5, 30]


def test_IV_18_a_request_of_more_inputs_than_a_batch_may_hold_gets_its_outcome_and_the_rest_runs(world):
    limited(world, max_inputs=10)
    world.prepare([embedded(0, "a"), embedded(1, ["x"] * 11), embedded(2, ["x"] * 10)])
    plan = world.plan(limits_factor=0.5)
    assert (plan.batch_shards, plan.requests, plan.given_up) == (2, 2, 1)
    assert [world.members(0, shard) for shard in range(2)] == [[0], [2]], "over half of the limit it goes alone"
    rows = world.rows(0, 2)
    assert rows.rows["index"].tolist() == [1]
    assert rows.codes[rows.rows["code"][0]] == "too_many_inputs"
    (data,) = (data for name, data in objects(world, "shards/0-2").items() if name.endswith(".jsonl.zst"))
    text = zstandard.ZstdDecompressor().stream_reader(data).read()
    assert b"input line 2: 11 inputs, the provider takes 10 a batch: make several requests of it" in text


def test_by_sync_nobody_counts_inputs(world):
    limited(world, max_inputs=1)
    world.prepare([embedded(n, ["x"] * 11) for n in range(3)])
    plan = world.plan(first_route=Route.sync)
    assert (plan.sync_shards, plan.requests, plan.given_up) == (1, 3, 0)


def test_IV_13_models_and_endpoints_never_share_a_shard(world):
    rows = [world.request(n, model=f"m{n % 3}") for n in range(30)]
    rows.append({"custom_id": "e", "url": "/v1/embeddings", "body": {"model": "m0", "input": "x"}})
    world.prepare(rows)
    plan = world.plan()
    assert plan.batch_shards == 4
    for shard in range(3):
        model = int(shard_plan(world, 0, shard).model[1:])
        assert world.members(0, shard) == list(range(model, 30, 3))
    assert (shard_plan(world, 0, 3).endpoint, world.members(0, 3)) == ("/v1/embeddings", [30])


def test_IV_18_a_line_over_the_limit_gets_its_outcome_and_the_rest_runs(world):
    limited(world, max_line_bytes=2000)
    world.prepare([world.request(0), world.request(1, text="x" * 5000), world.request(2)])
    plan = world.plan()
    assert (plan.batch_shards, plan.requests, plan.given_up) == (1, 2, 1)
    assert world.members(0, 0) == [0, 2]
    rows = world.rows(0, 1)
    assert rows.rows["index"].tolist() == [1]
    assert rows.codes[rows.rows["code"][0]] == "line_too_large"


def test_IV_21_few_requests_go_by_sync_where_the_provider_refuses_so_few(world):
    limited(world, min_requests=100)
    world.requests(7)
    plan = world.plan()
    assert (plan.batch_shards, plan.sync_shards) == (0, 1)
    assert world.members(0, 0) == list(range(7))


def test_IV_21_few_requests_are_not_sent_where_the_policy_says_never_by_sync(world):
    limited(world, min_requests=100)
    world.requests(7)
    plan = world.plan(escalate=False)
    assert (plan.batch_shards, plan.sync_shards, plan.given_up) == (0, 0, 7)
    rows = world.rows(0, 0)
    assert set(world.outcomes().values()) == {Outcome.failed}
    assert {rows.codes[row["code"]] for row in rows.rows} == {"below_minimum"}


def test_IV_21_what_is_too_few_at_first_finds_its_batch_with_what_is_left_of_others(world):
    limited(world, min_requests=5, max_requests=5)
    world.requests(7)
    assert world.plan(escalate=False).batch_shards == 1
    actions = {ErrorClass.not_sent: RESUBMIT}
    plan = world.plan(1, escalate=False, actions=actions)
    assert (plan.batch_shards, plan.sync_shards) == (1, 0)
    assert world.members(1, 0) == [0, 1, 2, 3, 4]


def test_IV_21_the_last_shard_is_filled_up_to_the_minimum(world):
    limited(world, min_requests=10, max_requests=40)
    world.requests(83)
    plan = world.plan()
    assert [shard_plan(world, 0, shard).requests for shard in range(plan.batch_shards)] == [40, 33, 10]


def test_rejected_lines_are_not_planned(world):
    world.prepare([world.request(0), b"[1]", world.request(2)])
    assert world.plan().requests == 2
    assert world.members(0, 0) == [0, 2]


def test_an_empty_job_has_an_empty_plan(world):
    world.prepare([])
    plan = world.plan()
    assert plan == RoundPlan(round=0, batch_shards=0, sync_shards=0, requests=0)


def test_the_canary_comes_first_and_alone(world):
    world.requests(100)
    plan = world.plan(canary_requests=5)
    assert plan.batch_shards == 2
    assert world.members(0, 0) == [0, 1, 2, 3, 4]


def test_sync_shards_are_small(world):
    world.requests(25)
    plan = world.plan(first_route=Route.sync, sync_shard_requests=10)
    assert (plan.batch_shards, plan.sync_shards) == (0, 3)
    assert shard_plan(world, 0, 2).route is Route.sync


def test_the_jobs_own_limits_and_the_factor_lower_the_providers(world):
    limited(world, max_requests=40)
    world.requests(100)
    assert world.plan(max_shard_requests=20, limits_factor=0.5).batch_shards == 10


def test_planning_twice_writes_the_same_bytes(world):
    limited(world, max_requests=7, max_line_bytes=600)
    world.prepare([world.request(n, text="x" * (1000 if n == 13 else 1)) for n in range(40)])
    first = world.plan(canary_requests=3)
    before = objects(world, "shards")
    world.store.delete([keys.round_plan(world.job.tenant, world.job.key, 0)])
    assert world.plan(canary_requests=3) == first
    assert objects(world, "shards") == before


async def test_a_planned_round_never_changes_even_when_results_are_there(world):
    world.requests(10)
    first = world.plan()
    await world.collect([ok(world.wire(n)) for n in range(10)])
    before = objects(world, "shards")
    assert world.plan(max_shard_requests=2) == first
    assert objects(world, "shards") == before


async def test_promise_3_PF_09_a_second_round_holds_only_what_has_no_answer(world):
    world.requests(100)
    world.plan()
    await world.collect(
        [ok(world.wire(n)) for n in range(60)], [bad(world.wire(n)) for n in range(60, 100)], phase=BatchPhase.expired
    )
    plan = world.plan(1, actions={ErrorClass.expired: RESUBMIT})
    assert (plan.batch_shards, plan.requests, plan.given_up) == (1, 40, 0)
    assert world.members(1, 0) == list(range(60, 100))
    await world.collect([ok(world.wire(n, 1)) for n in range(60, 99)], round_=1)
    plan = world.plan(2, actions={ErrorClass.missing: SYNC})
    assert (plan.batch_shards, plan.sync_shards, world.members(2, 0)) == (0, 1, [99])


async def test_promise_3_what_a_late_batch_answered_is_not_planned_again(world):
    """Round 0 settles after round 1 was planned of all its requests: round 2 holds only what neither answered."""
    world.requests(10)
    world.plan()
    world.plan(1, actions={ErrorClass.not_sent: RESUBMIT})
    await world.collect([ok(world.wire(n)) for n in range(7)], [bad(world.wire(n)) for n in range(7, 10)])
    await world.collect(None, [bad(world.wire(n, 1)) for n in range(10)], round_=1)
    plan = world.plan(2, actions={ErrorClass.expired: RESUBMIT})
    assert (plan.requests, plan.given_up, world.members(2, 0)) == (3, 0, [7, 8, 9])


async def test_promise_3_a_round_that_is_taken_up_again_notes_what_was_answered_since(world):
    limited(world, max_requests=5)
    world.requests(10)
    world.plan()
    first = world.plan(1, actions={ErrorClass.not_sent: RESUBMIT})
    await world.collect([ok(world.wire(n)) for n in range(3)], [bad(world.wire(n)) for n in range(3, 5)])
    at = (world.job.tenant, world.job.key, 1)
    assert read_answered(world.store, *at).tolist() == []
    assert world.plan(1, actions={}) == first
    assert read_answered(world.store, *at).tolist() == [0, 1, 2]
    assert [count_answered(world.store, *at, shard) for shard in range(2)] == [3, 0]


async def test_each_error_class_goes_where_its_action_sends_it(world):
    world.requests(8)
    world.plan()
    codes = ["batch_expired", "server_error", "invalid_prompt", "rate_limit_exceeded", "insufficient_quota", "what"]
    errors = [bad(world.wire(n), code) for n, code in enumerate(codes)]
    await world.collect([ok(world.wire(6)), ok(world.wire(7), finish="length")], errors)
    plan = world.plan(
        1,
        actions={
            ErrorClass.expired: RESUBMIT,
            ErrorClass.transient: SYNC,
            ErrorClass.invalid: GIVE_UP,
            ErrorClass.rate_limit: SYNC,
            ErrorClass.account: ASK,
        },
    )
    assert (plan.batch_shards, plan.sync_shards, plan.requests, plan.given_up) == (1, 1, 3, 3)
    assert world.members(1, 0) == [0]
    assert world.members(1, 1) == [1, 3]


@pytest.mark.parametrize(("escalate", "by_sync"), [(True, [[1, 2]]), (False, [])])
async def test_requests_that_nobody_could_tell_apart_are_not_sent_in_a_batch_again(world, escalate, by_sync):
    world.requests(5)
    world.plan()
    errors = [bad(world.wire(n), "like_several_requests") for n in (1, 2)] + [bad(world.wire(3), "what")]
    await world.collect([ok(world.wire(0)), ok(world.wire(4))], errors)
    plan = world.plan(1, actions={ErrorClass.unknown: RESUBMIT}, escalate=escalate)
    assert (plan.batch_shards, plan.sync_shards) == (1, len(by_sync))
    assert world.members(1, 0) == [3]
    assert [world.members(1, 1 + shard) for shard in range(plan.sync_shards)] == by_sync


async def test_a_shard_without_results_counts_by_its_refusal_else_as_not_sent(world):
    limited(world, max_requests=5)
    world.requests(15)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(5)])
    refusal = BatchError(error_class=ErrorClass.too_large, code="too_many_tokens")
    world.store.put_message(keys.shard_object(world.job.tenant, world.job.key, 0, 1, "refused.json"), refusal)
    plan = world.plan(1, actions={ErrorClass.too_large: RESUBMIT, ErrorClass.not_sent: SYNC}, limits_factor=0.5)
    assert (plan.batch_shards, plan.sync_shards) == (3, 1)
    assert [world.members(1, shard) for shard in range(4)] == [[5, 6], [7, 8], [9], [10, 11, 12, 13, 14]]


def test_a_shard_that_failed_as_a_whole_for_a_reason_that_nobody_knows_goes_again_in_halves(world):
    world.requests(10)
    world.plan()
    refusal = BatchError(error_class=ErrorClass.unknown, code="bad", message="your organisation is not allowed")
    world.store.put_message(keys.shard_object(world.job.tenant, world.job.key, 0, 0, "refused.json"), refusal)
    plan = world.plan(1, actions={ErrorClass.not_sent: RESUBMIT}, limits_factor=0.5)
    assert (plan.batch_shards, plan.requests, plan.given_up) == (2, 10, 0)


def test_promise_3_answers_that_a_dead_sync_shard_flushed_are_not_sent_again(world):
    world.requests(4)
    world.plan(first_route=Route.sync)
    from data_world import NOW
    from groupage.activities.answers import read_batch_line

    writer = SyncPartWriter(world.store, world.job.tenant, world.job.key, 0, 0)
    answer = read_batch_line(ok(world.wire(2)), CHAT)
    writer.add(ResultLine(2, answer.outcome, "openai", Route.sync, 1, NOW, body=answer_body()))
    writer.flush()
    plan = world.plan(1, actions={ErrorClass.not_sent: SYNC})
    assert plan.requests == 3
    assert world.members(1, 0) == [0, 1, 3]


async def test_invariant_6_permanent_failures_without_an_action_stay_as_they_are(world):
    world.requests(3)
    world.plan()
    await world.collect([http(world.wire(n), 400, {"error": {"message": "no"}}) for n in range(3)])
    plan = world.plan(1, actions={ErrorClass.expired: RESUBMIT})
    assert (plan.requests, plan.given_up, plan.batch_shards) == (0, 3, 0)
    assert read_round_plan(world.store, world.job.tenant, world.job.key, 1) == plan


@pytest.mark.parametrize("groups", [1, 3])
def test_a_million_requests_are_planned_in_seconds_with_flat_memory(world, groups):
    count, each = 1_000_000, 8192
    job = JobRef(tenant="t", key="big", token="gaaaaaa-aaaaaaaaaaaaa", provider="openai")
    segments = [min(each, count - at) for at in range(0, count, each)]
    for number, size in enumerate(segments):
        rows = np.zeros(size, REQUEST_ROW)
        rows["line"] = np.arange(size) + 1
        rows["size"] = 800 + np.arange(size) % 300
        rows["tokens"] = 150
        rows["body_at"] = 60
        rows["group"] = np.arange(size) % groups
        world.store.put(keys.segment_index("t", "big", number), rows.tobytes())
    manifest = JobManifest(
        tenant="t", key="big", salt="s", token=job.token, fingerprint="f", provider="openai", requests=count, rejected=0,
        groups=[
            RequestGroup(endpoint=CHAT, model=f"m{n}", requests=1, bytes=1, tokens=1, max_output_tokens=1)
            for n in range(groups)
        ],
        segments=[SegmentInfo(requests=size, bytes=1) for size in segments], accepted_at="2026-11-29T00:00:00+00:00",
    )  # fmt: skip
    world.store.put_message(keys.manifest("t", "big"), manifest)
    world.job = job
    began = time.process_time()
    plan = world.plan(max_shard_bytes=30_000_000)
    seconds = time.process_time() - began
    print(f"planned {count} requests of {groups} groups into {plan.batch_shards} shards in {seconds:.2f} s")
    assert plan.requests == count
    assert sum(shard_plan(world, 0, shard).requests for shard in range(plan.batch_shards)) == count
    assert seconds < 8
