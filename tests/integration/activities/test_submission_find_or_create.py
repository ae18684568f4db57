"""Promise 2: no answer is paid for twice because of us. Real emulator, real SDK, real store."""

import orjson
import pytest
from groupage.activities.intents import read_log
from groupage.activities.providers.base import ResultFile
from groupage.activities.providers.openai import OpenAIProvider
from groupage.schemas import ErrorClass
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.ids import decode_wire_id
from provider_world import ENDPOINT, attempts_of, benign
from temporalio.exceptions import ApplicationError
from worlds import DOUBT_S, KilledError, submitted_in_the_end


class DiesAfterCreate(OpenAIProvider):
    async def create(self, submission, files):
        await super().create(submission, files)
        raise KilledError


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
    await world.adapter.download(ResultFile("input", file["id"]), text)
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
    emulator.faults(calls=[{"call": "batches.create", "action": "lag", "seconds": "1h", "times": 1}])
    shard = world.shard()
    world.use(DiesAfterCreate("openai", world.settings.providers["openai"]))
    with pytest.raises(KilledError):
        await world.submit(shard)

    retry = world.again()
    with pytest.raises(ApplicationError) as unseen:
        await retry.submit(shard, attempt=2)
    assert (benign(unseen.value), unseen.value.type) == (True, "waiting")
    emulator.advance_at_once("2h")
    done, failures = await submitted_in_the_end(retry, shard)
    assert not failures, "it is seen as soon as it shows"
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


@pytest.mark.parametrize("action", ["html", "drop_before"])
async def test_SU_02_a_create_that_was_not_accepted_is_sent_again_only_when_absence_is_proven(
    make_world, emulator, action
):
    world = make_world(create_visibility_s=DOUBT_S)
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
    extra = await (await world.adapter._sdk()).batches.create(
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


async def test_a_partial_upload_is_deleted_and_uploaded_again(world, emulator):
    shard = world.shard()
    emulator.faults(calls=[{"call": "batches.create", "action": "error", "status": 429, "times": 1}])
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    (whole,) = emulator.state()["files"]
    await world.adapter.delete("file", whole["id"])
    stub = await (await world.adapter._sdk()).files.create(file=(whole["filename"], b"{}\n"), purpose="batch")

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


async def test_QU_06_an_upload_that_has_nowhere_to_go_asks_after_three_times(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "action": "error", "status": 404, "message": "no such API"}])
    with pytest.raises(ApplicationError) as failure:
        await attempts_of(world.activities.submit_batch, SubmitBatch(shard=world.shard()))
    assert failure.value.type == "provider.account"
    assert "base_url" in failure.value.message
    assert emulator.state()["calls"]["files.create"] == 3
    assert emulator.creates() == 0
