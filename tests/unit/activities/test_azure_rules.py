"""Azure's pure parts: addresses, surfaces, tokens and when they are renewed."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from groupage.activities.providers.azure import AzureProvider
from groupage.activities.providers.azure_options import TOKEN_SCOPE, read_address, read_options
from groupage.activities.providers.azure_tokens import FRESH_S, RENEW_BEFORE_S, RETRY_S, TokenSource
from groupage.activities.providers.base import Answer, SyncCall
from groupage.activities.providers.compatibility import compatibility_of
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.providers.openai_errors import create_failed
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import AmbiguousCreate, ProviderError

ROOT = "https://name.openai.azure.com"
CHAT = "/v1/chat/completions"
VARIABLES = ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION", "AZURE_CLIENT_ID")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in (*VARIABLES, "GROUPAGE_AZURE_TOKEN_SCOPE"):
        monkeypatch.delenv(name, raising=False)


def address(**settings):
    given = ProviderSettings(**settings)
    return read_address(given, compatibility_of("azure", given))


@pytest.mark.parametrize(
    ("given", "root", "v1"),
    [
        (ROOT, ROOT, f"{ROOT}/openai/v1"),
        (f"{ROOT}/", ROOT, f"{ROOT}/openai/v1"),
        (f"{ROOT}/openai", ROOT, f"{ROOT}/openai/v1"),
        (f"{ROOT}/openai/v1/", ROOT, f"{ROOT}/openai/v1"),
        ("https://gateway.example/azure", "https://gateway.example/azure", "https://gateway.example/azure/openai/v1"),
        ("https://gateway.example/llm/v1", "https://gateway.example/llm", "https://gateway.example/llm/v1"),
        (" http://127.0.0.1:8080 ", "http://127.0.0.1:8080", "http://127.0.0.1:8080/openai/v1"),
    ],
)
def test_any_way_to_write_the_address_leads_to_both_surfaces(monkeypatch, given, root, v1):
    assert (address(base_url=given).root, address(base_url=given).v1) == (root, v1)
    for name in ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"):
        with monkeypatch.context() as patch:
            patch.setenv(name, given)
            assert address().v1 == v1


def test_the_profile_comes_before_the_variables(monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://b.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "https://a.openai.azure.com/openai/v1")
    assert address().root == "https://a.openai.azure.com"
    assert address(base_url=ROOT).root == ROOT


@pytest.mark.parametrize("given", ["name.openai.azure.com", "ftp://x", f"{ROOT}?api-version=1"])
def test_what_is_no_address_is_refused(given):
    with pytest.raises(ProviderError, match="is not an address") as error:
        address(base_url=given)
    assert error.value.error_class is ErrorClass.account


def test_a_missing_address_names_the_variable():
    with pytest.raises(ProviderError) as error:
        address()
    assert (error.value.error_class, error.value.code) == (ErrorClass.account, "no_base_url")
    assert "AZURE_OPENAI_ENDPOINT" in error.value.hint


@pytest.mark.parametrize(
    ("version", "legacy", "query"),
    [
        ("", False, {}),
        ("v1", False, {}),
        ("preview", False, {"api-version": "preview"}),
        ("Latest", False, {"api-version": "latest"}),
        ("2024-10-21", True, {}),
        ("2025-03-01-preview", True, {}),
    ],
)
def test_the_api_version_chooses_the_surface(monkeypatch, version, legacy, query):
    options = read_options(ProviderSettings(options={"api_version": version}))
    assert (options.legacy, options.query, options.token_scope) == (legacy, query, TOKEN_SCOPE)
    monkeypatch.setenv("OPENAI_API_VERSION", version)
    assert read_options(ProviderSettings()).legacy is legacy


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api_version": "2024"}, "write a date"),
        ({"api_verson": "v1"}, "unknown option"),
        ({"sync_deployments": "a=b, =c"}, "write batch-name=name"),
        ({"sync_deployments": "a=b, a=c"}, "each once"),
        ({"sync_deployments": "a="}, "write batch-name=name"),
    ],
)
def test_wrong_options_are_refused_when_the_adapter_is_made(options, said):
    with pytest.raises(ProviderError, match=said) as error:
        AzureProvider("azure", ProviderSettings(options=options))
    assert error.value.error_class is ErrorClass.account


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {"a-batch": "a-batch"}),
        ("a-batch=a", {"a-batch": "a", "b": "b"}),
        (" a-batch = a , b-batch=b", {"a-batch": "a", "b-batch": "b"}),
        ("any, a-batch=a", {"a-batch": "a", "b": "any"}),
    ],
)
def test_single_requests_may_go_to_another_deployment(text, pairs):
    options = read_options(ProviderSettings(options={"sync_deployments": text}))
    assert {name: options.sync_deployment(name) for name in pairs} == pairs


def test_limits_are_azures_and_no_window_is_assumed_to_end_a_batch():
    limits = AzureProvider("azure", ProviderSettings()).limits(CHAT, "any-deployment")
    assert (limits.max_requests, limits.max_bytes, limits.min_requests) == (100_000, 200_000_000, 1)


@dataclass
class Info:
    token: str
    expires_on: float
    refresh_on: float | None = None


@dataclass
class Identity:
    """A credential that tells how often it was asked; `fails` is raised instead."""

    clock: list[float]
    life_s: float = 3600.0
    refresh_s: float | None = None
    fails: Exception | None = None
    asked: int = 0
    closed: int = 0
    gate: threading.Event | None = None
    tokens: list[str] = field(default_factory=list)

    def get_token_info(self, *scopes):
        assert scopes == ("scope",)
        self.asked += 1
        if self.gate is not None:
            self.gate.wait(5)
        if self.fails is not None:
            raise self.fails
        name = self.tokens.pop(0) if self.tokens else f"token-{self.asked}"
        now = self.clock[0]
        return Info(name, now + self.life_s, None if self.refresh_s is None else now + self.refresh_s)

    def close(self):
        self.closed += 1


def source_of(identity):
    return TokenSource("scope", lambda: identity, lambda: identity.clock[0])


async def test_a_token_is_kept_until_shortly_before_its_end():
    identity = Identity([0.0])
    source = source_of(identity)
    assert await source.get() == "token-1"
    identity.clock[0] = 3600.0 - RENEW_BEFORE_S - 1
    assert await source.get() == "token-1"
    identity.clock[0] += 2
    assert await source.get() == "token-2"
    await source.close()
    assert identity.closed == 1


async def test_a_token_is_renewed_when_it_says_so():
    identity = Identity([0.0], refresh_s=100.0)
    source = source_of(identity)
    await source.get()
    identity.clock[0] = 101.0
    assert await source.get() == "token-2"


async def test_a_short_token_is_not_asked_for_with_each_request():
    identity = Identity([0.0], life_s=120.0)
    source = source_of(identity)
    await source.get()
    identity.clock[0] = 50.0
    assert await source.get() == "token-1"
    identity.clock[0] = 61.0
    assert await source.get() == "token-2"


async def test_requests_that_come_together_ask_once():
    identity = Identity([0.0], gate=threading.Event())
    source = source_of(identity)
    waiting = [asyncio.create_task(source.get()) for _ in range(20)]
    await asyncio.sleep(0.05)
    identity.gate.set()
    assert set(await asyncio.gather(*waiting)) == {"token-1"}
    assert identity.asked == 1


async def test_the_old_token_serves_while_renewing_fails_and_is_good():
    identity = Identity([0.0])
    source = source_of(identity)
    await source.get()
    identity.fails = ServiceRequestError("no way there")
    identity.clock[0] = 3600.0 - 200
    assert await source.get() == "token-1"
    assert await source.get() == "token-1"
    assert identity.asked == 2, "not asked again with each request"
    identity.clock[0] += RETRY_S + 1
    await source.get()
    assert identity.asked == 3
    identity.clock[0] = 3601.0
    with pytest.raises(ProviderError) as error:
        await source.get()
    assert error.value.error_class is ErrorClass.transient
    identity.fails = None
    assert await source.get() == "token-5"


@pytest.mark.parametrize(
    ("failure", "at_first", "later"),
    [
        (ClientAuthenticationError("nobody here"), ErrorClass.account, ErrorClass.transient),
        (ServiceRequestError("no way there"), ErrorClass.transient, ErrorClass.transient),
        (ValueError("bad tenant"), ErrorClass.account, ErrorClass.account),
    ],
    ids=["refused", "unreachable", "misconfigured"],
)
async def test_an_identity_that_has_worked_is_not_taken_for_missing(failure, at_first, later):
    identity = Identity([0.0], fails=failure)
    source = source_of(identity)
    with pytest.raises(ProviderError) as error:
        await source.get()
    assert error.value.error_class is at_first
    assert bool(error.value.hint) == (at_first is ErrorClass.account)
    assert not isinstance(create_failed(error.value), AmbiguousCreate), "nothing was sent"
    identity.fails = None
    await source.get()
    identity.fails, identity.clock[0] = failure, 4000.0
    with pytest.raises(ProviderError) as error:
        await source.get()
    assert error.value.error_class is later


async def test_a_refused_token_is_replaced_once_and_not_for_ever():
    identity = Identity([0.0], tokens=["first", "first", "second"])
    source = source_of(identity)
    assert await source.get() == "first"
    assert not source.may_retry("first"), "it is fresh: whoever it names may not do this"
    identity.clock[0] = FRESH_S + 1
    assert source.may_retry("first"), "it is not: another one may be taken"
    assert source.may_retry("first"), "and so for all requests that had it"
    assert await source.get() == "first", "the identity gives the same again"
    assert identity.closed == 1, "the credential's own cache was left behind"
    identity.clock[0] += FRESH_S + 1
    assert not source.may_retry("first"), "and that is that"
    identity.clock[0] = 4000.0
    assert await source.get() == "second"
    assert source.may_retry("first")


async def test_a_body_that_goes_to_another_deployment_is_otherwise_what_it_was(monkeypatch):
    seen = []

    async def complete(_self, call):
        seen.append(call.body)
        return Answer(call.wire_id, Outcome.succeeded)

    monkeypatch.setattr(OpenAIProvider, "complete", complete)
    body = b'{"model":"%b","seed":123456789012345678901234567890,"messages":[{"role":"user","content":"gr\xc3\xbc\xc3\x9fe"}]}'
    provider = AzureProvider("azure", ProviderSettings(api_key="k", options={"sync_deployments": "batch=standard"}))
    await provider.complete(SyncCall("w", "/v1/chat/completions", body % b"batch", 1.0))
    assert seen == [body % b"standard"]
