"""What carries our tag at a provider and is needed by no job: cancelled, deleted, or at least told.

Everything that we make there is named by a tag, and a tag begins with this deployment's owner code and the
job's token. `tokens/{token}.json` in the store says whose token it is, so an orphan needs no memory of the
process that made it.

=============  =====================  =============================================  =================
the job is     a live batch           is the batch recorded for its shard?           a file
=============  =====================  =============================================  =================
unknown here   cancel                 -                                              delete
finished       cancel                 -                                              delete
running        keep                   another one is: cancel. None is: keep          keep
stranded       tell                   -                                              keep
=============  =====================  =============================================  =================

Stranded: accepted, not finished, and no workflow runs it. Starting the job again adopts its batches.
Objects younger than the grace time are kept, and so are ended batches: they cost nothing.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from groupage.activities.heartbeat import heartbeating
from groupage.activities.providers.base import BatchProvider, RemoteObject
from groupage.activities.registry import Context
from groupage.schemas import JobRef, Message
from groupage.schemas.activity_calls import SubmittedBatch, SweepOrphans, Swept
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag
from groupage.store import keys
from groupage.store.objects import Store
from temporalio import activity

BATCH = "batch.json"
SWEPT_SHOWN = 50


class TokenOwner(Message):
    """`tokens/{token}.json`: which job a tag's token belongs to."""

    tenant: str
    key: str


class JobView(StrEnum):
    unknown = "unknown"
    finished = "finished"
    running = "running"
    stranded = "stranded"


class Verdict(StrEnum):
    keep = "keep"
    cancel = "cancel"
    delete = "delete"
    tell = "tell"


@dataclass(frozen=True, slots=True)
class Known:
    """What the store and Temporal know. `recorded` is the batch id that a tag's shard has, "" for none."""

    jobs: Mapping[str, JobView]
    recorded: Mapping[str, str]


def judge(found: RemoteObject, known: Known, *, now: datetime, grace: timedelta) -> tuple[Verdict, str]:
    """(what to do with it, why). Pure."""
    decoded = decode_tag(found.tag)
    if decoded is None:
        return Verdict.keep, "its tag is not ours"
    if grace and (found.created_at is None or now - found.created_at < grace):
        return Verdict.keep, "too young to judge"
    job = known.jobs.get(decoded[0], JobView.unknown)
    if found.kind != "batch":
        needed = job in {JobView.running, JobView.stranded}
        return Verdict.keep if needed else Verdict.delete, f"its job is {job}"
    if found.ended:
        return Verdict.keep, "it has ended"
    return _judge_live(found, job, known.recorded.get(found.tag, ""))


def _judge_live(batch: RemoteObject, job: JobView, recorded: str) -> tuple[Verdict, str]:
    if job is JobView.stranded:
        return Verdict.tell, "no workflow runs its job"
    if job is not JobView.running:
        return Verdict.cancel, f"its job is {job}"
    if recorded in {"", batch.id}:
        return Verdict.keep, "its job is running"
    return Verdict.cancel, f"its shard runs as {recorded}"


async def sweep_orphans(context: Context, request: SweepOrphans) -> Swept:
    """List, judge, act. One object that resists stops no other; running it again is harmless."""
    provider = context.provider(request.provider, request.profile)
    grace = timedelta(seconds=request.grace_s)
    async with heartbeating(context.settings.heartbeat_s):
        found = [remote async for remote in provider.list_ours(await context.owner())]
        known = await _known(context, found)
        verdicts = [(remote, *judge(remote, known, now=datetime.now(UTC), grace=grace)) for remote in found]
        cancelled: list[str] = []
        failed: list[str] = []
        deleted: list[str] = []
        for remote, verdict, why in verdicts:
            if verdict not in {Verdict.cancel, Verdict.delete} or (
                verdict is Verdict.delete and not request.delete_files
            ):
                continue
            failure = "" if request.dry_run else await _act(provider, verdict, remote)
            if failure:
                failed.append(f"{remote.id}: {failure}")
            elif verdict is Verdict.cancel:
                cancelled.append(f"{remote.id} ({remote.tag}): {why}")
            else:
                deleted.append(f"{remote.id} ({remote.tag}): {why}")
            if not request.dry_run:
                activity.logger.warning("sweep: %s %s %s (%s): %s", verdict, remote.kind, remote.id, remote.tag, why)
    stranded = [f"{remote.id} ({remote.tag}): {why}" for remote, verdict, why in verdicts if verdict is Verdict.tell]
    batches = sum(remote.kind == "batch" for remote in found)
    return Swept(
        batches=batches,
        files=len(found) - batches,
        cancelled=cancelled[:SWEPT_SHOWN],
        deleted=len(deleted),
        deleted_files=deleted[:SWEPT_SHOWN],
        stranded=stranded[:SWEPT_SHOWN],
        failed=failed[:SWEPT_SHOWN],
    )


async def _act(provider: BatchProvider, verdict: Verdict, remote: RemoteObject) -> str:
    """Do it; "" or why it failed."""
    try:
        if verdict is Verdict.cancel:
            await provider.cancel(remote.id)
        else:
            await provider.delete(remote.kind, remote.id)
    except ProviderError as error:
        return str(error)[:200]
    return ""


async def free_files(context: Context, job: JobRef) -> bool:
    """Delete files of finished jobs to make room in an account that is full (CL-01); True if any went."""
    provider = context.provider_of(job)
    found = [remote async for remote in provider.list_ours(await context.owner()) if remote.kind == "file"]
    known = await _known(context, found)
    now, freed = datetime.now(UTC), False
    for remote in found:
        verdict, _ = judge(remote, known, now=now, grace=timedelta(0))
        if verdict is Verdict.delete:
            freed |= not await _act(provider, verdict, remote)
    return freed


def note_token(store: Store, job: JobRef) -> None:
    """Remember whose the token is, before anything that carries it is sent."""
    store.put_new_message(_token_key(job.token), TokenOwner(tenant=job.tenant, key=job.key))


def _token_key(token: str) -> str:
    return f"tokens/{token}.json"


def _token_owner(store: Store, token: str) -> TokenOwner | None:
    return store.get_message_or_none(_token_key(token), TokenOwner)


def read_submitted(store: Store, tenant: str, key: str, round_: int, shard: int) -> SubmittedBatch | None:
    """`batch.json`: the provider batch that a shard has; None if it has none yet."""
    return store.get_message_or_none(keys.shard_object(tenant, key, round_, shard, BATCH), SubmittedBatch)


async def _known(context: Context, found: Iterable[RemoteObject]) -> Known:
    tags = {remote.tag: decoded for remote in found if (decoded := decode_tag(remote.tag)) is not None}
    live = {remote.tag for remote in found if remote.kind == "batch" and not remote.ended}
    jobs: dict[str, JobView] = {}
    owners: dict[str, TokenOwner] = {}
    for token in sorted({token for token, _, _ in tags.values()}):
        owner = await asyncio.to_thread(_token_owner, context.store, token)
        jobs[token] = await _view(context, owner)
        if owner is not None:
            owners[token] = owner
    recorded: dict[str, str] = {}
    for tag in sorted(live):
        token, round_, shard = tags.get(tag, ("", 0, 0))
        if jobs.get(token) is JobView.running:
            owner = owners[token]
            submitted = await asyncio.to_thread(read_submitted, context.store, owner.tenant, owner.key, round_, shard)
            recorded[tag] = submitted.batch_id if submitted else ""
    return Known(jobs, recorded)


async def _view(context: Context, owner: TokenOwner | None) -> JobView:
    if owner is None:
        return JobView.unknown
    store = context.store
    if await asyncio.to_thread(store.exists, keys.summary(owner.tenant, owner.key)):
        return JobView.finished
    if not await asyncio.to_thread(store.exists, keys.manifest(owner.tenant, owner.key)):
        return JobView.unknown
    return JobView.running if await context.is_running(owner.tenant, owner.key) else JobView.stranded
