"""A submission that is interrupted: killed, overtaken by another attempt, cancelled, stopped, or without its store."""

import asyncio
import threading

import numpy as np
import pytest
from groupage.activities import submission
from groupage.activities.intents import read_log
from groupage.activities.providers.openai import OpenAIProvider
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch, SubmitBatch
from groupage.schemas.batches import NOT_TO_BE_SENT
from groupage.schemas.errors import StoreError
from groupage.store.objects import Store
from groupage.store.shards import write_answered
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from worlds import DOUBT_S, KilledError, submitted_in_the_end


class DiesBeforeCreate(OpenAIProvider):
    async def create(self, submission, files):
        raise KilledError


class StoreThatForgets(Store):
    """Fails to write keys that hold `word`, so many times."""

    def __init__(self, store, word, times):
        super().__init__(store.url, store._inner)
        self.word, self.times = word, times

    def put(self, key, data):
        if self.word in key and self.times:
            self.times -= 1
            raise StoreError(f"could not write {key}: out of order")
        super().put(key, data)


async def test_a_worker_killed_between_intent_and_call_waits_for_the_whole_window(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.intents.CREATE_TIMEOUT_MIN_S", DOUBT_S)
    shard = world.shard()
    world.use(DiesBeforeCreate("openai", world.settings.providers["openai"]))
    with pytest.raises(KilledError):
        await world.submit(shard)
    retry = world.again()
    done, failures = await submitted_in_the_end(retry, shard)
    assert failures, "it looked more than once"
    assert not done.adopted
    assert emulator.creates() == 1


@pytest.mark.parametrize("word", ["end.json", "batch.json"])
async def test_SU_05_a_store_that_fails_after_create_leads_to_adoption(world, emulator, word):
    shard = world.shard()
    world.context.store = StoreThatForgets(world.store, word, 1)
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "store.unavailable"
    done = await world.submit(shard, attempt=2)
    assert done.adopted
    assert emulator.creates() == 1


async def test_SU_05_a_store_that_fails_before_create_sends_nothing(world, emulator):
    shard = world.shard()

    class NoIntents(Store):
        def put_new(self, key, data):
            if "intents/" in key:
                raise StoreError("out of order")
            return super().put_new(key, data)

    world.context.store = NoIntents(world.store.url, world.store._inner)
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    assert emulator.creates() == 0


async def test_TE_05_two_attempts_at_once_make_one_batch(world, emulator, monkeypatch):
    """Both have looked and found nothing before either sends."""
    both_looked = asyncio.Barrier(2)
    real_look = submission.look

    async def look(*given):
        found = await real_look(*given)
        await both_looked.wait()
        return found

    monkeypatch.setattr(submission, "look", look)
    shard = world.shard()
    ends = await asyncio.gather(world.submit(shard, attempt=1), world.submit(shard, attempt=2), return_exceptions=True)
    lost = [end for end in ends if isinstance(end, ApplicationError)]
    assert len(lost) == 1
    assert lost[0].details[0].code == "superseded"
    assert emulator.creates() == 1
    monkeypatch.undo()
    assert (await world.submit(shard, attempt=3)).adopted
    assert emulator.creates() == 1


async def test_TE_05_an_attempt_that_hung_before_its_call_gives_up_when_another_went_on(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.intents.CREATE_TIMEOUT_MIN_S", 0.5)
    shard = world.shard()
    hangs, go_on = threading.Event(), threading.Event()
    real_superseded, calls = submission.superseded, []

    def superseded(*given):
        calls.append(given)
        if len(calls) == 1:
            hangs.set()
            go_on.wait(30)
        return real_superseded(*given)

    monkeypatch.setattr(submission, "superseded", superseded)
    hung = asyncio.create_task(world.submit(shard, attempt=1))
    await asyncio.to_thread(hangs.wait, 30)
    other = world.again()
    done, _ = await submitted_in_the_end(other, shard)
    go_on.set()
    with pytest.raises(ApplicationError) as failure:
        await hung
    assert failure.value.details[0].code == "superseded"
    assert not done.adopted
    assert emulator.creates() == 1


async def test_TE_05_an_attempt_whose_intent_has_grown_old_sends_nothing(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.intents.POST_WITHIN_MIN_S", 0.0)
    real_superseded = submission.superseded

    def slow(*given):
        import time

        time.sleep(0.3)
        return real_superseded(*given)

    monkeypatch.setattr(submission, "superseded", slow)
    shard = world.shard()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.details[0].code == "held_up"
    assert emulator.creates() == 0
    monkeypatch.undo()
    assert not (await world.submit(shard, attempt=2)).adopted, "what was surely not sent needs no waiting"


async def test_CL_07_a_submission_that_is_cancelled_during_its_create_call_knows_its_batch(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "slow", "seconds": "1h", "times": 1}])
    shard = world.shard()
    environment = ActivityEnvironment()
    running = asyncio.create_task(environment.run(world.activities.submit_batch, SubmitBatch(shard=shard)))
    await emulator.called("batches.create")
    environment.cancel()
    emulator.advance_at_once("2h")
    done = await running
    assert done.batch_id == emulator.state()["batches"][0]["id"]
    assert read_log(world.store, shard).created_id == done.batch_id


async def test_TE_06_a_submission_that_is_cancelled_while_it_uploads_stops_and_sends_nothing(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "action": "slow", "seconds": "1h", "times": 1}])
    environment = ActivityEnvironment()
    running = asyncio.create_task(environment.run(world.activities.submit_batch, SubmitBatch(shard=world.shard())))
    await emulator.called("files.create")
    environment.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert emulator.creates() == 0


async def test_a_stopped_shard_without_a_batch_can_never_get_one(world, emulator):
    shard = world.shard()
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=""))
    assert (status.phase, status.batch_id) == ("cancelled", "")
    done = await world.submit(shard)
    assert (done.batch_id, done.report.unanswered) == ("", {ErrorClass.not_sent: 10})
    assert done.report.error.code == NOT_TO_BE_SENT
    assert emulator.creates() == 0


async def test_promise_3_a_shard_whose_requests_were_answered_before_it_was_sent_is_not_sent_any_more(world, emulator):
    shard = world.shard(10)
    write_answered(world.store, shard.job.tenant, shard.job.key, 0, np.array([7], np.uint32))
    done = await world.submit(shard)
    assert (done.report.outcomes, done.report.error.code) == ({Outcome.cancelled: 10}, NOT_TO_BE_SENT)
    assert "1 of its 10 requests were answered" in done.report.error.message
    assert read_log(world.store, shard).closed
    assert (emulator.creates(), emulator.state()["files"]) == (0, [])


async def test_a_shard_that_was_sent_before_its_requests_were_answered_keeps_its_batch(world, emulator):
    shard = world.shard(10)
    first = await world.submit(shard)
    write_answered(world.store, shard.job.tenant, shard.job.key, 0, np.array([7], np.uint32))
    again = await world.again().submit(shard)
    assert (again.batch_id, again.adopted, again.report) == (first.batch_id, True, None)
    assert emulator.creates() == 1


async def test_stopping_an_unknown_submission_finds_its_batch_and_cancels_it(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_after", "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=""))
    assert status.phase in {"cancelling", "cancelled"}
    assert status.batch_id == emulator.state()["batches"][0]["id"]


async def test_stopping_an_unknown_submission_waits_until_its_absence_is_proven(make_world, emulator):
    world = make_world(create_visibility_s=DOUBT_S)
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_before", "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    request = CancelBatch(shard=shard, batch_id="")
    with pytest.raises(ApplicationError) as soon:
        await attempt_of(world.activities.cancel_batch, request)
    assert benign(soon.value)
    status, _ = await attempts_of(world.activities.cancel_batch, request)
    assert (status.phase, status.batch_id) == ("cancelled", "")


async def test_a_key_that_is_revoked_does_not_end_the_looking_for_a_stopped_shard(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_after", "times": 1}])
    shard, elsewhere = world.shard(), world.shard()
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    emulator.faults(calls=[{"call": "batches.list", "action": "error", "status": 401, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=""))
    assert failure.value.type == "provider.account"
    assert not failure.value.non_retryable
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=""))
    assert status.batch_id == emulator.state()["batches"][0]["id"]
    emulator.faults(calls=[{"call": "batches.list", "action": "error", "status": 401, "times": 1}])
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=elsewhere, batch_id=""))
    assert (status.phase, status.batch_id) == ("cancelled", ""), "nothing was ever sent for it"
