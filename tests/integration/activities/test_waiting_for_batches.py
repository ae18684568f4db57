"""Polling: a look that fails is not a batch that failed, and a word that nobody knows is not an end."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from groupage.activities.refusals import read_refusal
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.activity_calls import CancelBatch, ReadProgress
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError


async def one_look(world, request, details=None):
    """(what it raised or returned, the heartbeat details that the next attempt gets)."""
    beats = []
    try:
        result = await attempt_of(world.activities.await_batch, request, details=details, beats=beats)
    except ApplicationError as failure:
        result = failure
    kept = [one.model_dump(mode="json") for one in beats[-1]] if beats[-1] else []
    return result, json.loads(json.dumps(kept))


async def test_a_batch_is_waited_for_and_its_counts_are_in_the_heartbeats(world, emulator):
    shard = world.shard(20)
    batch_id = (await world.submit(shard)).batch_id
    emulator.advance("5m")
    request = world.awaiting(shard, batch_id, poll_s=30)
    running, (watch,) = await one_look(world, request)
    assert benign(running)
    assert running.type == "waiting"
    assert running.next_retry_delay == timedelta(seconds=30)
    assert (watch["phase"], watch["total"]) == ("in_progress", 20)
    assert 0 < watch["completed"] < 20
    assert batch_id in str(running)

    emulator.finish()
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    assert ended.phase is BatchPhase.completed
    assert ended.output_files
    assert ended.tag == shard.tag
    assert ended.ended_at is not None


async def test_a_change_of_phase_is_told_once_the_report_is_due(world):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    past, future = datetime.now(UTC) - timedelta(seconds=1), datetime.now(UTC) + timedelta(hours=1)
    told, _ = await one_look(world, world.awaiting(shard, batch_id, report_at=past))
    assert not isinstance(told, Exception)
    for request in (
        world.awaiting(shard, batch_id, report_at=past, seen=told.phase),
        world.awaiting(shard, batch_id, report_at=future),
        world.awaiting(shard, batch_id),
    ):
        waits, _ = await one_look(world, request)
        assert benign(waits)


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "error", "status": 502},
        {"action": "error", "status": 500},
        {"action": "error", "status": 529},
        {"action": "error", "status": 503},
        {"action": "error", "status": 429, "retry_after": 7},
        {"action": "drop_before"},
        {"action": "html"},
        {"action": "slow", "seconds": "3s"},
        {"action": "cut"},
    ],
    ids=["502", "500", "529", "bare 503", "429", "reset", "PO-22 html", "timeout", "cut"],
)
async def test_PO_02_a_failed_look_is_only_a_failed_look(world, emulator, fault):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    emulator.faults(calls=[{"call": "batches.retrieve", "times": 1, **fault}])
    if fault["action"] == "slow":
        world.hurry(0.5)
    request = world.awaiting(shard, batch_id)
    failed, details = await one_look(world, request)
    assert benign(failed)
    assert details[0]["problem"]
    assert failed.next_retry_delay >= timedelta(seconds=fault.get("retry_after", 0))
    ended, _ = await attempts_of(world.activities.await_batch, request)
    assert ended.phase is BatchPhase.completed


async def test_PO_03_ten_failed_looks_then_a_healthy_one(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    emulator.faults(calls=[{"call": "batches.retrieve", "action": "error", "status": 500, "times": 10}])
    ended, failures = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    assert ended.phase is BatchPhase.completed
    assert len(failures) >= 10


async def test_PO_03_a_revoked_key_is_shown_but_does_not_give_the_batch_up(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.faults(calls=[{"call": "batches.retrieve", "action": "error", "status": 401}])
    failed, _ = await one_look(world, world.awaiting(shard, batch_id, poll_s=30))
    assert failed.type == "provider.account"
    assert not failed.non_retryable
    assert not benign(failed), "somebody has to see it"
    assert failed.next_retry_delay >= timedelta(minutes=1)


async def test_PO_03_looks_that_are_refused_twice_in_a_row_are_told_once_and_go_on(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    refused = {"call": "batches.retrieve", "action": "error", "status": 401}
    emulator.faults(calls=[{**refused, "nth": [1, 3, 4, 5]}])
    telling = world.awaiting(shard, batch_id, tell_refusals=True)
    details, told = None, []
    for _ in range(4):
        failed, details = await one_look(world, telling, details)
        told.append((failed.type, failed.non_retryable))
    assert told == [
        ("provider.account", False),
        ("waiting", False),
        ("provider.account", False),
        ("provider.account", True),
    ]
    # Shown by now: it goes on looking, and says at the first look that succeeds that it can see again.
    shown = world.awaiting(shard, batch_id, report_at=datetime.now(UTC))
    failed, details = await one_look(world, shown, details)
    assert (failed.type, failed.non_retryable) == ("provider.account", False)
    seen, _ = await one_look(world, shown, details)
    assert not seen.phase.ended


async def test_PO_01_404_after_create_and_in_mid_run_is_not_the_end(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.faults(calls=[{"call": "batches.retrieve", "action": "error", "status": 404, "nth": [1, 3]}])
    emulator.finish()
    request = world.awaiting(shard, batch_id)
    first, details = await one_look(world, request)
    assert benign(first)
    assert details[0]["missing_since"]
    ended, _ = await attempts_of(world.activities.await_batch, request)
    assert ended.phase is BatchPhase.completed


async def test_PO_01_a_batch_that_stays_invisible_is_gone(make_world, emulator):
    world = make_world(not_visible_s=0.5)
    shard = world.shard()
    await world.submit(shard)
    with pytest.raises(ApplicationError) as failure:
        await attempts_of(world.activities.await_batch, world.awaiting(shard, "batch_never_there", poll_s=0.1))
    assert failure.value.type == "provider.missing"
    assert failure.value.non_retryable
    assert failure.value.details[0].error_class is ErrorClass.missing


async def test_PO_01_a_batch_that_cannot_be_retrieved_but_is_listed_is_not_gone(make_world, emulator):
    world = make_world(not_visible_s=0.3)
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.faults(calls=[{"call": "batches.retrieve", "action": "error", "status": 404}])
    request = world.awaiting(shard, batch_id, poll_s=0.1)
    details = []
    for _ in range(6):
        running, details = await one_look(world, request, details)
        assert benign(running)
        await asyncio.sleep(0.1)
    assert details[0]["phase"] in {"validating", "in_progress"}
    emulator.finish()
    ended, _ = await attempts_of(world.activities.await_batch, request)
    assert (ended.batch_id, ended.phase) == (batch_id, BatchPhase.completed)
    assert ended.output_files


async def test_a_listing_that_cannot_be_had_proves_no_batch_gone(make_world, emulator):
    world = make_world(not_visible_s=0.0)
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    calls = [{"call": name, "action": "error", "status": status} for name, status in
             (("batches.retrieve", 404), ("batches.list", 503))]  # fmt: skip
    emulator.faults(calls=calls)
    failed, _ = await one_look(world, world.awaiting(shard, batch_id))
    assert benign(failed)


async def test_why_a_batch_was_refused_is_kept_for_its_requests(world, emulator):
    emulator.faults(batches=[{"effect": "fail", "code": "token_limit_exceeded", "message": "too many tokens"}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.advance_at_once("1h")
    await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    kept = read_refusal(world.store, shard.job, 0, 0)
    assert (kept.error_class, kept.message) == (ErrorClass.quota, "too many tokens")
    # The next batch of the shard is another matter.
    emulator.faults()
    await world.submit(shard, not_ids=[batch_id])
    assert read_refusal(world.store, shard.job, 0, 0) is None


async def test_PO_01_one_404_long_after_submission_starts_the_patience_anew(make_world, emulator):
    world = make_world(not_visible_s=60)
    shard = world.shard()
    long_ago = datetime.now(UTC) - timedelta(hours=5)
    failed, _ = await one_look(world, world.awaiting(shard, "batch_away", submitted_at=long_ago))
    assert benign(failed)


@pytest.mark.parametrize("word", ["paused", None, "COMPLETELY_NEW"])
async def test_PO_05_unknown_states_are_not_an_end(world, emulator, word):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    failed, (watch,) = await one_look(world, world.awaiting(shard, batch_id))
    assert benign(failed)
    assert watch["phase"] == "unknown"
    assert watch["raw_state"] == (word or "")
    assert "not known" in watch["problem"]


async def test_PO_05_a_cancelled_batch_is_an_end_in_either_spelling(world, emulator):
    emulator.faults(batches=[{"effect": "status_word", "during": "cancelled", "word": "Canceled"}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=batch_id))
    emulator.advance("10s")
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    assert (ended.phase, ended.raw_state) == (BatchPhase.cancelled, "Canceled")


async def test_PO_08_completed_without_its_output_file_is_looked_at_again(world, emulator):
    emulator.faults(batches=[{"effect": "late_output", "seconds": "2h"}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    request = world.awaiting(shard, batch_id)
    early, details = await one_look(world, request)
    assert benign(early)
    assert details[0]["files_late_since"]
    emulator.advance("3h")
    ended, _ = await attempts_of(world.activities.await_batch, request)
    assert ended.output_files
    assert ended.settles_as is None


async def test_PO_08_files_that_never_come_end_the_wait_with_the_reason(make_world, emulator):
    emulator.faults(batches=[{"effect": "late_output", "seconds": "9d"}])
    world = make_world(files_late_s=0.3)
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id, poll_s=0.1))
    assert ended.phase is BatchPhase.completed
    assert ended.error.code == "no_result_files"


@pytest.mark.parametrize("counts", ["null", "zero"])
async def test_PO_10_counts_that_are_null_or_zero_decide_nothing(world, emulator, counts):
    emulator.faults(batches=[{"effect": "counts", "counts": counts}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    assert (await world.again().submit(shard)).batch_id == batch_id, "the listing is read all the same"
    emulator.finish()
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    assert ended.phase is BatchPhase.completed
    assert ended.output_files


async def test_CO_01_looking_five_times_after_the_end_changes_nothing(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    looks = [await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id)) for _ in range(5)]
    assert len({look.model_dump_json() for look, _ in looks}) == 1


async def test_PO_15_a_batch_that_is_being_cancelled_is_not_cancelled_again(world, emulator):
    emulator.faults(batches=[{"effect": "slow_cancel", "seconds": "25m"}])
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    request = CancelBatch(shard=shard, batch_id=batch_id)
    for _ in range(5):
        status = await attempt_of(world.activities.cancel_batch, request)
        assert status.phase is BatchPhase.cancelling
    assert emulator.state()["calls"]["batches.cancel"] == 1
    emulator.advance("30m")
    ended, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    assert ended.phase is BatchPhase.cancelled


async def test_PO_16_cancelling_what_has_ended_returns_how_it_ended(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.finish()
    await attempts_of(world.activities.await_batch, world.awaiting(shard, batch_id))
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=batch_id))
    assert status.phase is BatchPhase.completed
    # And where it ends between the look and the call:
    status = await world.adapter.cancel(batch_id)
    assert status.phase is BatchPhase.completed


async def test_PO_16_a_real_refusal_to_cancel_surfaces(world, emulator):
    shard = world.shard()
    batch_id = (await world.submit(shard)).batch_id
    emulator.faults(calls=[{"call": "batches.cancel", "action": "error", "status": 400, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=batch_id))
    assert failure.value.type == "provider.invalid"


async def test_progress_adds_up_what_the_provider_counts(world, emulator):
    shard = world.shard(20)
    request = ReadProgress(job=shard.job, round=0, shards=[0])
    before = await attempt_of(world.activities.read_progress, request)
    assert (before.requests, before.completed, before.ended_shards) == (20, 0, 0)
    await world.submit(shard)
    emulator.advance("5m")
    await world.adapter.status(emulator.state()["batches"][0]["id"])
    running = await attempt_of(world.activities.read_progress, request)
    assert 0 < running.completed < 20
    emulator.faults(calls=[{"call": "batches.retrieve", "action": "error", "status": 500, "times": 1}])
    unseen = await attempt_of(world.activities.read_progress, request)
    assert (unseen.requests, unseen.completed) == (20, 0)
