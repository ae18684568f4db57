"""Find or create: Bedrock keeps a token, and is looked at first all the same."""

import asyncio
from datetime import UTC, datetime

import boto3
import pytest
from bedrock_world import CHAT, CLAUDE, objects
from groupage.activities.providers.base import Submission
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from provider_world import attempts_of
from temporalio.exceptions import ApplicationError

CALL = "batches.create"


def jobs_at(emulator):
    return emulator.state()["batches"]


async def test_SU_01_a_worker_killed_after_create_adopts_the_job(world, emulator):
    ref = await world.planned()
    first = await world.submit(ref)
    store = world.store
    store.delete([key for key in store.list("default/") if "/intents/" in key or key.endswith("batch.json")])
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


@pytest.mark.parametrize(
    "fault",
    [{"action": "drop_after"}, {"action": "error_after", "status": 500}, {"action": "slow", "seconds": "30s"}],
    ids=["SU-02 reply lost", "SU-04 500 though accepted", "timeout"],
)
async def test_SU_02_an_ambiguous_create_is_looked_for_and_adopted(make_world, emulator, fault):
    world = make_world(provider={"create_timeout_s": 3.0})
    emulator.faults(calls=[{"call": CALL, "nth": [1], **fault}])
    ref = await world.planned()
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert submitted.adopted
    assert failures[0].type == "provider.transient"
    assert emulator.creates() == 1, "boto3 sent it once"
    assert len(jobs_at(emulator)) == 1


async def test_SU_02_a_create_that_was_never_done_is_done_after_the_window(world, emulator):
    emulator.faults(calls=[{"call": CALL, "nth": [1], "action": "drop_before"}])
    ref = await world.planned()
    submitted, failures = await attempts_of(world.activities.submit_batch, SubmitBatch(shard=ref))
    assert not submitted.adopted
    assert failures
    assert (emulator.creates(), len(jobs_at(emulator))) == (2, 1)


def _submission(world, ref, **more):
    path = world.folder / "none.jsonl"
    path.touch()
    return Submission(ref.tag, CHAT, CLAUDE, path, 10, datetime.now(UTC), **more)


async def test_a_token_makes_one_job_however_often_it_is_sent(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    again = await world.adapter.create(_submission(world, ref), submitted.input_files)
    assert again.batch_id == submitted.batch_id
    assert len(jobs_at(emulator)) == 1


async def test_a_dead_jobs_token_is_not_used_again(world, emulator):
    ref = await world.planned()
    dead = (await world.submit(ref)).batch_id
    made = await world.adapter.create(_submission(world, ref, not_ids=(dead,)), [f"s3://groupage/{objects()[0]}"])
    assert made.batch_id != dead
    found = await world.adapter.find(ref.tag, since=None, not_ids=[dead])
    assert (found.batch_id, found.tag) == (made.batch_id, ref.tag)
    both = await world.adapter.find(ref.tag, since=world.started_at, not_ids=[])
    assert "more jobs carry the tag" in both.warning


async def test_a_token_with_other_parameters_is_a_doubt_and_no_refusal(world):
    ref = await world.planned()
    submitted = await world.submit(ref)
    other = Submission(ref.tag, CHAT, "anthropic.claude-3-haiku-20240307-v1:0", world.folder, 10, datetime.now(UTC))
    with pytest.raises(AmbiguousCreate) as error:
        await world.adapter.create(other, submitted.input_files)
    assert error.value.code == "ConflictException"


async def test_shard_1_is_not_found_for_shard_10(world):
    ref = await world.planned()
    await world.submit(ref)
    tag = ref.tag
    assert tag.endswith("-s0")
    assert await world.adapter.find(tag[:-1], since=None, not_ids=[]) is None
    assert (await world.adapter.find(tag, since=None, not_ids=[])).tag == tag


async def test_the_listing_is_read_to_its_end(world, emulator, monkeypatch):
    monkeypatch.setattr("groupage.activities.providers.bedrock.PAGE", 2)
    refs = [await world.planned() for _ in range(5)]
    for ref in refs:
        await world.submit(ref)
    owner = refs[0].tag[1:7]
    listed = [one async for one in world.adapter.list_ours(owner) if one.kind == "batch"]
    assert {one.tag for one in listed} == {ref.tag for ref in refs}


@pytest.mark.parametrize(
    ("status", "code", "kind", "final"),
    [
        (400, "ServiceQuotaExceededException", "quota", True),
        (429, "ThrottlingException", "rate_limit", False),
        (403, "AccessDeniedException", "account", True),
        (403, "ExpiredTokenException", "account", True),
        (400, "ValidationException", "invalid", True),
        (500, "InternalServerException", "transient", False),
        (503, "ServiceUnavailableException", "transient", False),
        (404, "ResourceNotFoundException", "transient", False),
    ],
)
async def test_errors_of_create_are_classed_by_us(world, emulator, status, code, kind, final):
    emulator.faults(calls=[{"call": CALL, "action": "error", "status": status, "code": code, "times": 1}])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == (f"provider.{kind}", final)
    assert emulator.creates() == 1
    # CL-06: what is refused for good leaves no input; what waits keeps it.
    assert bool(objects()) == (kind not in {"invalid", "account"})


async def test_QU_a_quota_of_jobs_is_waited_for_and_the_same_input_goes_again(world, emulator):
    emulator.faults(
        calls=[{"call": CALL, "action": "error", "status": 400, "code": "ServiceQuotaExceededException", "times": 1}]
    )
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert failure.value.type == "provider.quota"
    assert (await world.submit(ref)).batch_id
    assert len(jobs_at(emulator)) == 1


async def test_an_input_that_is_gone_before_the_job_is_made_is_no_endless_loop(world):
    ref = await world.planned()
    with pytest.raises(ProviderError) as error:
        await world.adapter.create(_submission(world, ref), ["s3://groupage/groupage/nothing/input.jsonl"])
    assert error.value.error_class.value == "invalid"


async def test_without_credentials_bucket_or_role_a_person_is_asked(make_world, monkeypatch):
    world = make_world()
    ref = await world.planned()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(world.folder))
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == ("provider.account", True)
    for name in ("GROUPAGE_BEDROCK_BUCKET", "GROUPAGE_BEDROCK_ROLE_ARN"):
        monkeypatch.delenv(name)
    world.restarted()
    with pytest.raises(ProviderError, match="no bucket"):
        await world.adapter.upload(_submission(world, ref))
    with pytest.raises(ProviderError, match="no role"):
        await world.adapter.create(_submission(world, ref), ["s3://groupage/x"])


async def test_a_cancelled_upload_ends_in_seconds_and_leaves_no_object(world):
    path = world.folder / "big.jsonl"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    ref = await world.planned()
    task = asyncio.create_task(world.adapter.upload(Submission(ref.tag, CHAT, CLAUDE, path, 1, datetime.now(UTC))))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert objects() == []
    uploads = boto3.client("s3").list_multipart_uploads(Bucket="groupage").get("Uploads") or []
    assert uploads == [], "the parts that were sent are given up"
