"""Promise 2: no answer is paid for twice because of us. Real emulator, real SDK, real store."""

import asyncio
import threading
from datetime import timedelta

import numpy as np
import orjson
import pytest
from groupage.activities import submission
from groupage.activities.intents import read_log
from groupage.activities.providers.base import ResultFile
from groupage.activities.providers.openai import OpenAIProvider
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.activity_calls import CancelBatch, SubmitBatch
from groupage.schemas.batches import NOT_TO_BE_SENT
from groupage.schemas.errors import StoreError
from groupage.schemas.ids import decode_wire_id
from groupage.store.objects import Store
from groupage.store.shards import write_answered
from provider_world import ENDPOINT, attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment


class KilledError(BaseException):
    """Stands for a process that is gone: nothing of ours catches it."""


class DiesAfterCreate(OpenAIProvider):
    async def create(self, submission, files):
        await super().create(submission, files)
        raise KilledError


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


async def submitted_in_the_end(world, shard, **fields):
    return await attempts_of(world.activities.submit_batch, SubmitBatch(shard=shard, **fields), most=60)


async def test_a_shard_becomes_one_batch_with_our_tag_and_our_ids(world, emulator):
    shard = world.shard(12)
    done = await world.submit(shard)

    (batch,) = emulator.state()["batches"]
    assert batch["id"] == done.batch_id
    assert batch["metadata"]["groupage_tag"] == shard.tag
    (file,) = emulator.state()["files"]
    assert file["filename"] == f"{shard.tag}.jsonl"
    assert done.input_files == [file["id"]]
    assert not done.adopted
    assert done.requests == 12
    text = world.folder / "back"
    await world.provider.download(ResultFile("input", file["id"]), text)
    lines = [orjson.loads(line) for line in text.read_bytes().split(b"\n")[:-1]]
    assert [decode_wire_id(line["custom_id"]).index for line in lines] == list(range(12))
    assert {line["url"] for line in lines} == {ENDPOINT}
    assert lines[3]["body"]["messages"][0]["content"].endswith("question 3")
    assert b"caller/" not in text.read_bytes(), "the caller's id is never sent"


async def test_submitting_again_returns_the_same_batch(world, emulator):
    shard = world.shard()
    first = await world.submit(shard)
    second = await world.again().submit(shard)
    assert (second.batch_id, second.adopted) == (first.batch_id, True)
    assert second.input_files == first.input_files
    assert emulator.creates() == 1


async def test_SU_01_a_worker_killed_after_create_leaves_a_batch_that_the_retry_adopts(world, emulator):
    shard = world.shard()
    world.use(DiesAfterCreate("openai", world.settings.providers["openai"]))
    with pytest.raises(KilledError):
        await world.submit(shard)

    retry = world.again()
    done = await retry.submit(shard, attempt=2)
    assert done.adopted
    assert emulator.creates() == 1
    assert len(emulator.state()["batches"]) == 1
    assert len(emulator.state()["files"]) == 1


async def test_SU_01_even_if_listings_lag_behind_for_a_while(world, emulator):
    """The batch is there and billed, but no listing shows it: absence is not proven by one look."""
    emulator.faults(calls=[{"call": "batches.create", "action": "lag", "seconds": "2s", "times": 1}])
    shard = world.shard()
    world.use(DiesAfterCreate("openai", world.settings.providers["openai"]))
    with pytest.raises(KilledError):
        await world.submit(shard)

    retry = world.again()
    done, failures = await submitted_in_the_end(retry, shard)
    assert failures
    assert all(benign(failure) and failure.type == "waiting" for failure in failures)
    assert done.adopted
    assert emulator.creates() == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "drop_after"},
        {"action": "error_after", "status": 500},
        {"action": "error_after", "status": 503},
        {"action": "error_after", "status": 408},
        {"action": "error_after", "status": 409},
        {"action": "error_after", "status": 529},
    ],
    ids=["reset", "500", "503", "408", "409", "529"],
)
async def test_SU_02_a_create_that_was_accepted_but_answered_badly_is_adopted(world, emulator, fault):
    emulator.faults(calls=[{"call": "batches.create", "times": 1, **fault}])
    shard = world.shard()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "provider.transient"
    assert not failure.value.non_retryable
    assert read_log(world.store, shard).end.outcome == "unknown"

    done = await world.submit(shard, attempt=2)
    assert done.adopted
    assert emulator.creates() == 1


async def test_SU_02_a_create_without_an_answer_in_time_is_unknown_and_then_adopted(make_world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "slow", "seconds": "5s", "times": 1}])
    world = make_world(provider={"create_timeout_s": 2.0})
    shard = world.shard()
    with pytest.raises(ApplicationError, match="no answer within"):
        await world.submit(shard)
    assert (await world.submit(shard, attempt=2)).adopted
    assert emulator.creates() == 1


@pytest.mark.parametrize("action", ["html", "drop_before"])
async def test_SU_02_a_create_that_was_not_accepted_is_sent_again_only_when_absence_is_proven(world, emulator, action):
    emulator.faults(calls=[{"call": "batches.create", "action": action, "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    with pytest.raises(ApplicationError) as soon:
        await world.submit(shard, attempt=2)
    assert benign(soon.value)
    assert emulator.creates() == 1, "nothing is sent again while it is unknown"

    done, _ = await submitted_in_the_end(world, shard)
    assert not done.adopted
    assert emulator.creates() == 2
    assert len(emulator.state()["batches"]) == 1


async def test_a_worker_killed_between_intent_and_call_waits_for_the_whole_window(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.intents.CREATE_TIMEOUT_MIN_S", 0.5)
    shard = world.shard()
    world.use(DiesBeforeCreate("openai", world.settings.providers["openai"]))
    with pytest.raises(KilledError):
        await world.submit(shard)
    retry = world.again()
    done, failures = await submitted_in_the_end(retry, shard)
    assert failures, "it looked more than once"
    assert not done.adopted
    assert emulator.creates() == 1


async def test_SU_04_one_attempt_sends_one_post_whatever_the_answer(world, emulator):
    for status in (500, 409, 408, 429, 503):
        emulator.reset()
        emulator.faults(calls=[{"call": "batches.create", "action": "error", "status": status}])
        with pytest.raises(ApplicationError):
            await world.submit(world.shard())
        assert emulator.creates() == 1, status


async def test_SU_04_two_failures_after_accepting_make_no_second_batch(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "error_after", "status": 500, "times": 2}])
    done, _ = await submitted_in_the_end(world, world.shard())
    assert done.adopted
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
    emulator.faults(calls=[{"call": "batches.create", "action": "slow", "seconds": "1s", "times": 1}])
    shard = world.shard()
    environment = ActivityEnvironment()
    running = asyncio.create_task(environment.run(world.activities.submit_batch, SubmitBatch(shard=shard)))
    await emulator.called("batches.create")
    environment.cancel()
    done = await running
    assert done.batch_id == emulator.state()["batches"][0]["id"]
    assert read_log(world.store, shard).created_id == done.batch_id


async def test_TE_06_a_submission_that_is_cancelled_while_it_uploads_stops_and_sends_nothing(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "action": "slow", "seconds": "20s", "times": 1}])
    environment = ActivityEnvironment()
    running = asyncio.create_task(environment.run(world.activities.submit_batch, SubmitBatch(shard=world.shard())))
    await emulator.called("files.create")
    environment.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert emulator.creates() == 0


async def test_a_provider_that_cannot_be_reached_is_retried_without_a_window(world, emulator):
    shard = world.shard()

    class Unplugged(OpenAIProvider):
        async def create(self, submission, files):
            self._settings = type(self._settings)(base_url="http://127.0.0.1:9/v1", api_key="k")
            await self.close()
            try:
                return await super().create(submission, files)
            finally:
                await self.close()

    world.use(Unplugged("openai", world.settings.providers["openai"]))
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.details[0].code == "not_connected"
    assert read_log(world.store, shard).end.outcome == "not_sent"
    retry = world.again()
    assert not (await retry.submit(shard, attempt=2)).adopted
    assert emulator.creates() == 1


async def test_a_second_batch_with_the_tag_is_found_cancelled_and_reported(world, emulator):
    shard = world.shard()
    first = await world.submit(shard)
    extra = await (await world.provider._sdk()).batches.create(
        endpoint=ENDPOINT,
        input_file_id=first.input_files[0],
        completion_window="24h",
        metadata={"groupage_tag": shard.tag},
    )
    again = await world.submit(shard, attempt=2)
    assert again.batch_id == first.batch_id, "the recorded one counts"
    assert again.duplicates == [extra.id]
    states = {batch["id"]: batch["status"] for batch in emulator.state()["batches"]}
    assert states[extra.id] in {"cancelling", "cancelled"}
    assert states[first.batch_id] not in {"cancelling", "cancelled"}


async def test_QU_01_the_same_file_goes_again_as_a_new_batch_once_the_dead_one_is_known(world, emulator):
    emulator.faults(batches=[{"effect": "token_limit", "times": 1}])
    shard = world.shard()
    first = await world.submit(shard)
    emulator.advance_at_once("20m")
    dead, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, first.batch_id))
    assert dead.phase == "failed"
    assert dead.error.error_class is ErrorClass.quota
    assert dead.error.code == "token_limit_exceeded"

    second = await world.submit(shard, not_ids=[first.batch_id])
    assert second.batch_id != first.batch_id
    assert not second.adopted
    assert second.input_files == first.input_files
    assert len(emulator.state()["files"]) == 1
    assert (await world.submit(shard, attempt=2, not_ids=[first.batch_id])).batch_id == second.batch_id


async def test_QU_07_a_file_over_a_size_limit_is_refused_for_good_and_the_reason_is_kept(world, emulator):
    emulator.faults(
        calls=[
            {
                "call": "batches.create",
                "action": "error",
                "status": 400,
                "code": "invalid_request_error",
                "message": "Too many tokens in batch: 130000, at most 120000.",
            }
        ]
    )
    shard = world.shard()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "provider.too_large"
    assert failure.value.non_retryable
    assert failure.value.details[0].error_class is ErrorClass.too_large
    key = f"tests/jobs/{shard.job.key}/shards/0-0/refused.json"
    assert b"Too many tokens" in world.store.get(key)


@pytest.mark.parametrize(
    ("status", "error_class"), [(400, "invalid"), (401, "account"), (403, "account"), (413, "too_large")]
)
async def test_CL_06_the_input_of_a_refused_create_is_removed(world, emulator, status, error_class):
    emulator.faults(calls=[{"call": "batches.create", "action": "error", "status": status}])
    with pytest.raises(ApplicationError) as failure:
        await world.submit(world.shard())
    assert failure.value.type == f"provider.{error_class}"
    assert failure.value.non_retryable
    assert emulator.state()["files"] == []


async def test_SDK_06_a_429_with_retry_after_is_obeyed(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "error", "status": 429, "retry_after": 50, "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "provider.rate_limit"
    assert failure.value.next_retry_delay >= timedelta(seconds=50)
    assert not (await world.submit(shard, attempt=2)).adopted


async def test_a_partial_upload_is_deleted_and_uploaded_again(world, emulator):
    shard = world.shard()
    emulator.faults(calls=[{"call": "batches.create", "action": "error", "status": 429, "times": 1}])
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    (whole,) = emulator.state()["files"]
    await world.provider.delete("file", whole["id"])
    stub = await (await world.provider._sdk()).files.create(file=(whole["filename"], b"{}\n"), purpose="batch")

    done = await world.submit(shard, attempt=2)
    (file,) = emulator.state()["files"]
    assert file["id"] != stub.id
    assert file["bytes"] == whole["bytes"]
    assert done.input_files == [file["id"]]


async def test_an_upload_whose_answer_was_lost_is_found_by_its_name(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "action": "drop_after", "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "provider.transient"
    await world.submit(shard, attempt=2)
    assert len(emulator.state()["files"]) == 1


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


async def test_stopping_an_unknown_submission_waits_until_its_absence_is_proven(world, emulator):
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


async def test_a_key_that_is_revoked_while_a_create_is_unknown_does_not_end_the_looking(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_after", "times": 1}])
    shard = world.shard()
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    emulator.faults(calls=[{"call": "batches.list", "action": "error", "status": 401, "times": 1}])
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard, attempt=2)
    assert failure.value.type == "provider.account"
    assert not failure.value.non_retryable
    assert (await world.submit(shard, attempt=3)).adopted


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


async def test_every_batch_of_a_long_listing_is_looked_at(world, emulator):
    """The one that is looked for is on the second page."""
    shard = world.shard()
    first = await world.submit(shard)
    sdk = await world.provider._sdk()
    for _ in range(101):
        await sdk.batches.create(endpoint=ENDPOINT, input_file_id=first.input_files[0], completion_window="24h")
    found = await world.provider.find(shard.tag, since=None, not_ids=[])
    assert found is not None
    assert found.batch_id == first.batch_id
