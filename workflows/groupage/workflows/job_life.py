"""What a BatchJob does from acceptance to its summary: prepare, plan a round, run it, decide, merge.

`JobLife` is the loop of the job, woken by `poke`. What to do is said by `steps` while a round runs and by
`between_rounds` after it; how its shards run by `rounds`; what reaches the job from outside is in `batch_job`.
"""

import asyncio
from datetime import timedelta
from typing import NoReturn

from groupage.schemas import Health, JobRef, JobState, JobStatus, RoundPlan, Summary
from groupage.schemas.activity_calls import (
    FINALIZE_JOB,
    PLAN_ROUND,
    PREPARE_JOB,
    READ_PROGRESS,
    FinalizeJob,
    PlanRound,
    PrepareJob,
    Progress,
    ReadProgress,
)
from groupage.schemas.signals import MEMO_QUESTION
from groupage.workflows.alarm import Alarm
from groupage.workflows.between_rounds import account_was_cleared, finish_round, plan_next, some_are_unexplained
from groupage.workflows.calls import failure_of, start
from groupage.workflows.memory import JobArgument, JobMemory, RoundMemory, close_round, give_up, left_behind_named
from groupage.workflows.policy.pace import poll_s
from groupage.workflows.rounds import RoundRunner
from groupage.workflows.steps import (
    all_fail,
    ask_about_cost,
    ask_about_shards,
    ask_why_all_fail,
    ask_why_none_is_taken,
    history_is_full,
    look,
    none_is_taken,
    progress_matters,
    span_s,
    stop_wait_s,
    sync_until,
    window,
)
from groupage.workflows.view import (
    changed_attributes,
    details,
    job_status,
    model_of,
    new_question,
    reason,
    shard_attributes,
    summary_without_input,
)
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

_CANCEL_PREPARING = timedelta(minutes=1)
"""How long reading the input may go on after a cancellation, so that the job can end with a summary."""

_PAST_DEADLINE = timedelta(days=1)
"""How long the input is tried to be read after the deadline: a job without a reference has no summary."""


class JobLife:
    """Drives one job. `poke` wakes it after its memory has changed."""

    def __init__(self, spec: JobArgument, memory: JobMemory, workflow_id: str) -> None:
        self._spec = spec
        self._policy = spec.policy
        self._m = memory
        self._id = workflow_id
        self._woken = False
        self._alarm = Alarm(self.poke)

    def poke(self) -> None:
        self._woken = True

    def status(self) -> JobStatus:
        return job_status(self._spec, self._m, self._id)

    async def run(self) -> Summary:
        m = self._m
        if m.prepared is None and not await self._prepare():
            return self._without_input()
        while not self._over and m.accepted:
            if m.current is None and not await self._plan():
                break
            await self._run_round()
            no_try = account_was_cleared(m) and workflow.patched("refused-account-is-no-try")
            by_request = not some_are_unexplained(m) or workflow.patched("once-more-by-request")
            finish_round(m, self._policy, workflow.now(), no_try=no_try, by_request=by_request)
        await self._end_earlier_rounds()
        return await self._finalize()

    async def _prepare(self) -> bool:
        """Read the input; False if the job was cancelled before that had ended."""
        m = self._m
        self._enter(JobState.preparing)
        handle = start(
            PREPARE_JOB,
            PrepareJob(spec=self._spec, accepted_at=m.accepted_at),
            summary="read, check and store the requests",
            schedule_to_close=self._spec.deadline + _PAST_DEADLINE,
        )
        try:
            await workflow.wait_condition(lambda: handle.done() or m.cancel_reason is not None)
            if not handle.done():
                try:
                    await workflow.wait_condition(handle.done, timeout=_CANCEL_PREPARING)
                except TimeoutError:
                    handle.cancel()
            prepared = await handle
        except ActivityError as error:
            if m.cancel_reason is not None:
                return False
            self._fail(error)
        m.prepared = prepared.model_copy(update={"problems": []})
        if prepared.refused:
            shown = "; ".join(prepared.problems[:3])
            m.failed_reason = f"{prepared.rejected} of {prepared.requests} lines cannot be sent: {shown}"[:1000]
            m.ending = ""
        return True

    def _fail(self, error: ActivityError) -> NoReturn:
        """There is no job to sum up: the workflow fails with what the activity said."""
        failure = failure_of(error)
        self._m.failed_reason = failure.message
        self._enter(JobState.failed)
        kind = getattr(error.cause, "type", None) or "input.refused"
        raise ApplicationError(failure.message, failure, type=kind, non_retryable=True) from error

    async def _plan(self) -> bool:
        """Split what is unanswered into the next round's shards; False if nothing is to be sent."""
        m = self._m
        if not m.rounds_planned:
            ask_about_cost(m, self._spec, workflow.now())
            await self._decided()
        if self._over:
            return False
        call = plan_next(m, self._spec, workflow.now(), PlanRound(job=self._job, round=m.rounds_planned))
        if call is None:
            return False
        plan = await start(PLAN_ROUND, call, summary=f"split what is unanswered, round {call.round}")
        m.rounds_planned += 1
        give_up(m, plan.ended_again)
        if not plan.batch_shards + plan.sync_shards:
            m.ending = m.ending or ""
            return False
        m.current = self._begun(plan)
        return True

    def _begun(self, plan: RoundPlan) -> RoundMemory:
        return RoundMemory(
            round=plan.round,
            batch_shards=plan.batch_shards,
            sync_shards=plan.sync_shards,
            requests=plan.requests,
            started_at=workflow.now(),
        )

    async def _end_earlier_rounds(self) -> None:
        """Stop and harvest rounds that an earlier run of this job has sent and this one did not come to.

        What they answered is paid for: the merge takes it in, whatever this run has ended for.
        """
        m = self._m
        began_at = workflow.now()
        while m.prepared is not None and m.rounds_planned < m.prepared.rounds:
            call = PlanRound(job=self._job, round=m.rounds_planned)
            plan = await start(PLAN_ROUND, call, summary=f"look up round {call.round}, which an earlier run planned")
            m.rounds_planned += 1
            m.current = self._begun(plan)
            spent_s = (workflow.now() - began_at).total_seconds()
            settle_s, wait_s = (max(1.0, bound - spent_s) for bound in stop_wait_s(m, self._policy))
            why = reason(m) or "the job ends without it"
            await self._runner(m.current).stop_batches(why, settle_s, wait_s, not_started=True)
            close_round(m, 0)

    @property
    def _of_earlier_run(self) -> bool:
        """Whether the current round was planned before this run: any of its shards may have been sent."""
        m = self._m
        return m.current is not None and m.prepared is not None and m.current.round < m.prepared.rounds

    async def _decided(self) -> None:
        """Wait until the question is answered, the job cancelled, or it is too late to answer."""
        while self._m.question is not None and not self._over:
            self._woken = False
            self._alarm.set(look(self._m, self._policy, workflow.now(), None), "nobody decided")
            self._enter(JobState.needs_decision)
            await workflow.wait_condition(lambda: self._woken)
            if self._m.question is None and not self._over:
                self._enter(JobState.running)
        self._alarm.cancel()

    async def _run_round(self) -> None:
        """Run the current round until all its shards have reported, or there is a reason to stop."""
        m, current = self._m, self._m.current
        assert current is not None
        runner = self._runner(current)
        await runner.reattach()
        self._set_alarm(runner, None)
        asked = m.question is not None
        while True:
            self._woken = False
            self._ask()
            if self._alarm.rang:
                await self._look(runner)
            elif asked and m.question is None:
                # While a question stood the alarm was for silence; now it is for the deadline again.
                self._set_alarm(runner, None)
            asked = m.question is not None
            self._enter(self._state_now())
            if self._over:
                await self._stop(runner)
                return
            if m.escalated and current.batch_shards and not current.stopped:
                settle_s, wait_s = stop_wait_s(m, self._policy)
                await runner.stop_batches("escalation", settle_s, wait_s, not_started=self._of_earlier_run)
            elif m.question is None:
                if self._full() and not current.stopped:
                    if not runner.syncing:
                        await self._continue_as_new()
                else:
                    await runner.start_batches(window(m, self._policy))
                    runner.start_sync()
                    self._enter(self._state_now())
            if runner.finished and m.question is None and not self._asks():
                return
            await workflow.wait_condition(lambda: self._woken)

    def _ask(self) -> None:
        ask_about_shards(self._m, self._spec)
        if none_is_taken(self._m) and workflow.patched("ask-why-none-is-taken"):
            ask_why_none_is_taken(self._m, self._spec)
        if all_fail(self._m) and workflow.patched("ask-why-batches-fail"):
            ask_why_all_fail(self._m, self._spec)

    def _asks(self) -> bool:
        self._ask()
        return self._m.question is not None

    async def _look(self, runner: RoundRunner) -> None:
        """The alarm rang: ask how far the batches are, and decide."""
        m, current = self._m, self._m.current
        assert current is not None
        progress: Progress | None = None
        if current.running and progress_matters(m, self._policy, workflow.now()):
            if runner.orphans:
                await runner.reattach()
            progress = await self._read_progress(current)
        self._set_alarm(runner, progress)

    async def _read_progress(self, current: RoundMemory) -> Progress | None:
        """What the provider counts, or None: the job decides without it then."""
        argument = ReadProgress(job=self._job, round=current.round, shards=list(current.running))
        bound = timedelta(seconds=max(1.0, min(120.0, 0.01 * span_s(self._m))))
        try:
            return await start(READ_PROGRESS, argument, summary="how far the batches are", schedule_to_close=bound)
        except ActivityError as error:
            workflow.logger.warning("%s: no progress to be had: %s", self._id, failure_of(error).message)
            return None

    def _set_alarm(self, runner: RoundRunner, progress: Progress | None) -> None:
        now = workflow.now()
        at = look(self._m, self._policy, now, progress, orphans=bool(runner.orphans))
        self._alarm.set(at, "look whether the deadline still allows to wait")

    async def _stop(self, runner: RoundRunner) -> None:
        """Stop everything that runs, and take what it has."""
        self._alarm.cancel()
        settle_s, wait_s = stop_wait_s(self._m, self._policy)
        why = reason(self._m) or "the job ends"
        batches = runner.stop_batches(why, settle_s, wait_s, not_started=self._of_earlier_run)
        await asyncio.gather(batches, runner.stop_sync())

    async def _continue_as_new(self) -> NoReturn:
        """Children go on, their signals reach the next run by the workflow's id; handlers never wait."""
        self._alarm.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)
        # The next run begins without a memo: the same question, asked again, has to be told again.
        self._m.published.pop(MEMO_QUESTION, None)
        workflow.continue_as_new(self._spec.model_copy(update={"carried": self._m}))

    async def _finalize(self) -> Summary:
        m = self._m
        self._alarm.cancel()
        self._enter(JobState.finalizing)
        assert m.prepared is not None
        argument = FinalizeJob(
            job=self._job,
            fingerprint=m.prepared.fingerprint,
            rounds=m.rounds_planned,
            cancelled=m.cancel_reason is not None,
            failed_reason=m.failed_reason,
            reason=reason(m),
            left_behind=left_behind_named(m),
            unsettled=list(m.unsettled),
            accepted_at=m.accepted_at,
            deadline_at=m.deadline_at,
            effective_for_s=self._policy.effective_for.total_seconds(),
        )
        summary = await start(FINALIZE_JOB, argument, summary=f"merge {m.rounds_planned} rounds")
        m.outcomes, m.cost_usd, m.waste_usd = dict(summary.outcomes), summary.cost_usd, summary.waste_usd
        m.health = Health.on_track
        self._enter(summary.state)
        return summary

    def _without_input(self) -> Summary:
        """Cancelled before the requests were read: there is nothing to merge."""
        self._enter(JobState.finalizing)
        summary = summary_without_input(self._spec, self._m, workflow.now())
        self._enter(summary.state)
        return summary

    # Small things

    @property
    def _over(self) -> bool:
        return self._m.ending is not None or self._m.cancel_reason is not None

    @property
    def _job(self) -> JobRef:
        assert self._m.prepared is not None
        return self._m.prepared.job

    def _full(self) -> bool:
        info = workflow.info()
        return info.is_continue_as_new_suggested() or history_is_full(info.get_current_history_length())

    def _runner(self, current: RoundMemory) -> RoundRunner:
        """Shards get the policy with its times scaled down to the job's span."""
        settle_s, _ = stop_wait_s(self._m, self._policy)
        scaled = {
            "poll": timedelta(seconds=poll_s(self._policy, span_s(self._m))),
            "settle": timedelta(seconds=settle_s),
        }
        return RoundRunner(
            self._m,
            current,
            self._job,
            self._policy.model_copy(update=scaled),
            model=model_of(self._spec, self._m),
            attributes=shard_attributes(self._spec, self._m),
            sync_until=sync_until(self._m, self._policy),
            poke=self.poke,
        )

    def _state_now(self) -> JobState:
        if self._over:
            return self._m.state
        if self._m.question is not None:
            return JobState.needs_decision
        return JobState.escalating if self._m.escalated else JobState.running

    def _enter(self, state: JobState) -> None:
        """Take on the state and show it: attributes where they changed, details for the Web UI."""
        m = self._m
        m.state = state
        if m.question is not None:
            m.health = Health.needs_decision
        elif m.health is Health.needs_decision:
            m.health = Health.on_track
        updates = changed_attributes(self._spec, m)
        if updates:
            workflow.upsert_search_attributes(updates)
        question = new_question(m, self._id)
        if question and workflow.patched("question-in-memo"):
            workflow.upsert_memo(question)
        workflow.set_current_details(details(self.status(), m))
