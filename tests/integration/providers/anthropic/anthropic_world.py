"""The provider tests' world with Anthropic in it: a real emulator process, a real store, the real SDK."""

import json
import urllib.request
from typing import Any, ClassVar

from groupage.emulator.answers import expected_text
from groupage.schemas.portable import translate
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

    name = "anthropic"
    endpoint = ENDPOINT
    model = MODEL
    usual: ClassVar[dict[str, Any]] = {"inline_create_timeout_s": 2.0}

    def body(self, text: str, model: str) -> dict[str, Any]:
        return body_of(text, model=model)


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
