"""Keys and Entra tokens: which one is used, how it is renewed, and what is said when there is none."""

import orjson
import pytest
from azure_world import CHAT, DEPLOYMENT, LEGACY, identity_of, token_of
from groupage.activities.providers import azure_tokens
from groupage.activities.providers.base import SyncCall
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.activity_calls import SubmitBatch
from groupage.schemas.errors import ProviderError
from job_world import chat_body
from provider_world import attempts_of
from temporalio.exceptions import ApplicationError

SURFACES = pytest.mark.parametrize("version", [{}, LEGACY], ids=["v1", "legacy"])


@pytest.fixture(autouse=True)
def _keyless(emulator, monkeypatch):
    """A key would come first."""
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")


def call():
    return SyncCall("w1", CHAT, orjson.dumps(chat_body(1, DEPLOYMENT)), 10.0)


async def look(world):
    return await world.adapter.find("g-nobody", since=None, not_ids=[])


async def test_a_token_is_asked_for_once_and_used_by_all(token_world):
    for _ in range(3):
        await look(token_world)
        assert (await token_world.adapter.complete(call())).outcome is Outcome.succeeded
    assert token_world.calls("identity.token") == 1


@SURFACES
async def test_a_token_that_is_over_is_renewed(token_world, emulator, monkeypatch, version):
    monkeypatch.setattr(azure_tokens, "FRESH_S", 0.0)
    for name, value in version.items():
        monkeypatch.setenv(name, value)
    await look(token_world)
    emulator.advance("2h")
    with pytest.raises(ProviderError) as refused:
        await look(token_world)
    assert (refused.value.error_class, refused.value.code) == (ErrorClass.transient, "no_token")
    await look(token_world)
    emulator.advance("2h")
    answer = await token_world.adapter.complete(call())
    assert (answer.error_class, answer.code) == (ErrorClass.transient, "no_token"), "another try gets a new one"
    assert (await token_world.adapter.complete(call())).outcome is Outcome.succeeded
    assert token_world.calls("identity.token") == 3


async def test_SU_02_a_create_refused_for_an_old_token_is_no_doubt(token_world, emulator, monkeypatch):
    monkeypatch.setattr(azure_tokens, "FRESH_S", 0.0)
    ref = await token_world.planned()
    adapter = token_world.adapter
    create = adapter.create

    async def late(submission, files):
        emulator.advance("2h")  # the token ends between the upload and the create
        adapter.create = create
        return await create(submission, files)

    adapter.create = late
    submitted, failures = await attempts_of(token_world.activities.submit_batch, SubmitBatch(shard=ref))
    assert [failure.type for failure in failures] == ["provider.transient"], "no window was waited for"
    assert not submitted.adopted
    assert len(emulator.state()["batches"]) == 1


async def test_a_fresh_token_that_is_refused_is_a_matter_for_a_person(token_world, emulator):
    emulator.faults(calls=[{"call": "batches.list", "action": "error", "status": 401}])
    with pytest.raises(ProviderError) as error:
        await look(token_world)
    assert error.value.error_class is ErrorClass.account
    assert "Cognitive Services OpenAI" in error.value.hint


async def test_an_identity_that_fails_after_it_has_worked_is_asked_again(token_world, emulator, monkeypatch):
    monkeypatch.setattr(azure_tokens, "FRESH_S", 0.0)
    await look(token_world)
    emulator.advance("2h")
    emulator.faults(calls=[{"call": "identity.token", "action": "error", "status": 400}])
    for _ in range(2):
        with pytest.raises(ProviderError) as error:
            await look(token_world)
        assert error.value.error_class is ErrorClass.transient
    emulator.faults()
    await look(token_world)


@SURFACES
async def test_a_given_token_is_used_and_cannot_be_renewed(make_world, emulator, monkeypatch, version):
    for name, value in version.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", token_of(emulator))
    world = make_world()
    await look(world)
    asked = world.calls("identity.token")
    emulator.advance("2h")
    with pytest.raises(ProviderError) as error:
        await look(world)
    assert (error.value.error_class, error.value.status) == (ErrorClass.account, 401)
    assert "AZURE_OPENAI_AD_TOKEN" in error.value.hint
    assert world.calls("identity.token") == asked
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", token_of(emulator))
    await look(world)


async def test_a_key_comes_before_tokens(make_world, emulator, monkeypatch):
    for name, value in identity_of(emulator).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "entra.1.bad")
    world = make_world(provider={"api_key": "right"})
    await look(world)
    assert world.calls("identity.token") == 0


@SURFACES
async def test_a_wrong_key_says_so(make_world, monkeypatch, emulator, version):
    for name, value in version.items():
        monkeypatch.setenv(name, value)
    world = make_world(provider={"api_key": "wrong"})
    ref = await world.planned()
    with pytest.raises(ApplicationError, match="not one of this resource") as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == ("provider.account", True)
    assert "wrong" not in str(failure.value).replace("wrong API endpoint", "")
    answer = await world.adapter.complete(call())
    assert answer.error_class is ErrorClass.account


async def test_a_profile_that_names_a_variable_takes_nothing_else(make_world, emulator, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", token_of(emulator))
    with pytest.raises(ProviderError) as error:
        await look(make_world(provider={"api_key_env": "SEARCH_KEY"}))
    assert (error.value.error_class, error.value.code) == (ErrorClass.account, "no_api_key")
    assert "SEARCH_KEY" in error.value.hint


async def test_without_any_credential_a_person_is_told_of_all_of_them(make_world, monkeypatch):
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    world = make_world()
    with pytest.raises(ProviderError) as error:
        await look(world)
    assert (error.value.error_class, error.value.code) == (ErrorClass.account, "no_token")
    for word in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "az login"):
        assert word in error.value.hint
    answer = await world.adapter.complete(call())
    assert answer.error_class is ErrorClass.account


async def test_a_wrong_endpoint_is_told_from_a_batch_that_is_gone(make_world, emulator, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "right")
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", emulator.base_url.removesuffix("/v1") + "/elsewhere/v1")
    with pytest.raises(ProviderError):
        await look(make_world())
    monkeypatch.delenv("AZURE_OPENAI_BASE_URL")
    emulator.faults(calls=[{"call": "batches.list", "action": "error", "status": 404}])
    with pytest.raises(ProviderError) as error:
        await look(make_world())
    assert "api_version" in error.value.hint
