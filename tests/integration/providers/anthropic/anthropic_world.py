"""The provider tests' world with Anthropic in it: a real emulator process, a real store, the real SDK."""

import dataclasses
import json
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from groupage.activities.batch import BatchActivities
from groupage.activities.providers.anthropic import AnthropicProvider
from groupage.activities.registry import Context
from groupage.activities.settings import ProviderSettings
from groupage.emulator.answers import expected_text
from groupage.schemas import JobRef, Request, Route, ShardPlan, ShardRef
from groupage.schemas.portable import translate
from groupage.store.acceptance import accept_job
from groupage.store.deployment import deployment_owner
from groupage.store.shards import write_shard
from groupage.store.spool import spool_requests
from job_world import CHAT, JobWorld, chat_body
from provider_world import Emulator, World

ENDPOINT = "/v1/messages"
MODEL = "claude-sonnet-4-5"


def body_of(text: str, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


def variables_of(base_url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "test"}


class AnthropicJobs(JobWorld):
    """Jobs of portable requests."""

    name = "anthropic"
    model = MODEL
    usual: ClassVar[dict[str, Any]] = {"inline_create_timeout_s": 2.0}

    def answer(self, n: int, model: str = "") -> str:
        model = model or self.model
        return expected_text(ENDPOINT, translate("anthropic", model, CHAT, chat_body(n, model)))


class AnthropicWorld(World):
    """Shards are of native /v1/messages requests."""

    def __init__(self, emulator: Emulator, folder: Path, **settings: Any) -> None:
        provider = {"base_url": emulator.base_url, "api_key": "test", "inline_create_timeout_s": 2.0}
        provider |= settings.pop("provider", {})
        super().__init__(emulator, folder, **settings)
        self.settings = dataclasses.replace(self.settings, providers={"anthropic": ProviderSettings(**provider)})
        self.context = Context(self.settings, store=self.context.store)
        self.activities = BatchActivities(self.context)
        self.contexts = [self.context]

    @property
    def adapter(self) -> AnthropicProvider:
        provider = self.context.provider("anthropic")
        assert isinstance(provider, AnthropicProvider)
        return provider

    def use_adapter(self, provider: AnthropicProvider) -> None:
        self.context._providers["anthropic", "default"] = provider

    def shard(self, requests: int = 10, *, model: str = MODEL) -> ShardRef:
        self._jobs += 1
        key = f"job-{self._jobs}"
        lines = [
            Request(id=f"caller/{n}", endpoint=ENDPOINT, body=body_of(f"{key} question {n}")) for n in range(requests)
        ]
        spooled = spool_requests(lines, self.folder / f"in-{key}", provider="anthropic")
        manifest = accept_job(self.store, spooled, tenant="tests", key=key, owner=deployment_owner(self.store))
        job = JobRef(tenant="tests", key=key, token=manifest.token, provider="anthropic")
        plan = ShardPlan(
            round=0, shard=0, route=Route.batch, endpoint=ENDPOINT, model=model, requests=requests,
            bytes=1, tokens=1, first_index=0, last_index=requests - 1,
        )  # fmt: skip
        write_shard(self.store, "tests", key, plan, np.arange(requests, dtype=np.uint32))
        return ShardRef(job=job, round=0, shard=0)


def stranger(emulator: Emulator, requests: int, *, name: str = "theirs", key: str = "test") -> str:
    """Somebody else's batch in the same workspace; returns its id."""
    body = {"requests": [{"custom_id": f"{name}-{n}", "params": body_of(f"{name} {n}")} for n in range(requests)]}
    return str(ask(emulator, "POST", "/messages/batches", body, key=key)["id"])


def ask(emulator: Emulator, method: str, path: str, body: Any = None, *, key: str = "test") -> Any:
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(emulator.base_url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def state_of(emulator: Emulator, batch_id: str) -> str:
    """processing_status as its owner sees it."""
    return str(ask(emulator, "GET", f"/messages/batches/{batch_id}")["processing_status"])
