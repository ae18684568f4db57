"""`groupage doctor`: what works, what does not, and what to do about it. Prints no secret."""

import asyncio
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from groupage.activities.registry import Context
from groupage.activities.settings import DEFAULT_PROFILE
from groupage.cli.console import Console
from groupage.cli.process import run_until_signal
from groupage.client.config import config_file, load_settings, temporal_connect_config, unknown_variables
from groupage.client.connection import Connection, connect_temporal, open_configured_store
from groupage.client.local_server import find_local_server
from groupage.schemas.errors import GroupageError
from groupage.schemas.ids import JOB_LENGTH, OWNER_LENGTH
from groupage.store.objects import Store, open_store
from groupage.workers.credentials import has_key, provider_address, providers_set
from groupage.workers.embedded import find_binary
from groupage.workers.namespace import missing_search_attributes
from groupage.workers.settings import Settings
from groupage.workers.telemetry import configure_logging
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest

CLOCK_MAX_SKEW_S = 60.0
"""Listings are cut by time with five minutes of slack (cases of lost create replies); a minute is early enough to warn."""

Verdict = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    detail: str
    hint: str = ""


def run_doctor(provider: str | None, *, as_json: bool) -> int:
    """0 if nothing is wrong, else 1."""
    console = Console(as_json=as_json)
    configure_logging("error", "console", tracebacks=False)
    settings = load_settings(Settings)
    findings = run_until_signal(lambda: examine(settings, provider), say=console.say, on_stop=lambda: "stopped")
    if as_json:
        console.data([asdict(each) for each in findings])
    else:
        rows = [
            (each.check, each.verdict, each.detail + (f"\n→ {each.hint}" if each.hint else "")) for each in findings
        ]
        console.table("", ("check", "", ""), rows)
    return int(any(each.verdict == "wrong" for each in findings))


async def examine(settings: Settings, provider: str | None = None) -> list[Finding]:
    """All checks, in the order in which a person would mend things. `provider`, or `provider/profile`: of these only it."""
    file = config_file()
    findings = [Finding("settings", "ok", f"{file or 'environment and defaults'}; state in {settings.state_dir}")]
    own = [given.api_key_env for given in settings.providers.values()]
    findings += [Finding("settings", "note", sentence) for sentence in unknown_variables(own)]
    store = await _store(settings, findings)
    if store is not None:
        await _temporal(settings, store, findings)
    # Providers are asked without the store: one that cannot be opened must not hide what they say.
    names = [provider] if provider else providers_set(settings)
    await _providers(settings, names, store or open_store("memory://"), findings)
    return findings


async def _guarded(check: str, findings: list[Finding], work: Callable[[], Awaitable[str]]) -> bool:
    """Note what `work` says, or what is wrong."""
    try:
        findings.append(Finding(check, "ok", await work()))
    except Exception as error:  # noqa: BLE001 - whatever is wrong is what is asked for
        findings.append(Finding(check, "wrong", str(error) or type(error).__name__, getattr(error, "hint", "")))
        return False
    return True


async def _store(settings: Settings, findings: list[Finding]) -> Store | None:
    opened: list[Store] = []

    async def work() -> str:
        store = await open_configured_store(settings)
        await asyncio.to_thread(probe_store, store)
        opened.append(store)
        return f"{store.url}: reads, writes and writes on condition"

    await _guarded("store", findings, work)
    return opened[0] if opened else None


def probe_store(store: Store) -> None:
    """Write, read, refuse a second conditional write, delete. Raises GroupageError where the store does not do so."""
    key = f"doctor/{uuid.uuid4().hex}"
    try:
        if not store.put_new(key, b"first") or store.put_new(key, b"second") or store.get(key) != b"first":
            raise GroupageError(
                f"{store.url} does not honour conditional writes",
                hint="jobs could be accepted twice: use another store",
            )
    finally:
        store.delete([key])


async def _temporal(settings: Settings, store: Store, findings: list[Finding]) -> None:
    if temporal_connect_config() is None and find_local_server(settings.state_dir) is None:

        async def binary() -> str:
            return f"none is configured or running; `groupage run` and `groupage dev` start {find_binary()}"

        await _guarded("temporal", findings, binary)
        return
    connected: list[Connection] = []

    async def work() -> str:
        connection = await connect_temporal(settings, store)
        connected.append(connection)
        client = connection.temporal
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
        where = "embedded" if connection.ui_url else "configured"
        return f"{where} {client.service_client.config.target_host}, namespace {client.namespace}, server {info.server_version}"

    if await _guarded("temporal", findings, work):
        await _attributes(connected[0], findings)
        await _workers(connected[0], findings)


async def _attributes(connection: Connection, findings: list[Finding]) -> None:
    async def work() -> str:
        missing = await missing_search_attributes(connection.temporal)
        if missing:
            raise GroupageError(
                f"missing: {', '.join(missing)}", hint="`groupage worker` registers them when it starts"
            )
        return "all are registered"

    await _guarded("search attributes", findings, work)


async def _workers(connection: Connection, findings: list[Finding]) -> None:
    """Who polls the task queue. None is no fault where `groupage run` brings its own."""
    for kind in (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY):
        name = f"{TaskQueueType.Name(kind).removeprefix('TASK_QUEUE_TYPE_').lower()} workers"
        described = await connection.temporal.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=connection.temporal.namespace,
                task_queue=TaskQueue(name=connection.task_queue),
                task_queue_type=kind,
            )
        )
        if described.pollers:
            who = ", ".join(sorted({poller.identity for poller in described.pollers}))
            findings.append(Finding(name, "ok", f"task queue {connection.task_queue}: {who}"))
        else:
            hint = "`groupage worker`; `groupage run` brings its own"
            findings.append(Finding(name, "note", f"nobody polls task queue {connection.task_queue}", hint))


async def _providers(settings: Settings, names: list[str], store: Store, findings: list[Finding]) -> None:
    """Look for a batch that is not there: this shows address, key and permission, and costs nothing."""
    context = Context(settings.activity_settings(None), store=store)
    try:
        for name in names:
            await _provider(settings, context, name, findings)
    finally:
        await context.close()


async def _provider(settings: Settings, context: Context, name: str, findings: list[Finding]) -> None:
    nobody = f"g{'a' * OWNER_LENGTH}-{'a' * JOB_LENGTH}-r0-s0"
    provider, _, profile = name.partition("/")

    async def work() -> str:
        began = time.monotonic()
        adapter = context.provider(provider, profile or DEFAULT_PROFILE)
        await adapter.find(nobody, since=datetime.now(UTC), not_ids=())
        took = f"{time.monotonic() - began:.1f} s"
        if not has_key(settings, provider, profile or DEFAULT_PROFILE):
            return f"answers; no key is set, and none was asked for ({took})"
        return f"answers and takes the credentials ({took})"

    if await _guarded(f"provider {name}", findings, work):
        await _clock(provider_address(settings, provider, profile or DEFAULT_PROFILE) or "", name, findings)


async def _clock(base_url: str, name: str, findings: list[Finding]) -> None:
    skew = await asyncio.to_thread(clock_skew_s, base_url)
    if skew is None:
        findings.append(Finding("clock", "note", f"{name} does not tell its time"))
    elif abs(skew) > CLOCK_MAX_SKEW_S:
        findings.append(Finding("clock", "wrong", f"differs from {name} by {skew:.0f} s", "set the clock (NTP)"))
    else:
        findings.append(Finding("clock", "ok", f"agrees with {name} within {abs(skew) + 1:.0f} s"))


def clock_skew_s(url: str) -> float | None:
    """Our time minus that of the server's Date header; None if it sends none."""
    if not url.startswith(("http://", "https://")):
        return None
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - the scheme is checked
            date = reply.headers.get("Date")
    except urllib.error.HTTPError as error:
        with error:
            date = error.headers.get("Date")
    except OSError:
        return None
    return None if date is None else (datetime.now(UTC) - parsedate_to_datetime(date)).total_seconds()
