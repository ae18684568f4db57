"""BatchJob: a job from acceptance to its summary.

Limits: about 13 events a shard and 60 a job; it continues as new after CONTINUE_AT_EVENTS events, so that the
number of shards is bounded by the tag alone (999,999 a round). At most 200 children run at once
(JobPolicy.window). What the job knows is `JobMemory`, handed from run to run.
"""

import asyncio

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from groupage.schemas import CancelInput, DecideInput, JobState, JobStatus, ShardReport, Summary
    from groupage.schemas.ids import job_workflow_id
    from groupage.schemas.signals import (
        BATCH_JOB,
        QUERY_STATUS,
        SIGNAL_SHARD_DONE,
        SIGNAL_SHARD_TROUBLE,
        UPDATE_CANCEL,
        UPDATE_DECIDE,
        ShardTrouble,
    )
    from groupage.workflows.door import refuse_unknown
    from groupage.workflows.job_life import JobLife
    from groupage.workflows.memory import JobArgument, JobMemory, absorb, note_trouble
    from groupage.workflows.policy.questions import SUITABLE
    from groupage.workflows.steps import apply_decision


@workflow.defn(name=BATCH_JOB, failure_exception_types=[ValidationError])
class BatchJob:
    """Read and split the input, run its rounds of shards, escalate in time, merge.

    The id must be `job/{tenant}/{key}`. Ends with the job's Summary, whose state says how; fails only
    where there is no job to sum up (input not readable, key taken by other content). Cancelled through
    Temporal, it stops its shards, harvests and merges like the update `cancel`, then ends as cancelled.
    """

    @workflow.init
    def __init__(self, argument: JobArgument) -> None:
        # Not `start_time`: that is the first task's, and a job may wait for its first worker.
        accepted_at = workflow.info().workflow_start_time
        self._m = argument.carried or JobMemory(accepted_at=accepted_at, deadline_at=accepted_at + argument.deadline)
        self._id = workflow.info().workflow_id
        self._life = JobLife(argument, self._m, self._id)

    @workflow.run
    async def run(self, argument: JobArgument) -> Summary:
        refuse_unknown(argument.misspelt)
        expected = job_workflow_id(argument.tenant, argument.key)
        if self._id != expected:
            raise ApplicationError(
                f"the workflow's id is {self._id!r}, but tenant {argument.tenant!r} and key {argument.key!r} "
                f"want {expected!r}: start it with that id",
                type="input.refused",
                non_retryable=True,
            )
        work = asyncio.create_task(self._life.run())
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.done():
                raise
            self._request_cancel("cancelled through Temporal")
            await work
            raise

    # Messages

    @workflow.signal(name=SIGNAL_SHARD_DONE)
    def shard_done(self, report: ShardReport) -> None:
        """A shard's report, from its ProviderBatch. Twice for one shard counts once."""
        absorb(self._m, report)
        self._life.poke()

    @workflow.signal(name=SIGNAL_SHARD_TROUBLE)
    def shard_trouble(self, trouble: ShardTrouble) -> None:
        """A shard cannot go on until a person acts, or can again."""
        note_trouble(self._m, trouble)
        self._life.poke()

    @workflow.update(name=UPDATE_DECIDE)
    def decide(self, argument: DecideInput) -> JobStatus:
        """Answer the question that the job waits for in needs_decision."""
        apply_decision(self._m, argument)
        self._life.poke()
        return self._life.status()

    @decide.validator
    def _decide_fits(self, argument: DecideInput) -> None:
        question = self._m.question
        if question is None:
            raise ApplicationError(f"nothing is to be decided: the job is {self._m.state}", type="nothing_asked")
        if argument.decision not in SUITABLE[question]:
            fitting = ", ".join(SUITABLE[question])
            raise ApplicationError(f"{argument.decision} is no answer to this; decide {fitting}", type="unsuitable")

    @workflow.update(name=UPDATE_CANCEL)
    def cancel(self, argument: CancelInput) -> JobStatus:
        """Stop what runs, keep what is there, end as cancelled."""
        self._request_cancel(argument.reason)
        return self._life.status()

    @cancel.validator
    def _cancel_fits(self, argument: CancelInput) -> None:  # noqa: ARG002 - the signature is the update's
        if self._m.state is JobState.finalizing or self._m.state.ended:
            raise ApplicationError(f"too late to cancel: the job is {self._m.state}", type="too_late")

    @workflow.query(name=QUERY_STATUS)
    def status(self) -> JobStatus:
        return self._life.status()

    def _request_cancel(self, why: str) -> None:
        if self._m.cancel_reason is None:
            self._m.cancel_reason = why
        self._m.question, self._m.question_text = None, ""
        self._life.poke()
