"""Find or create: Bedrock keeps a token, and is looked at first all the same."""

from datetime import UTC, datetime

import pytest
from bedrock_world import CHAT
from groupage.activities.providers.base import Submission
from groupage.schemas.errors import AmbiguousCreate, ProviderError
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
