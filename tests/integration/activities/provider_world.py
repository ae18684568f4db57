"""The surroundings of the provider tests: a real emulator process, a real store, the real SDK, one shard."""

import asyncio
import copy
import dataclasses
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from groupage.activities.batch import BatchActivities
from groupage.activities.providers.base import BatchProvider
from groupage.activities.registry import Context
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.schemas import JobRef, Request, Route, ShardPlan, ShardRef
from groupage.schemas.activity_calls import AwaitBatch, SubmitBatch
from groupage.store.acceptance import accept_job
from groupage.store.deployment import deployment_owner
from groupage.store.objects import Store
from groupage.store.shards import write_shard
from groupage.store.spool import spool_requests
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

ENDPOINT = "/v1/chat/completions"
MODEL = "gpt-4o-mini"


class Emulator:
    """One `python -m groupage.emulator`, asked through its admin interface."""

    def __init__(self, state: Path, *options: str) -> None:
        command = [sys.executable, "-m", "groupage.emulator", "--state", str(state), "--turnaround", "10m", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.base_url: str = json.loads(self._process.stdout.readline())["base_url"]

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def faults(self, **plan: Any) -> None:
        self._ask("PUT", "faults", plan)

    def reset(self) -> None:
        self._ask("POST", "reset", {})
        self.faults()

    def advance(self, by: str) -> None:
        """Move the clock, once every input was read: that takes real time, and more on a busy machine."""
        self._wait(lambda batch: batch["ended"] or batch["counts"]["total"])
        self.advance_at_once(by)

    def advance_at_once(self, by: str) -> None:
        self._ask("POST", "clock/advance", {"by": by})

    def finish(self) -> None:
        """Move the clock by an hour, and return when every batch has ended."""
        self.advance("1h")
        self._wait(lambda batch: batch["ended"])

    def _wait(self, condition: Callable[[dict[str, Any]], Any]) -> None:
        for _ in range(3000):
            if all(condition(batch) for batch in self.state()["batches"]):
                return
            time.sleep(0.03)
        raise AssertionError(f"the emulator does not get on: {self.state()}")

    def state(self) -> dict[str, Any]:
        return self._ask("GET", "state")

    def ledger(self) -> dict[str, Any]:
        return self._ask("GET", "ledger")

    async def called(self, name: str) -> None:
        """Return once the call has come in."""
        await asyncio.to_thread(self._until_called, name)

    def _until_called(self, name: str) -> None:
        for _ in range(3000):
            if self.state()["calls"].get(name):
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} was never called")

    def creates(self) -> int:
        """POSTs to /v1/batches, whatever became of them."""
        return self.state()["calls"].get("batches.create", 0)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        url = self.base_url.removesuffix("/v1") + f"/_emulator/{path}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=30) as answer:
            return json.loads(answer.read())


class World:
    """A context on a fresh store, and activities run as attempts of Temporal's would be."""

    name = "openai"
    endpoint = ENDPOINT
    model = MODEL
    usual: Mapping[str, Any] = {}
    """Settings of the provider that the tests want otherwise than most people would."""

    def __init__(self, emulator: Emulator, folder: Path, **settings: Any) -> None:
        self.emulator = emulator
        self.folder = folder
        provider = {**self.address(), **self.usual, **settings.pop("provider", {})}
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.settings = ActivitySettings(
            store_url=settings.pop("store_url", "memory://"),
            spool_dir=self.spool,
            providers={self.name: ProviderSettings(**provider)},
            **{"create_visibility_s": 0.5, "delete_pause_s": 0.01, **settings},
        )
        self.contexts: list[Context] = []
        self._start(Context(self.settings))
        self._jobs = 0

    def address(self) -> dict[str, Any]:
        """Settings of the provider that lead to the emulator."""
        return {"base_url": self.emulator.base_url, "api_key": "test"}

    def _start(self, context: Context) -> None:
        self.context, self.contexts = context, [*self.contexts, context]
        self.activities = BatchActivities(context)

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def adapter(self) -> Any:
        return self.context.provider(self.name)

    def use(self, provider: BatchProvider) -> None:
        self.context._providers[self.name, "default"] = provider

    def again(self) -> Self:
        """The same store and emulator as a new process would have them: nothing remembered."""
        other = copy.copy(self)
        other._start(Context(self.settings, store=self.context.store))
        self.contexts.append(other.context)
        return other

    def hurry(self, seconds: float) -> None:
        """Have no more patience than that with a call from now on, as a new process would."""
        settled = {
            name: dataclasses.replace(provider, request_timeout_s=seconds)
            for name, provider in self.settings.providers.items()
        }
        self.settings = dataclasses.replace(self.settings, providers=settled)
        self._start(Context(self.settings, store=self.context.store))

    async def close(self) -> None:
        for context in self.contexts:
            await context.close()

    def body(self, text: str, model: str) -> dict[str, Any]:
        """A request of the provider's own."""
        return {"model": model, "messages": [{"role": "user", "content": text}]}

    def shard(self, requests: int = 10, *, model: str = "") -> ShardRef:
        """An accepted job of so many requests with one shard, number 0 of round 0."""
        self._jobs += 1
        key, model = f"job-{self._jobs}", model or self.model
        lines = [
            Request(id=f"caller/{n}", endpoint=self.endpoint, body=self.body(f"{key} question {n}", model))
            for n in range(requests)
        ]
        spooled = spool_requests(lines, self.folder / f"in-{key}", provider=self.name)
        owner = deployment_owner(self.store)
        manifest = accept_job(self.store, spooled, tenant="tests", key=key, owner=owner)
        job = JobRef(tenant="tests", key=key, token=manifest.token, provider=self.name)
        plan = ShardPlan(
            round=0, shard=0, route=Route.batch, endpoint=self.endpoint, model=model, requests=requests,
            bytes=1, tokens=1, first_index=0, last_index=requests - 1,
        )  # fmt: skip
        write_shard(self.store, "tests", key, plan, np.arange(requests, dtype=np.uint32))
        return ShardRef(job=job, round=0, shard=0)

    async def submit(self, shard: ShardRef, *, attempt: int = 1, not_ids: list[str] | None = None) -> Any:
        request = SubmitBatch(shard=shard, not_ids=not_ids or [])
        return await attempt_of(self.activities.submit_batch, request, attempt=attempt)

    def awaiting(self, shard: ShardRef, batch_id: str, **fields: Any) -> AwaitBatch:
        fields = {"submitted_at": datetime.now(UTC), "poll_s": 0.01, **fields}
        return AwaitBatch(shard=shard, batch_id=batch_id, **fields)


async def attempt_of(
    activity: Callable[..., Any],
    request: Any,
    *,
    attempt: int = 1,
    details: list[Any] | None = None,
    beats: list[Any] | None = None,
) -> Any:
    """Run one attempt. `details` are the last attempt's heartbeat details; `beats` collects this one's."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, attempt=attempt, heartbeat_details=details or [], scheduled_time=datetime.now(UTC)
    )
    seen = beats if beats is not None else []
    environment.on_heartbeat = lambda *given: seen.append(list(given))
    try:
        return await environment.run(activity, request)
    except ApplicationError as failure:
        _assert_causes_end(failure)
        raise


def _assert_causes_end(failure: BaseException) -> None:
    """Temporal writes a failure with all its causes: one that is its own cause would have no end."""
    seen: set[int] = set()
    cause: BaseException | None = failure
    while cause is not None:
        assert id(cause) not in seen, f"{cause!r} is among its own causes"
        seen.add(id(cause))
        cause = cause.__cause__


async def attempts_of(activity: Callable[..., Any], request: Any, *, most: int = 100, sleep: bool = True) -> Any:
    """Attempt after attempt as Temporal would make them, with short pauses; (result, the failures before it)."""
    details: list[Any] = []
    failures: list[ApplicationError] = []
    for attempt in range(1, most + 1):
        beats: list[Any] = []
        try:
            return await attempt_of(activity, request, attempt=attempt, details=details, beats=beats), failures
        except ApplicationError as failure:
            if failure.non_retryable:
                raise
            failures.append(failure)
            # What a worker sends: JSON, without types.
            details = (
                json.loads(json.dumps([one.model_dump(mode="json") for one in beats[-1]])) if _models(beats) else []
            )
            delay = failure.next_retry_delay
            if sleep and delay is not None:
                await asyncio.sleep(min(delay.total_seconds(), 0.3))
    raise AssertionError(f"no end after {most} attempts; the last failure: {failures[-1]}")


def _models(beats: list[Any]) -> bool:
    return bool(beats) and all(hasattr(one, "model_dump") for one in beats[-1]) and bool(beats[-1])


def benign(failure: ApplicationError) -> bool:
    return failure.category is ApplicationErrorCategory.BENIGN
