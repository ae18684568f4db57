"""Submitting a shard: find or create, so that no request is paid for twice (docs/how-it-works.md, promise 2).

Each attempt takes the same way from the start, whatever an earlier one may have done::

    look for the tag ── found ──────────────────────────────────────────► adopt it
         │ not found
    was the shard closed, collected before, or answered elsewhere? ─────► say so
         │ no
    what does the chain of intents say? ── a batch was recorded ────────► return it (not visible yet)
         │                              └─ unknown, window is open ─────► look again later (BENIGN)
         │ nothing was sent, or what was sent is proven absent
    render, upload (find or create by name)
    put the next intent, on condition that there is none ── lost ───────► another attempt is at it
    check that no later intent is there, and that ours is fresh
    one create call ── clear refusal ──► refused.json, delete the file, fail for good
         │          └─ no clear answer ► unknown: fail, look again later
    put the end of the intent and batch.json

The look that proves absence begins after the window's end, so nothing that was sent can be missed by it.
Where batches carry no tag, it finds what may be ours (looking.py), and the creates of an account take turns
(turns.py), so that there is seldom more than one that it can be.
"""

import asyncio
import tempfile
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from groupage.activities.failures import batch_error, retried
from groupage.activities.heartbeat import heartbeating
from groupage.activities.intents import (
    Intent,
    IntentEnd,
    IntentLog,
    claim,
    new_intent,
    put_end,
    read_log,
    settled_at,
    superseded,
)
from groupage.activities.late import read_report
from groupage.activities.looking import cancel_others, look, still_unknown
from groupage.activities.providers.base import BatchProvider, Submission, traits_of
from groupage.activities.refusals import NOT_FOUND_ATTEMPTS, REFUSED, is_refusal, look_failed, upload_failed
from groupage.activities.registry import Context
from groupage.activities.rendering import render_shard
from groupage.activities.sweep import BATCH, free_files, note_token
from groupage.activities.threads import in_thread
from groupage.activities.turns import account_of, busy_until, end_turn, keep_turn_until, not_our_turn, wait_for_turn
from groupage.schemas import (
    BatchError,
    BatchPhase,
    BatchStatus,
    ErrorClass,
    Message,
    Outcome,
    ShardPlan,
    ShardRef,
    ShardReport,
)
from groupage.schemas.activity_calls import SubmitBatch, SubmittedBatch
from groupage.schemas.batches import NOT_TO_BE_SENT
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from groupage.store import keys
from groupage.store.shards import count_answered, read_shard_plan
from temporalio import activity

UPLOAD = "upload.json"


class UploadMark(Message):
    """`upload.json`: put before the first upload, so that a later attempt knows to look for a file, and asks for the
    same window where the first create call is in doubt.
    """

    at: datetime
    left_s: float | None = None
    """Until the job's deadline; None: not told, or written by a version that did not ask for a window by it."""


class _Step:
    """What the heartbeats tell."""

    def __init__(self) -> None:
        self.now: dict[str, str | int] = {"step": "looking"}

    def set(self, step: str, **more: str | int) -> None:
        self.now = {"step": step, **more}


async def submit_batch(context: Context, request: SubmitBatch) -> SubmittedBatch:
    """Find or create the provider batch of a shard. Raises ProviderError, StoreError, or `waiting`."""
    step = _Step()
    async with heartbeating(context.settings.heartbeat_s, lambda: step.now):
        return await _Attempt(context, request, step).run()


class _Attempt:
    """One attempt at one shard."""

    def __init__(self, context: Context, request: SubmitBatch, step: _Step) -> None:
        self.context, self.request, self.step = context, request, step
        self.shard: ShardRef = request.shard
        self.provider: BatchProvider = context.provider_of(self.shard.job)
        self.window = context.window_of(self.shard.job)

    async def run(self) -> SubmittedBatch:
        store, shard, not_ids = self.context.store, self.shard, self.request.not_ids
        log = await asyncio.to_thread(read_log, store, shard)
        job = shard.job
        plan = await asyncio.to_thread(read_shard_plan, store, job.tenant, job.key, shard.round, shard.shard)
        looked_at = _now()
        at = settled_at(log, self.window)
        try:
            found, others = await look(self.context, shard, log, not_ids)
        except ProviderError as error:
            if at is None:
                failed = await self._look_failed(error, log)
                if failed is error:
                    raise
                raise failed from error
            # There may be a batch that nobody could see yet: even a revoked key must not end the looking.
            raise retried(error, activity.info().attempt) from error
        if found is not None:
            duplicates = await cancel_others(self.provider, others)
            return await self._adopt(log, found, plan, duplicates)
        if log.closed:
            return self._not_to_be_sent(plan, "stopped before it was submitted")
        if log.created_id and log.created_id not in not_ids:
            return await self._recorded(log, plan, await self._collected(log.created_id))
        if at is not None and looked_at < at:
            raise still_unknown(shard, at, self.window)
        answered = await asyncio.to_thread(count_answered, store, job.tenant, job.key, shard.round, shard.shard)
        if answered:
            return await self._close(log, plan, answered)
        return await self._submit(log, plan)

    async def _look_failed(self, error: ProviderError, log: IntentLog) -> ProviderError:
        made = bool(log.created_id) and log.created_id not in self.request.not_ids
        failed = look_failed(error, activity.info().attempt, made=made)
        if failed is not error and is_refusal(failed):
            await self._refuse(failed, [])
        return failed

    async def _close(self, log: IntentLog, plan: ShardPlan, answered: int) -> SubmittedBatch:
        """Nothing is sent for the shard, ever: the next round takes up what has no answer yet."""
        intent = new_intent(log, _now(), attempt=activity.info().attempt, files=[], kind="closed")
        if not await asyncio.to_thread(claim, self.context.store, self.shard, intent):
            raise ProviderError(
                f"another attempt is submitting {self.shard.tag}", error_class=ErrorClass.transient, code="superseded"
            )
        message = f"{answered} of its {plan.requests} requests were answered before it was sent"
        return self._not_to_be_sent(plan, message)

    def _not_to_be_sent(self, plan: ShardPlan, message: str) -> SubmittedBatch:
        """The store has no result of the shard: for planning its members are `not_sent`."""
        report = ShardReport(
            round=self.shard.round,
            shard=self.shard.shard,
            route=plan.route,
            phase=BatchPhase.cancelled,
            requests=plan.requests,
            outcomes={Outcome.cancelled: plan.requests},
            unanswered={ErrorClass.not_sent: plan.requests},
            error=BatchError(error_class=ErrorClass.not_sent, code=NOT_TO_BE_SENT, message=message),
        )
        return SubmittedBatch(batch_id="", adopted=False, submitted_at=_now(), requests=plan.requests, report=report)

    async def _adopt(
        self, log: IntentLog, found: BatchStatus, plan: ShardPlan, duplicates: list[str]
    ) -> SubmittedBatch:
        activity.logger.info("adopted batch %s of %s (%s)", found.batch_id, self.shard.tag, found.raw_state)
        submitted_at = found.created_at or (log.last.at if log.last else _now())
        submitted = SubmittedBatch(
            batch_id=found.batch_id,
            adopted=True,
            submitted_at=submitted_at,
            input_files=list(dict.fromkeys([*found.input_files, *(log.last.files if log.last else [])])),
            requests=plan.requests,
            duplicates=duplicates,
        )
        if log.created_id != found.batch_id:
            await self._record(log.last, submitted)
        return submitted

    async def _collected(self, batch_id: str) -> ShardReport | None:
        """What the shard brought, where its batch was deleted after that: nobody will see that one end (again)."""
        report = await asyncio.to_thread(read_report, self.context.store, self.shard)
        if report is None:
            return None
        try:
            await self.provider.status(batch_id)
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise
            return report
        return None

    async def _recorded(self, log: IntentLog, plan: ShardPlan, report: ShardReport | None) -> SubmittedBatch:
        """The batch that the chain names, though no listing shows it yet, or any more."""
        assert log.last is not None
        return SubmittedBatch(
            batch_id=log.created_id,
            adopted=True,
            submitted_at=log.end.at if log.end else log.last.at,
            input_files=log.last.files,
            requests=plan.requests,
            report=report,
        )

    async def _record(self, intent: Intent | None, submitted: SubmittedBatch) -> None:
        store = self.context.store
        if intent is not None:
            end = IntentEnd(outcome="created", at=_now(), batch_id=submitted.batch_id)
            await asyncio.to_thread(put_end, store, self.shard, intent.number, end)
        await asyncio.to_thread(store.put_message, self._key(BATCH), submitted)
        await asyncio.to_thread(store.delete, [self._key(REFUSED)])

    async def _submit(self, log: IntentLog, plan: ShardPlan) -> SubmittedBatch:
        if not traits_of(self.provider).tags:
            busy = await asyncio.to_thread(busy_until, self.context.store, account_of(self.shard.job), _now())
            if busy is not None:
                raise not_our_turn(self.shard.tag, busy)
        spool = self.context.settings.spool_dir
        if spool is not None:
            spool.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="groupage-", dir=spool, ignore_cleanup_errors=True) as folder:
            path = Path(folder) / f"{self.shard.tag}.jsonl"
            self.step.set("rendering", requests=plan.requests)
            store, shard, provider = self.context.store, self.shard, self.provider
            async with self.context.heavy:
                size = await in_thread(lambda stop: render_shard(store, shard, plan, provider, path, stop=stop))
            await asyncio.to_thread(note_token, store, shard.job)
            mark, first = await asyncio.to_thread(self._mark)
            submission = Submission(
                tag=shard.tag,
                endpoint=plan.endpoint,
                model=plan.model,
                path=path,
                requests=plan.requests,
                intent_at=_now(),
                look_since=None if first else mark.at,
                not_ids=self.request.not_ids,
                left_s=self._left_s(),
                first_left_s=mark.left_s,
            )
            self.step.set("uploading", bytes=size)
            files = await self._upload(submission)
            self.step.set("creating", files=len(files))
            # In the folder's life: where the input travels with the call, it is read from there.
            return await self._create(log, submission, files)

    def _left_s(self) -> float | None:
        deadline_at = self.request.deadline_at
        return None if deadline_at is None else (deadline_at - _now()).total_seconds()

    def _mark(self) -> tuple[UploadMark, bool]:
        """The mark of the first attempt that may have begun to upload, and whether this is it."""
        store, key, mark = self.context.store, self._key(UPLOAD), UploadMark(at=_now(), left_s=self._left_s())
        if store.put_new_message(key, mark):
            return mark, True
        return store.get_message(key, UploadMark), False

    async def _upload(self, submission: Submission) -> list[str]:
        try:
            return await self.provider.upload(submission)
        except ProviderError as error:
            if error.error_class is ErrorClass.quota and await free_files(self.context, self.shard.job):
                # The account is full of files: ours of finished jobs are gone now (docs/cases.md CL-01).
                return await self.provider.upload(submission)
            failed = upload_failed(error, activity.info().attempt)
            if is_refusal(failed):
                await self._refuse(failed, [])
            if failed is error:
                raise
            raise failed from error

    async def _create(self, log: IntentLog, submission: Submission, files: list[str]) -> SubmittedBatch:
        if traits_of(self.provider).tags:
            return await self._create_now(log, submission, files)
        account = account_of(self.shard.job)
        self.step.set("waiting for the account's turn")
        hold = timedelta(seconds=self.window.longest_s)
        turn = await wait_for_turn(self.context.store, account, self.shard.tag, hold)
        try:
            made = await self._create_now(log, submission, files)
        except AmbiguousCreate:
            # The turn lasts until the doubt is over (intents.settled_at), and no longer.
            over_at = _now() + timedelta(seconds=self.window.window_s)
            await asyncio.to_thread(keep_turn_until, self.context.store, account, turn, over_at)
            raise
        except ProviderError:
            await asyncio.to_thread(end_turn, self.context.store, account, turn, _now(), "")
            raise
        await asyncio.to_thread(end_turn, self.context.store, account, turn, _now(), made.batch_id)
        return made

    async def _create_now(self, log: IntentLog, submission: Submission, files: list[str]) -> SubmittedBatch:
        store, shard = self.context.store, self.shard
        intent = new_intent(log, _now(), attempt=activity.info().attempt, files=files)
        if not await asyncio.to_thread(claim, store, shard, intent):
            raise ProviderError(
                f"another attempt is submitting {shard.tag}", error_class=ErrorClass.transient, code="superseded"
            )
        if await asyncio.to_thread(superseded, store, shard, intent):
            raise ProviderError(
                f"another attempt went on with {shard.tag}", error_class=ErrorClass.transient, code="superseded"
            )
        if _now() - intent.at > timedelta(seconds=self.window.post_within_s):
            # Too late to be sure that nobody takes this intent for settled: nothing is sent for it.
            await self._end(intent, "not_sent", "the intent grew old before its call")
            raise ProviderError(f"submitting {shard.tag} was held up", error_class=ErrorClass.transient, code="held_up")
        return await _to_its_end(self._send(intent, submission, files))

    async def _send(self, intent: Intent, submission: Submission, files: list[str]) -> SubmittedBatch:
        """The one create call, and the record of what became of it."""
        try:
            batch = await self._call_create(submission, files)
        except AmbiguousCreate as error:
            await self._end(intent, "unknown", str(error))
            raise
        except ProviderError as error:
            refused = await self._refused(intent, error, files)
            if refused is error:
                raise
            raise refused from error
        submitted = SubmittedBatch(
            batch_id=batch.batch_id,
            adopted=False,
            submitted_at=_now(),
            input_files=list(dict.fromkeys([*files, *batch.input_files])),
            requests=submission.requests,
        )
        await self._record(intent, submitted)
        return submitted

    async def _call_create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        seconds = self.window.create_timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await self.provider.create(submission, files)
        except TimeoutError as error:
            raise AmbiguousCreate(
                f"create of {submission.tag}: no answer within {seconds:g} s",
                error_class=ErrorClass.transient,
                code="timeout",
            ) from error

    async def _refused(self, intent: Intent, error: ProviderError, files: list[str]) -> ProviderError:
        """Record what became of a call that surely made no batch; returns what is to be raised."""
        await self._end(intent, "not_sent" if error.status is None else "refused", str(error))
        if error.error_class is ErrorClass.missing:
            again = activity.info().attempt < NOT_FOUND_ATTEMPTS
            error_class = ErrorClass.transient if again else ErrorClass.invalid
            error = ProviderError(str(error), error_class=error_class, code=error.code, status=error.status)
        if is_refusal(error):
            await self._refuse(error, files)
        return error

    async def _refuse(self, error: ProviderError, files: Sequence[str]) -> None:
        """Keep why, for the planner of the next round, and leave no input file behind (CL-06)."""
        store = self.context.store
        await asyncio.to_thread(store.put_message, self._key(REFUSED), batch_error(error))
        for ref in files:
            try:
                await self.provider.delete("file", ref)
            except ProviderError as failure:
                activity.logger.warning("input file %s of %s is left behind: %s", ref, self.shard.tag, failure)

    async def _end(self, intent: Intent, outcome: str, detail: str) -> None:
        end = IntentEnd.model_validate({"outcome": outcome, "at": _now(), "detail": detail[:500]})
        await asyncio.to_thread(put_end, self.context.store, self.shard, intent.number, end)

    def _key(self, name: str) -> str:
        job = self.shard.job
        return keys.shard_object(job.tenant, job.key, self.shard.round, self.shard.shard, name)


async def _to_its_end(work: Coroutine[Any, Any, SubmittedBatch]) -> SubmittedBatch:
    """Let a create call end though the activity is cancelled: what it made must be known (it ends in bounded time).

    If it made a batch, that is the activity's result all the same; else the cancellation goes on.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            raise
        return task.result()


def _now() -> datetime:
    return datetime.now(UTC)
