"""Each server that speaks OpenAI's dialect: one adapter, differences only as data, nothing paid twice."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from compatible_world import FLAVOURS, url_of
from groupage.activities.providers.base import Submission
from groupage.emulator.answers import expected_text
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import ProviderError
from job_world import CHAT, chat_body
from openai import AsyncOpenAI
from provider_world import attempt_of, attempts_of
from temporalio.exceptions import ApplicationError

REFUSED = {"requests": [{"kind": "http", "status": 400, "match": "question number 3 ?"}]}


async def seen(world, batch_id: str):
    """The batch as the server shows it, through the SDK's own model."""
    async with AsyncOpenAI(base_url=url_of(world.emulator, world.flavour), api_key="test", max_retries=0) as client:
        return await client.batches.retrieve(batch_id)


async def test_a_job_is_answered_joined_and_leaves_nothing(world, emulator):
    emulator.faults(**REFUSED)
    ref = await world.planned(12)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert (status.phase, status.warning) == (BatchPhase.completed, "")
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 11, Outcome.failed: 1}
    assert report.unanswered == {ErrorClass.invalid: 1}
    assert (report.quarantined, report.count_mismatch) == (0, "")
    assert (await world.clean_up(ref, submitted, status)).left_behind == []
    assert emulator.state()["files"] == []
    await world.finalize(1)
    rows = world.results()
    assert [row["id"] for row in rows] == [f"id {n}" for n in range(12)]
    for n, row in enumerate(rows):
        assert row["text"] == (None if n == 3 else expected_text(CHAT, chat_body(n, world.model)))
    assert emulator.creates() == 1
    assert emulator.ledger()["questions_answered_more_than_once"] == 0


async def test_SU_01_a_new_process_adopts_the_batch_that_is_there(world, emulator):
    ref = await world.planned(5)
    first = await world.submit(ref)
    # Nothing of the submission is remembered but what the server shows.
    found = await world.adapter.find(ref.tag, since=None, not_ids=())
    assert found is not None
    assert (found.batch_id, found.tag) == (first.batch_id, ref.tag)
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


async def test_SU_02_a_create_whose_reply_is_lost_is_found_and_not_repeated(world, emulator):
    emulator.faults(calls=[{"call": "batches.create", "action": "drop_after", "times": 1}])
    ref = await world.planned(5)
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert len(failures) == 1
    assert submitted.adopted
    assert (emulator.creates(), len(emulator.state()["batches"])) == (1, 1)


async def test_an_upload_whose_reply_is_lost_is_found_by_its_name(world, emulator):
    emulator.faults(calls=[{"call": "files.create", "action": "drop_after", "times": 1}])
    ref = await world.planned(5)
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert len(failures) == 1
    (file,) = emulator.state()["files"]
    assert submitted.input_files == [file["id"]]


async def test_a_cancelled_batch_settles_whatever_its_state_is_called(world, emulator):
    emulator.faults(batches=[{"effect": "stall", "at": 0.5}])
    ref = await world.planned(8)
    submitted = await world.submit(ref)
    emulator.advance("30m")
    assert (await world.adapter.status(submitted.batch_id)).phase is BatchPhase.in_progress
    assert (await world.adapter.cancel(submitted.batch_id)).phase in {BatchPhase.cancelling, BatchPhase.cancelled}
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.phase is BatchPhase.cancelled
    assert (await world.adapter.cancel(submitted.batch_id)).phase is BatchPhase.cancelled, "PO-16: no error"
    report = await world.collect(ref, status, submitted)
    assert report.outcomes[Outcome.succeeded] == 4
    assert report.outcomes[Outcome.cancelled] == 4


async def test_the_sweep_sees_what_carries_our_tag(world, emulator):
    emulator.faults(**REFUSED)
    ref = await world.planned(5)
    submitted = await world.submit(ref)
    emulator.finish()
    ours = [one async for one in world.adapter.list_ours(await world.context.owner())]
    batches = [one.id for one in ours if one.kind == "batch"]
    files = {one.id for one in ours if one.kind == "file"}
    # Where the server keeps no metadata, a batch shows nothing of ours: its input file does.
    assert batches == ([submitted.batch_id] if world.flavour not in {"alibaba", "odd"} else [])
    assert set(submitted.input_files) <= files
    # AIBrix lists inputs alone.
    if batches and world.flavour != "aibrix":
        assert files == {file["id"] for file in emulator.state()["files"]}, "results too, by whatever purpose"
    assert [one async for one in world.adapter.list_ours("zzzzzz")] == []


async def test_what_is_left_goes_by_sync(world):
    await world.prepare([{"id": f"id {n}", "body": chat_body(n, world.model)} for n in range(3)])
    plan = await world.plan(first_route="sync")
    assert (plan.batch_shards, plan.sync_shards) == (0, 1)
    report = await world.run_sync(0)
    assert report.outcomes == {Outcome.succeeded: 3}


async def test_the_files_expiry_is_told_only_where_it_is_understood(world, emulator):
    ref = await world.planned(2)
    submitted = await world.submit(ref)
    async with AsyncOpenAI(base_url=url_of(emulator, world.flavour), api_key="test", max_retries=0) as client:
        file = await client.files.retrieve(submitted.input_files[0])
    assert file.expires_at is not None
    days = (file.expires_at - file.created_at) / 86_400
    assert days == (14 if world.flavour == "doubleword" else 30)


@pytest.mark.parametrize(
    ("flavour", "left", "window"),
    [
        ("groq", timedelta(hours=6), "24h"),
        ("groq", timedelta(days=3.5), "3d"),
        ("groq", timedelta(days=60), "7d"),
        ("alibaba", timedelta(days=60), "14d"),
        ("doubleword", timedelta(hours=6), "1h"),
        ("doubleword", timedelta(hours=24), "24h"),
        ("aibrix", timedelta(hours=7), "6h"),
        ("litellm", timedelta(days=3), "24h"),
    ],
)
async def test_the_window_follows_the_jobs_deadline_where_there_is_a_choice(make_world, flavour, left, window):
    world = make_world(flavour)
    ref = await world.planned(2)
    request = SubmitBatch(shard=ref, deadline_at=datetime.now(UTC) + left)
    submitted = await attempt_of(world.activities.submit_batch, request)
    assert (await seen(world, submitted.batch_id)).completion_window == window


async def test_a_profiles_window_wins(make_world):
    world = make_world("groq", provider={"completion_window": "5d"})
    ref = await world.planned(2)
    submitted = await world.submit(ref)
    assert (await seen(world, submitted.batch_id)).completion_window == "5d"


async def test_a_batch_whose_every_request_failed_is_read_line_by_line_though_it_is_called_failed(make_world, emulator):
    emulator.faults(batches=[{"effect": "only_errors", "status": 400}])
    world = make_world("doubleword")
    ref = await world.planned(4)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    assert status.phase is BatchPhase.failed
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.failed: 4}
    assert report.unanswered == {ErrorClass.invalid: 4}


@pytest.mark.parametrize(
    ("flavour", "name", "told"),
    [
        ("groq", "openai", "unknown_parameter"),
        ("odd", "openai", "unknown_parameter"),
        ("alibaba", "openai-compatible", "Invalid metadata"),
        ("aibrix", "openai-compatible", "aibrix.model_template.name is required"),
    ],
)
async def test_without_its_profile_a_server_refuses_us(make_world, flavour: str, name: str, told: str):
    """The differences are real: what OpenAI understands is an error there."""
    world = make_world(flavour, name=name)
    ref = await world.planned(2)
    with pytest.raises(ApplicationError, match="400") as caught:
        await world.submit(ref)
    assert told in str(caught.value) or told in str(caught.value.details), caught.value


async def test_a_header_that_a_server_wants_comes_from_the_profile(make_world):
    world = make_world("litellm", provider={"extra_headers": {}})
    ref = await world.planned(2)
    with pytest.raises(ApplicationError, match="x-litellm-model"):
        await world.submit(ref)


async def test_a_key_that_is_missing_is_told_by_its_variable(make_world, monkeypatch):
    for flavour, name in FLAVOURS.items():
        world = make_world(flavour, provider={"base_url": None, "api_key": None})
        facts = world.adapter.facts("")
        for variable in (facts.api_key_env, facts.base_url_env):
            if variable is not None:
                monkeypatch.delenv(variable.value, raising=False)
        with pytest.raises(ProviderError) as caught:
            await world.adapter.find("g", since=None, not_ids=())
        wanted = facts.api_key_env if facts.base_url else facts.base_url_env
        assert (wanted.value if wanted else f"{name}: no address is known") in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("flavour", ["groq", "aibrix"])
async def test_a_file_as_large_as_the_catalog_allows_is_taken_and_a_larger_one_is_refused(make_world, flavour: str):
    world = make_world(flavour)
    most = world.adapter.limits(CHAT, world.model).max_bytes
    path = world.folder / "large"
    path.touch()

    def submission(size: int) -> Submission:
        os.truncate(path, size)
        return Submission("gabcdef-x-r0-s0", CHAT, world.model, path, 1, datetime.now(UTC))

    (taken,) = await world.adapter.upload(submission(most))
    await world.adapter.delete("file", taken)
    with pytest.raises(ProviderError) as caught:
        await world.adapter.upload(submission(105 * 1024 * 1024))
    assert (caught.value.status, caught.value.error_class) == (413, ErrorClass.too_large)
