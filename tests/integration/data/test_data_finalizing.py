"""finalize_job: one outcome a request, checked; costs once; the summary last."""

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pyarrow.parquet as pq
import pytest
from data_world import NOW, World, bad, never, ok
from groupage.activities.finalizing import finalize_job
from groupage.activities.threads import Stopped
from groupage.client.job import read_summary as read_summary_by_client
from groupage.client.job import status_of
from groupage.client.listing import list_ended
from groupage.schemas import BatchPhase, ErrorClass, FailureAction, JobState, Outcome, Route, Summary
from groupage.schemas.activity_calls import FinalizeJob, SubmittedBatch
from groupage.schemas.errors import StoreError
from groupage.schemas.limits import PAYLOAD_MAX_BYTES
from groupage.store import keys
from groupage.store.reader import JobResults, read_summary
from groupage.store.results import ResultLine
from groupage.store.sync_parts import SyncPartWriter

OK, FAILED, EXPIRED, CANCELLED = Outcome.succeeded, Outcome.failed, Outcome.expired, Outcome.cancelled
ONE = Decimal("0.0000105")


def finalize(world: World, rounds: int = 1, **more) -> Summary:
    call = FinalizeJob(
        job=world.job,
        fingerprint="f",
        rounds=rounds,
        accepted_at=NOW,
        deadline_at=NOW + timedelta(hours=6),
        effective_for_s=3600,
        **more,
    )
    return finalize_job(world.store, call, world.spool, never())


def results(world: World) -> list[dict]:
    return [orjson.loads(line) for line in JobResults(world.store, world.job.tenant, world.job.key).lines()]


async def test_results_come_in_input_order_with_everything_a_reader_needs(world):
    world.requests(5)
    world.plan()
    await world.collect([ok(world.wire(n), f"answer {n}") for n in (3, 1, 4, 0, 2)])
    summary = finalize(world)
    assert (summary.state, summary.outcomes, summary.requests) == (JobState.completed, {OK: 5}, 5)
    assert (summary.cost_usd, summary.waste_usd, summary.sync_cost_usd) == (5 * ONE, 0, 10 * ONE)
    rows = results(world)
    assert [(row["id"], row["text"]) for row in rows] == [(f"id-{n}", f"answer {n}") for n in range(5)]
    first = rows[0]
    assert (first["provider"], first["route"], first["rounds"]) == ("openai", "batch", 1)
    assert first["model"] == "gpt-4o-mini-2024-07-18"
    assert first["provider_ids"] == {"batch": "batch_1", "request": "q"}
    assert first["body"]["choices"][0]["message"]["content"] == "answer 0"
    assert Decimal(str(first["cost_usd"])) == ONE
    parsed = next(JobResults(world.store, world.job.tenant, world.job.key).results())
    assert parsed.outcome is OK
    assert parsed.effective_until is not None
    assert parsed.produced_at == NOW


async def test_promise_1_PF_09_sums_over_rounds_count_each_request_once(world):
    world.requests(100)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(60)], [bad(world.wire(n)) for n in range(60, 100)],
                        phase=BatchPhase.expired)  # fmt: skip
    world.plan(1, actions={ErrorClass.expired: FailureAction.resubmit})
    await world.collect([ok(world.wire(n, 1)) for n in range(60, 100)], round_=1, batch_id="batch_2")
    summary = finalize(world, rounds=2)
    assert summary.outcomes == {OK: 100}
    assert summary.cost_usd == 100 * ONE
    assert Counter(row["rounds"] for row in results(world)) == {1: 60, 2: 40}


async def test_rejected_unanswered_and_never_sent_requests_all_have_their_line(world):
    world.provider.limit = world.provider.limit.model_copy(update={"max_requests": 3, "max_line_bytes": 2000})
    world.prepare([world.request(0), b"[1]", world.request(2), world.request(3, text="x" * 4000), world.request(4),
                   world.request(5)])  # fmt: skip
    plan = world.plan()
    assert plan.batch_shards == 2
    await world.collect([ok(world.wire(0))], [bad(world.wire(2), "server_error")])
    summary = finalize(world, reason="the deadline has come")
    assert summary.state is JobState.completed_with_failures
    assert summary.outcomes == {OK: 1, FAILED: 4, EXPIRED: 1}
    assert summary.error_classes == {
        ErrorClass.invalid: 1, ErrorClass.transient: 0 + 1, ErrorClass.too_large: 1, ErrorClass.missing: 1,
        ErrorClass.not_sent: 1,
    }  # fmt: skip
    rows = results(world)
    assert [row["outcome"] for row in rows] == ["succeeded", "failed", "failed", "failed", "failed", "expired"]
    assert "line 2" in rows[1]["error"]["message"]
    assert rows[3]["error"]["code"] == "line_too_large"
    assert "input line 4" in rows[3]["error"]["message"]
    assert rows[5]["error"] == {"class": "not_sent", "code": "not_sent", "message": "the deadline has come"}


@pytest.mark.parametrize(
    ("more", "outcome", "state"),
    [
        ({"cancelled": True}, CANCELLED, JobState.cancelled),
        ({"failed_reason": "the key was revoked"}, FAILED, JobState.failed),
        ({}, EXPIRED, JobState.failed),
    ],
)
def test_a_job_without_any_round_ends_by_its_reason(world, more, outcome, state):
    world.requests(3)
    summary = finalize(world, rounds=0, **more)
    assert (summary.outcomes, summary.state) == ({outcome: 3}, state)
    assert {row["error"]["class"] for row in results(world)} == {"not_sent"}


def test_IV_24_an_empty_job_is_completed(world):
    world.prepare([])
    summary = finalize(world, rounds=0)
    assert (summary.state, summary.requests, summary.outcomes) == (JobState.completed, 0, {})


async def test_PF_01_a_job_without_an_answer_has_failed_and_says_why(world):
    world.requests(9)
    world.plan()
    await world.collect(None, [bad(world.wire(n), "invalid_prompt") for n in range(9)], failed=9, completed=0, total=9)
    summary = finalize(world)
    assert (summary.state, summary.top_errors) == (JobState.failed, [("invalid/invalid_prompt", 9)])


async def test_finalizing_again_returns_the_same_summary(world):
    world.requests(3)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(3)])
    first = finalize(world)
    world.store.delete([keys.shard_results(world.job.tenant, world.job.key, 0, 0)])
    assert finalize(world, cancelled=True) == first


async def test_promise_7_an_attempt_after_a_killed_one_writes_the_same_bytes(world):
    world.requests(3)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(2)])
    first = finalize(world)
    name = keys.result_part(world.job.tenant, world.job.key, 0)
    before = world.store.get(name)
    at = (world.job.tenant, world.job.key)
    world.store.delete([keys.summary(*at), keys.ledger(*at), keys.result_part_index(*at, 0)])
    again = finalize(world)
    assert world.store.get(name) == before
    assert again.outcomes == first.outcomes


async def test_CO_01_money_paid_without_a_delivered_answer_is_waste_of_its_own(world):
    world.requests(3)
    world.plan()
    nameless = orjson.loads(ok(world.wire(0)))
    del nameless["custom_id"]
    await world.collect([ok(world.wire(0)), ok(world.wire(0), "another"), ok(world.wire(1)), orjson.dumps(nameless)])
    summary = finalize(world)
    assert (summary.cost_usd, summary.waste_usd, summary.quarantined) == (2 * ONE, 2 * ONE, 1)
    ledger = pq.read_table(world.spool.parent / "store" / keys.ledger(world.job.tenant, world.job.key))
    assert sum(usd or 0 for usd in ledger["cost_usd"].to_pylist()) == 2 * ONE
    assert sum(usd or 0 for usd in ledger["waste_usd"].to_pylist()) == ONE


async def test_answers_of_two_rounds_for_one_request_are_told_and_the_second_is_waste(world):
    world.requests(2)
    world.plan()
    world.plan(1, actions={ErrorClass.not_sent: FailureAction.resubmit})
    await world.collect([ok(world.wire(n, 1), "late") for n in range(2)], round_=1)
    await world.collect([ok(world.wire(n), "early") for n in range(2)])
    summary = finalize(world, rounds=2)
    assert (summary.outcomes, summary.cost_usd, summary.waste_usd) == ({OK: 2}, 2 * ONE, 2 * ONE)
    assert [row["text"] for row in results(world)] == ["early", "early"]
    assert any("2 answers came for requests that were answered" in text for text in summary.count_mismatches)


async def test_promise_3_rounds_that_an_earlier_run_sent_are_merged_though_this_one_never_came_to_them(world):
    world.requests(4)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(2)], [bad(world.wire(n)) for n in (2, 3)])
    world.plan(1, actions={ErrorClass.expired: FailureAction.resubmit})
    await world.collect([ok(world.wire(2, 1))], [bad(world.wire(3, 1))], round_=1)
    summary = finalize(world, rounds=0, cancelled=True)
    assert (summary.outcomes, summary.rounds, summary.cost_usd) == ({OK: 3, EXPIRED: 1}, 2, 3 * ONE)
    assert summary.state is JobState.cancelled


def late(world: World) -> bool:
    return world.store.exists(keys.late_report(world.job.tenant, world.job.key, 0, 0))


async def test_what_came_home_between_the_merge_and_the_summary_is_noted_as_late(world, monkeypatch):
    world.requests(2)
    world.plan()
    put_new = world.store.put_new_message
    collected = []

    def harvested_meanwhile(key, message):
        if key.endswith("/summary.json"):
            collected.append(asyncio.run(world.collect([ok(world.wire(n)) for n in range(2)])))
        return put_new(key, message)

    monkeypatch.setattr(world.store, "put_new_message", harvested_meanwhile)
    summary = await asyncio.to_thread(finalize, world)
    assert summary.outcomes == {Outcome.expired: 2}
    assert collected[0].cost_usd == 2 * ONE
    assert late(world)


async def test_late_waste_is_feared_at_first_and_told_once_it_is_known(world):
    """Whoever reads the summary later, by whichever command, sees what the batch has cost after the end."""
    world.provider.limit = world.provider.limit.model_copy(update={"max_requests": 3})
    world.requests(5)
    world.plan()
    await world.collect([ok(world.wire(n, 0, 1)) for n in (3, 4)], shard=1)
    named = "batch batch_1 of shard 0-0 had not ended"
    finalize(world, unsettled=["0-0", "0-1"], left_behind=[named, "file-7"])
    at = (world.store, world.job.tenant, world.job.key)
    for read in (read_summary, read_summary_by_client):
        summary = read(*at)
        assert (summary.maybe_paid_twice, summary.unsettled, summary.waste_usd) == (3, {"0-0": 3}, 0)
        assert summary.left_behind == [named, "file-7"]
    await world.collect([ok(world.wire(n)) for n in range(3)])
    for read in (read_summary, read_summary_by_client):
        summary = read(*at)
        assert (summary.maybe_paid_twice, summary.unsettled, summary.waste_usd) == (0, {}, 3 * ONE)
        assert (summary.cost_usd, summary.left_behind) == (2 * ONE, ["file-7"])
    assert status_of(summary).waste_usd == 3 * ONE
    assert [(job.key, job.waste_usd) for job in list_ended(world.store, None)] == [(world.job.key, 3 * ONE)]


def test_a_batch_that_had_not_ended_is_named_by_its_id_where_only_its_shard_knows_it(world):
    world.requests(2)
    world.plan(max_shard_requests=1)
    submitted = SubmittedBatch(batch_id="batch_1", adopted=False, submitted_at=NOW)
    world.store.put_message(keys.shard_object(world.job.tenant, world.job.key, 0, 1, "batch.json"), submitted)
    texts = [f"batch (unknown) of shard 0-{shard} had not ended" for shard in range(2)]
    summary = finalize(world, unsettled=["0-0", "0-1"], left_behind=texts)
    assert summary.left_behind == [texts[0], "batch batch_1 of shard 0-1 had not ended"]


async def test_what_was_merged_is_not_late_however_often_it_is_collected_again(world):
    world.requests(2)
    world.plan()
    first = await world.collect([ok(world.wire(n)) for n in range(2)])
    assert finalize(world).cost_usd == 2 * ONE
    assert await world.collect([ok(world.wire(n)) for n in range(2)]) == first
    assert not late(world)


async def test_flushed_answers_of_a_sync_shard_that_never_ended_are_kept(world):
    world.requests(3)
    world.plan(first_route=Route.sync)
    writer = SyncPartWriter(world.store, world.job.tenant, world.job.key, 0, 0)
    writer.add(ResultLine(1, OK, "openai", Route.sync, 1, NOW, text="kept", cost_nano=5))
    writer.flush()
    summary = finalize(world, cancelled=True)
    assert summary.outcomes == {OK: 1, CANCELLED: 2}
    assert [row["text"] for row in results(world)] == [None, "kept", None]
    assert summary.routes[Route.sync] == 1


async def test_lines_that_nobody_could_read_are_told_though_the_requests_were_answered_later(world):
    world.requests(3)
    world.plan()
    cut = [b'{"custom_id":"%b","response":{"body"' % world.wire(n).encode() for n in (1, 2)]
    await world.collect([ok(world.wire(0)), *cut])
    world.plan(1, actions={ErrorClass.unreadable: FailureAction.resubmit})
    await world.collect([ok(world.wire(n, 1)) for n in (1, 2)], round_=1)
    summary = finalize(world, rounds=2)
    assert summary.outcomes == {OK: 3}
    assert summary.unreadable == 2


async def test_promise_6_disagreements_and_leftovers_reach_the_summary_within_the_payload_limit(world):
    world.provider.limit = world.provider.limit.model_copy(update={"max_requests": 1})
    world.requests(60)
    world.plan()
    for shard in range(60):
        await world.collect([ok(world.wire(shard, 0, shard))], shard=shard, completed=0, failed=1, total=1)
    summary = finalize(world, left_behind=[f"file-{n} " + "x" * 2000 for n in range(500)], failed_reason="y" * 9000)
    assert summary.count_mismatches[0].startswith("r0-s0: the provider counts 0 completed and 1 failed")
    assert summary.count_mismatches[-1] == "and 40 more"
    assert summary.left_behind[-1] == "and 480 more"
    assert len(summary.model_dump_json()) < PAYLOAD_MAX_BYTES


async def test_promise_1_results_that_do_not_add_up_raise(world):
    world.requests(3)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(3)])
    name = keys.manifest(world.job.tenant, world.job.key)
    manifest = orjson.loads(world.store.get(name))
    world.store.put(name, orjson.dumps({**manifest, "requests": 4}))
    with pytest.raises(StoreError, match="4 requests were accepted"):
        finalize(world)
    assert not world.store.exists(keys.summary(world.job.tenant, world.job.key))


async def test_TE_06_a_cancelled_finalize_stops_and_has_written_no_summary(world):
    world.requests(3)
    world.plan()
    await world.collect([ok(world.wire(n)) for n in range(3)])
    stop = threading.Event()
    stop.set()
    call = FinalizeJob(
        job=world.job, fingerprint="f", rounds=1, accepted_at=NOW, deadline_at=datetime.now(UTC), effective_for_s=1
    )
    with pytest.raises(Stopped):
        finalize_job(world.store, call, world.spool, stop)
    assert not world.store.exists(keys.summary(world.job.tenant, world.job.key))


async def test_results_that_are_fresh_for_more_years_than_there_are_are_merged_all_the_same(world):
    """Of a job that was accepted before that was refused: its answers are paid for."""
    world.requests(1)
    world.plan()
    await world.collect([ok(world.wire(0))])
    call = FinalizeJob(
        job=world.job, fingerprint="f", rounds=1, accepted_at=NOW, deadline_at=NOW, effective_for_s=9999999 * 86400.0
    )
    summary = finalize_job(world.store, call, world.spool, threading.Event())
    assert summary.outcomes == {Outcome.succeeded: 1}


async def test_every_member_has_one_row_whatever_the_files_say(world):
    world.requests(20)
    world.plan()
    rows = [ok(world.wire(n % 7)) for n in range(30)] + [bad(world.wire(n)) for n in range(5, 15)]
    report = await world.collect(rows)
    indices = world.rows().rows["index"].tolist()
    assert indices == world.members(0)
    assert sum(report.outcomes.values()) == report.requests == 20
