"""ProviderBatch: one shard through one provider batch, from submission to clean-up.

Limits: about 34 events a shard however long it waits, 17 more for each pause after a quota refusal
(at most quota.ATTEMPTS of them, 3,400 events: no continue-as-new is needed).
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass, ShardReport
    from groupage.schemas.activity_calls import (
        AWAIT_BATCH,
        COLLECT_BATCH,
        DISK_FULL,
        SUBMIT_BATCH,
        AwaitBatch,
        CollectBatch,
        SubmitBatch,
        SubmittedBatch,
    )
    from groupage.schemas.signals import (
        PROVIDER_BATCH,
        SIGNAL_SHARD_DONE,
        SIGNAL_SHARD_TROUBLE,
        SIGNAL_STOP,
        ProviderBatchInput,
        ShardTrouble,
        StopBatch,
    )
    from groupage.workflows.calls import TIMED_OUT, failure_of, start
    from groupage.workflows.policy.quota import ATTEMPTS, pause_s
    from groupage.workflows.policy.troubles import needs_a_person
    from groupage.workflows.shard_calls import cancel_batch, clean_up_batch, tell_job
    from groupage.workflows.shard_reports import (
        gone,
        is_unexplained,
        needed_harvest,
        needs_harvest,
        not_run,
        refused_for_quota,
        uncollected,
        unsettled,
    )

_CUT_SHORT_S = 60.0
"""How long a submission under way may still end by itself after `stop`, at most."""

_LATE_WAIT = timedelta(days=3)
"""How long a batch that did not settle is watched after the job has gone on: providers end all batches by then."""


@workflow.defn(name=PROVIDER_BATCH)
class ProviderBatch:
    """Submit, wait, collect, report to the job, clean up.

    The report is sent before the clean-up, so that a slow deletion never delays the job; what could
    not be deleted is sent in a second report of the same shard. Told to `stop` (or cancelled through
    Temporal) it cancels the provider batch, waits for it to settle, and harvests it all the same.
    """

    @workflow.init
    def __init__(self, argument: ProviderBatchInput) -> None:
        self._shard = argument.shard
        self._policy = argument.policy
        self._requests = argument.requests
        self._deadline_at = argument.deadline_at
        self._poll_s = argument.policy.poll.total_seconds()
        self._stop: StopBatch | None = None
        self._stopped_at: datetime | None = None
        self._attempted = False
        self._dead_ids: list[str] = []
        self._pauses = 0
        self._troubled = False
        if argument.stop is not None:
            self.stop(argument.stop)
        # A successor cannot know whether the shard before it submitted: it has to look.
        self._may_have_batch = argument.stop is not None
        self._files: list[str] = []

    @workflow.run
    async def run(self, argument: ProviderBatchInput) -> ShardReport:  # noqa: ARG002 - read in __init__
        work = asyncio.create_task(self._drive())
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.done():
                raise
            # Cancelled through Temporal: a paid batch is not left behind (docs/cases.md CL-07).
            settle_s = self._policy.settle.total_seconds()
            self.stop(StopBatch(reason="the workflow was cancelled", settle_s=settle_s))
            await work
            raise

    @workflow.signal(name=SIGNAL_STOP)
    def stop(self, argument: StopBatch) -> None:
        """Cancel the provider batch, harvest it, report. A second stop changes nothing."""
        if self._stop is None:
            self._stop = argument
            self._stopped_at = workflow.now()

    async def _drive(self) -> ShardReport:
        while True:
            if self._stop is not None and self._may_have_batch:
                self._attempted = True
                return await self._stopped("", workflow.now())
            if self._stop is not None:
                return await self._finish(not_run(self._shard, self._requests, self._stop.reason))
            submitted = await self._submit()
            if isinstance(submitted, BatchError):
                full = submitted.code == DISK_FULL
                if full:
                    await self._trouble(submitted)
                # Out of time is out of sight: an attempt may still be creating. Another one finds what that made.
                lost = submitted.code == TIMED_OUT
                self._may_have_batch = self._may_have_batch or lost
                again = full or lost or submitted.error_class is ErrorClass.quota
                if again and await self._pause(submitted):
                    continue
                if lost:
                    # Not refused: what may be there is told to stop and waited for, as every doubt is.
                    self.stop(StopBatch(reason=submitted.message, settle_s=self._policy.settle.total_seconds()))
                    continue
                return await self._refused(submitted)
            if submitted is None:
                return await self._stopped("", workflow.now())
            report = await self._follow(submitted)
            if report is not None:
                return report

    async def _follow(self, submitted: SubmittedBatch) -> ShardReport | None:
        """The batch to its end; None where the provider had no quota for it and it is to be submitted again."""
        await self._trouble(None)
        self._requests = submitted.requests or self._requests
        self._keep(submitted.input_files)
        if submitted.report is not None:
            return await self._finish(submitted.report)
        status = await self._wait(submitted)
        if status is None:
            return await self._stopped(submitted.batch_id, submitted.submitted_at)
        if status.error is not None and refused_for_quota(status):
            self._dead_ids.append(status.batch_id)
            if await self._pause(status.error):
                return None
        return await self._harvest(status, submitted.submitted_at)

    # Submitting

    async def _submit(self) -> SubmittedBatch | BatchError | None:
        """The batch, or why it was refused for good, or None where `stop` cut the submission short."""
        self._attempted = True
        self._say("Submitting", "finding or creating the provider batch")
        handle = start(
            SUBMIT_BATCH,
            SubmitBatch(shard=self._shard, not_ids=self._dead_ids, deadline_at=self._deadline_at),
            summary=f"find or create {self._shard.tag}",
        )
        try:
            await workflow.wait_condition(lambda: handle.done() or self._stop is not None)
            if not handle.done():
                assert self._stop is not None
                limit_s = min(_CUT_SHORT_S, self._stop.settle_s / 3.0)
                try:
                    await workflow.wait_condition(handle.done, timeout=limit_s, timeout_summary="submission under way")
                except TimeoutError:
                    handle.cancel()
            return await handle
        except ActivityError as error:
            failure = failure_of(error)
            return None if failure.error_class is ErrorClass.cancelled else failure

    async def _refused(self, error: BatchError) -> ShardReport:
        """Nothing was created. What is wrong with the requests themselves is written down for each of them."""
        if error.error_class in {ErrorClass.invalid, ErrorClass.unknown}:
            status = BatchStatus(batch_id="", tag=self._shard.tag, phase=BatchPhase.failed, raw_state="", error=error)
            return await self._harvest(status, workflow.now())
        report = not_run(self._shard, self._requests, error.message, error=error, phase=BatchPhase.failed)
        return await self._finish(report)

    # Waiting

    async def _wait(self, submitted: SubmittedBatch) -> BatchStatus | None:
        """The status in which the batch ended, or None where it has to be stopped."""
        while self._stop is None:
            self._say("Waiting for the provider", f"batch `{submitted.batch_id}` since {submitted.submitted_at:%F %R}")
            handle = start(
                AWAIT_BATCH,
                AwaitBatch(
                    shard=self._shard,
                    batch_id=submitted.batch_id,
                    submitted_at=submitted.submitted_at,
                    poll_s=self._poll_s,
                    report_at=workflow.now() if self._troubled else None,
                    tell_refusals=not self._troubled,
                ),
                summary=f"wait for {submitted.batch_id}",
            )
            await workflow.wait_condition(lambda: handle.done() or self._stop is not None)  # noqa: B023 - awaited here
            if not handle.done():
                handle.cancel()
            try:
                status = await handle
            except ActivityError as error:
                if self._stop is not None:
                    return None
                failure = failure_of(error)
                if failure.error_class is ErrorClass.missing:
                    return gone(self._shard, submitted.batch_id, failure)
                # "Cannot see" is not "failed" (docs/cases.md PO-03): a revoked key may come back.
                if failure.error_class is ErrorClass.account and not self._troubled:
                    await self._trouble(failure)
                    continue
                if not await self._pause(failure):
                    self.stop(StopBatch(reason=failure.message, settle_s=self._policy.settle.total_seconds()))
            else:
                if status.phase.ended:
                    return status
                await self._trouble(None)
        return None

    async def _pause(self, failure: BatchError, *, heed_stop: bool = True) -> bool:
        """Wait before the next try, at most until `stop`; False once all tries are used up."""
        if self._pauses >= ATTEMPTS:
            return False
        self._pauses += 1
        seconds = pause_s(self._pauses, self._poll_s, self._shard.tag, failure.retry_after_s)
        self._say("Pausing", f"{failure.error_class}: {failure.message}; next try in {seconds:.0f} s")
        try:
            await workflow.wait_condition(
                lambda: heed_stop and self._stop is not None,
                timeout=seconds,
                timeout_summary=f"{failure.error_class}, then again",
            )
        except TimeoutError:
            workflow.logger.info("%s: trying again after %s", self._shard.tag, failure.error_class)
        return True

    # Stopping

    async def _stopped(self, batch_id: str, submitted_at: datetime) -> ShardReport:
        """Cancel once, wait for the batch to settle, harvest it. `batch_id` is empty where none is known."""
        assert self._stop is not None
        reason = self._stop.reason
        self._say("Stopping", f"{reason}; waiting up to {self._stop.settle_s:.0f} s for the batch to end")
        status = await cancel_batch(self._shard, batch_id, timedelta(seconds=max(1.0, self._settle_left_s())))
        if status is None and not batch_id and workflow.patched("wait-out-doubt"):
            status = await self._doubt_over()
        accepted = status is not None
        if status is not None and not status.batch_id:
            return await self._finish(not_run(self._shard, self._requests, reason))
        if status is not None:
            self._keep(status.input_files)
            batch_id = status.batch_id
        if not batch_id:
            return await self._finish(unsettled(self._shard, self._requests, "", reason))
        if status is None or not status.phase.ended:
            status = await self._settle(batch_id, submitted_at, accepted=accepted)
        if status is None:
            return await self._finish(unsettled(self._shard, self._requests, batch_id, reason))
        return await self._harvest(status, submitted_at)

    async def _doubt_over(self) -> BatchStatus | None:
        """Once it is known whether there is a batch, the job long gone on: found by the tag (or, where batches
        carry none, by what it holds) and told to stop, or proven absent. None if that took longer than any batch.
        """
        assert self._stop is not None
        self._say(
            "In doubt", "it is not known yet whether a batch was made; the job goes on, the answers would be waste"
        )
        await self._report(unsettled(self._shard, self._requests, "", self._stop.reason))
        return await cancel_batch(self._shard, "", _LATE_WAIT)

    async def _settle(self, batch_id: str, submitted_at: datetime, *, accepted: bool) -> BatchStatus | None:
        """The status in which the cancelled batch ended. Reports provisionally if that takes too long."""
        assert self._stop is not None
        handle = start(
            AWAIT_BATCH,
            AwaitBatch(
                shard=self._shard,
                batch_id=batch_id,
                submitted_at=submitted_at,
                poll_s=min(self._poll_s, max(1.0, self._stop.settle_s / 10.0)),
            ),
            summary=f"wait for {batch_id} to settle",
            schedule_to_close=_LATE_WAIT,
        )
        try:
            await workflow.wait_condition(
                handle.done, timeout=max(0.0, self._settle_left_s()), timeout_summary="cancelled batch has to end"
            )
        except TimeoutError:
            self._say("Not settled", f"batch `{batch_id}` goes on at the provider; its late answers are waste")
            await self._report(unsettled(self._shard, self._requests, batch_id, self._stop.reason))
            if not accepted:
                await cancel_batch(self._shard, batch_id, _LATE_WAIT)
        try:
            return await handle
        except ActivityError as error:
            failure = failure_of(error)
            workflow.logger.warning("%s was never seen to end: %s", self._shard.tag, failure.message)
            return gone(self._shard, batch_id, failure) if failure.error_class is ErrorClass.missing else None

    def _settle_left_s(self) -> float:
        assert self._stop is not None
        assert self._stopped_at is not None
        return self._stop.settle_s - (workflow.now() - self._stopped_at).total_seconds()

    # Ending

    async def _harvest(self, status: BatchStatus, submitted_at: datetime) -> ShardReport:
        """Collect whatever the batch brought, in whichever state it ended, and report it."""
        self._keep([*status.input_files, *status.output_files, *status.error_files])
        if not self._needs_harvest(status):
            report = not_run(
                self._shard,
                self._requests,
                status.error.message if status.error else status.raw_state,
                error=status.error,
                phase=status.phase,
                batch_id=status.batch_id,
            )
            return await self._finish(report)
        argument = CollectBatch(shard=self._shard, status=status, submitted_at=submitted_at)
        while True:
            self._say("Collecting", f"batch `{status.batch_id}` is {status.phase}")
            try:
                report = await start(COLLECT_BATCH, argument, summary=f"collect {status.batch_id or 'the refusal'}")
            except ActivityError as error:
                failure = failure_of(error)
                if needs_a_person(failure):
                    await self._trouble(failure)
                # The answers are there and paid for: nothing but their loss ends the trying, for a week and more.
                if failure.error_class is not ErrorClass.missing:
                    if await self._pause(failure, heed_stop=False):
                        continue
                    return await self._finish(
                        uncollected(self._shard, self._requests, status.batch_id, failure.message)
                    )
                report = not_run(
                    self._shard,
                    self._requests,
                    failure.message,
                    error=failure,
                    phase=status.phase,
                    batch_id=status.batch_id,
                )
            return await self._finish(report)

    def _needs_harvest(self, status: BatchStatus) -> bool:
        if is_unexplained(status, self._requests) and workflow.patched("ask-why-batches-fail"):
            return False
        now, before = needs_harvest(status, self._requests), needed_harvest(status)
        return now if now == before or workflow.patched("blame-lines-not-batches") else before

    async def _finish(self, report: ShardReport) -> ShardReport:
        """Report, clean up beside it, and name in a second report what could not be deleted."""
        if self._policy.clean_up == "keep" or report.unsettled or not self._attempted:
            await self._report(report)
            self._say("Done", report.phase)
            return report
        self._say("Cleaning up", f"deleting {len(self._files)} files at the provider")
        _, left_behind = await asyncio.gather(
            self._report(report), clean_up_batch(self._shard, report.batch_id, self._files)
        )
        if left_behind:
            report = report.model_copy(update={"left_behind": [*report.left_behind, *left_behind]})
            await self._report(report)
        self._say("Done", report.phase)
        return report

    async def _report(self, report: ShardReport) -> None:
        """Tell the job. One that has ended needs no report: it is our result as well."""
        await tell_job(self._shard, SIGNAL_SHARD_DONE, report)

    async def _trouble(self, error: BatchError | None) -> None:
        """Show what passes only when a person acts, once, and that it is over; a report says so as well."""
        if self._troubled == (error is not None):
            return
        self._troubled = error is not None
        shard = self._shard
        await tell_job(shard, SIGNAL_SHARD_TROUBLE, ShardTrouble(round=shard.round, shard=shard.shard, error=error))

    def _keep(self, files: list[str]) -> None:
        """Remember files that have to be deleted, each once, in the order seen."""
        self._files.extend(f for f in files if f not in self._files)

    def _say(self, headline: str, text: str) -> None:
        workflow.set_current_details(f"**{headline}**: {text}\n\nshard `{self._shard.tag}`, {self._requests} requests")
