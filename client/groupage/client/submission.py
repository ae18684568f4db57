"""Handing in: from requests to an accepted job in the store, and to a started workflow."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from groupage.client.connection import Connection
from groupage.client.job import read_summary
from groupage.client.kinds import binary_kind, head_of, text_kind
from groupage.schemas import DEFAULT_ENDPOINT, JobManifest, JobPolicy, JobSpec, Request, endpoints_of
from groupage.schemas.errors import GroupageError, InputRefused, KeyConflict, UsageError
from groupage.schemas.ids import job_workflow_id
from groupage.schemas.signals import BATCH_JOB
from groupage.store.deployment import deployment_owner
from groupage.store.intake import SpooledInput, accept_job, default_key, spool_requests
from groupage.store.objects import Store
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

Requests = Path | str | BinaryIO | Iterable[Request] | Iterable[Mapping[str, Any]]
"""A JSONL file, an open one, or requests: `Request` objects, or mappings shaped like an input line."""


@asynccontextmanager
async def spooled_input(
    requests: Requests,
    *,
    provider: str,
    model: str | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
    on_invalid: str = "refuse",
    directory: Path | None = None,
    processes: int = 1,
) -> AsyncGenerator[SpooledInput, None]:
    """Validate all input onto the local disk (in `directory`) for the block. Nothing has been sent anywhere yet.

    A large file is taken in by as many other `processes`, if these are several. Raises InputRefused with the first bad lines, unless `on_invalid` is "skip".
    """
    folder = Path(tempfile.mkdtemp(prefix="groupage-intake-", dir=directory))
    try:
        source = _source(requests)
        name = str(requests) if isinstance(requests, (str, Path)) else "the input"
        try:
            head = await asyncio.to_thread(head_of, source)
            if (binary := binary_kind(head)) is not None:
                raise UsageError(f"{name} {binary[0]}; nothing was sent", hint=binary[1])
            spooled = await asyncio.to_thread(
                spool_requests,
                source,
                folder,
                provider=provider,
                model=model,
                endpoint=endpoint,
                processes=processes,
            )
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error
        if spooled.rejected and on_invalid == "refuse":
            all_bad = spooled.rejected == spooled.requests
            if all_bad and (text := text_kind(head)) is not None:
                raise UsageError(f"{name} {text[0]}; nothing was sent", hint=text[1])
            raise InputRefused(
                f"{name}: {spooled.rejected:,} of {spooled.requests:,} lines cannot be sent; nothing was sent",
                problems=tuple(f"{name}, {problem}" for problem in spooled.problems),
                total=spooled.rejected,
                hint="mend the lines"
                if all_bad
                else "mend the lines, or run the rest with --on-invalid skip (policy on_invalid=skip)",
            )
        yield spooled
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def accept(store: Store, spooled: SpooledInput, *, tenant: str, key: str | None, source: str = "") -> JobManifest:
    """Put the input into the store as a job; the same content again finds the job that is there.

    Raises KeyConflict where the key stands for other content.
    """
    owner = await asyncio.to_thread(deployment_owner, store)
    return await asyncio.to_thread(
        accept_job,
        store,
        spooled,
        tenant=tenant,
        key=key or default_key(spooled.fingerprint),
        owner=owner,
        source=source,
    )


def check_terms(
    *,
    key: str | None,
    tenant: str,
    provider: str,
    profile: str,
    endpoint: str,
    deadline: timedelta | str,
    labels: Mapping[str, str] | None,
    policy: JobPolicy | Mapping[str, Any] | None,
) -> JobSpec:
    """The job's terms, read and checked before anything is accepted; `key` may be left out.

    Raises UsageError that names what is wrong.
    """
    if endpoint not in endpoints_of(provider):
        known = ", ".join(endpoints_of(provider))
        raise UsageError(f"endpoint {endpoint!r}: not known for {provider}", hint=f"use one of {known}")
    terms: dict[str, Any] = {"key": key or "unnamed", "tenant": tenant, "provider": provider, "profile": profile}
    terms |= {"endpoint": endpoint, "deadline": deadline, "labels": labels or {}, "policy": policy or {}}
    try:
        return JobSpec.model_validate(terms)
    except ValidationError as error:
        raise UsageError(in_words(error)) from error


def in_words(error: ValidationError) -> str:
    """What pydantic found, without its own vocabulary: `policy.window many: Input should be a valid integer, …`"""
    found = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        given = problem["input"]
        shown = f" {given}" if isinstance(given, (str, int, float, timedelta)) and str(given) not in said else ""
        found.append(f"{name}{shown}: {said}")
    return "; ".join(found)


def job_name(tenant: str, key: str) -> str:
    """The job's workflow id. Raises UsageError for a tenant or key that cannot be one."""
    try:
        return job_workflow_id(tenant, key)
    except ValueError as error:
        raise UsageError(str(error)) from error


async def start_job(
    connection: Connection,
    store: Store,
    manifest: JobManifest,
    *,
    deadline: timedelta,
    profile: str = "default",
    model: str | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
    labels: Mapping[str, str] | None = None,
    policy: JobPolicy | None = None,
) -> bool:
    """Start the job's workflow unless it runs or has ended; False if it has ended.

    A workflow that was lost (another server, retention passed, terminated) is started anew: it finds
    in the store and at the provider what its predecessor did. What the first caller asked for
    (deadline, policy) holds for a job that runs.
    """
    if await asyncio.to_thread(read_summary, store, manifest.tenant, manifest.key) is not None:
        return False
    spec = JobSpec(
        tenant=manifest.tenant,
        key=manifest.key,
        provider=manifest.provider,
        profile=profile,
        endpoint=endpoint,
        model=model,
        deadline=deadline,
        labels=dict(labels or {}),
        policy=policy or JobPolicy(),
        fingerprint=manifest.fingerprint,
    )
    workflow_id = job_workflow_id(spec.tenant, spec.key)
    try:
        await connection.temporal.start_workflow(
            BATCH_JOB,
            spec,
            id=workflow_id,
            task_queue=connection.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            # One that completed has written its summary: it must never run twice.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            static_summary=f"{manifest.requests:,} requests by {manifest.provider}",
        )
        await _check_queue(connection.temporal, workflow_id, connection.task_queue)
    except WorkflowAlreadyStartedError:
        return False
    except RPCError as error:
        raise GroupageError(f"{workflow_id} could not be started: {error.message}") from error
    return True


async def _check_queue(client: Client, workflow_id: str, task_queue: str) -> None:
    """A job of the same name from another store would run there, and its results would lie there."""
    described = await client.get_workflow_handle(workflow_id).describe()
    if described.task_queue != task_queue:
        raise KeyConflict(
            f"{workflow_id} runs on task queue {described.task_queue!r}, not {task_queue!r}: it belongs to another store",
            hint="use another key, or the store and server that it was submitted with",
        )


def _source(requests: Requests) -> Path | BinaryIO | Iterator[bytes] | Iterator[Request]:
    if isinstance(requests, str):
        return Path(requests)
    if isinstance(requests, Path):
        return requests
    if hasattr(requests, "read"):
        return cast("BinaryIO", requests)
    try:
        items: Iterator[Any] = iter(requests)
    except TypeError as error:
        raise UsageError(
            f"requests are a {type(requests).__name__}", hint="give a path, an open file, or requests one after another"
        ) from error
    for first in items:
        rest = chain((first,), items)
        return rest if isinstance(first, Request) else _as_lines(rest)
    return iter(())


def _as_lines(mappings: Iterator[Any]) -> Iterator[bytes]:
    for number, each in enumerate(mappings, 1):
        try:
            yield orjson.dumps(each) + b"\n"
        except TypeError as error:
            raise UsageError(
                f"request {number} is not JSON: {error}", hint="give mappings shaped like input lines, or only Requests"
            ) from error
