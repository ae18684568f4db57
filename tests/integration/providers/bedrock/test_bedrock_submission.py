"""Find or create: Bedrock keeps a token, and is looked at first all the same."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from bedrock_world import CHAT
from groupage.activities import submission
from groupage.activities.providers.base import Submission
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from groupage.store import keys
from provider_world import attempt_of
from temporalio.exceptions import ApplicationError


async def test_a_token_makes_one_job_however_often_it_is_sent(world, emulator):
    ref = await world.planned()
    submitted = await world.submit(ref)
    again = await world.adapter.create(world.submission(ref), submitted.input_files)
    assert again.batch_id == submitted.batch_id
    assert len(emulator.state()["batches"]) == 1


async def test_a_token_with_other_parameters_is_a_doubt_and_no_refusal(world):
    ref = await world.planned()
    submitted = await world.submit(ref)
    other = Submission(ref.tag, CHAT, "anthropic.claude-3-haiku-20240307-v1:0", world.folder, 10, datetime.now(UTC))
    with pytest.raises(AmbiguousCreate) as error:
        await world.adapter.create(other, submitted.input_files)
    assert error.value.code == "ConflictException"


async def test_SU_02_a_create_in_doubt_that_is_sent_again_hours_later_is_the_same_create(world, emulator, monkeypatch):
    """The worker is killed before it has written down what it made, and no listing shows the job: only the token tells
    that there is one, if all else is equal.
    """
    emulator.faults(calls=[{"call": "batches.create", "nth": [1], "action": "lag", "seconds": "100h"}])
    ref = await world.planned()
    request = SubmitBatch(shard=ref, deadline_at=datetime.now(UTC) + timedelta(hours=72, minutes=1))
    first = await attempt_of(world.activities.submit_batch, request)
    monkeypatch.setattr(submission, "_now", lambda: datetime.now(UTC) + timedelta(hours=5))
    submitted = await attempt_of(world.killed().activities.submit_batch, request)
    assert submitted.batch_id == first.batch_id
    emulator.advance_at_once("100h")
    job = boto3.client("bedrock").get_model_invocation_job(jobIdentifier=submitted.batch_id)
    assert (job["clientRequestToken"], job["timeoutDurationInHours"]) == (ref.tag, 72)
    assert (emulator.creates(), len(emulator.state()["batches"])) == (2, 1)


@pytest.mark.parametrize(
    ("deadline", "hours"), [(timedelta(hours=6), 24), (timedelta(days=2, minutes=5), 48), (timedelta(days=30), 168)]
)
async def test_a_job_may_take_until_the_deadline(world, deadline, hours):
    ref = await world.planned()
    request = SubmitBatch(shard=ref, deadline_at=datetime.now(UTC) + deadline)
    submitted = await attempt_of(world.activities.submit_batch, request)
    job = boto3.client("bedrock").get_model_invocation_job(jobIdentifier=submitted.batch_id)
    assert job["timeoutDurationInHours"] == hours


async def test_a_shard_of_an_older_version_keeps_the_time_that_it_was_sent_with(world):
    ref = await world.planned()
    key = keys.shard_object(ref.job.tenant, ref.job.key, ref.round, ref.shard, submission.UPLOAD)
    world.store.put(key, b'{"at": "2026-11-29T10:00:00Z"}')
    request = SubmitBatch(shard=ref, deadline_at=datetime.now(UTC) + timedelta(days=3))
    submitted = await attempt_of(world.activities.submit_batch, request)
    job = boto3.client("bedrock").get_model_invocation_job(jobIdentifier=submitted.batch_id)
    assert job["timeoutDurationInHours"] == 24


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
        await world.adapter.upload(world.submission(ref))
    with pytest.raises(ProviderError, match="no role"):
        await world.adapter.create(world.submission(ref), ["s3://groupage/x"])
