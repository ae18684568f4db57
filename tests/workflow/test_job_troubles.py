"""What a job cannot know of itself is seen all the same: steps that keep failing, pauses, code that does not work.

On a dev server: the time-skipping one does not tell all of this. Times are real here, so short.
"""

import asyncio
import sysconfig
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from groupage.client import Job
from groupage.client.connection import Connection
from groupage.client.troubles import Trouble, with_troubles
from groupage.schemas import BatchError, ErrorClass, Health, JobPolicy, JobSpec, JobState, Summary
from groupage.schemas.activity_calls import FinalizeJob, SubmitBatch, SubmittedBatch
from groupage.schemas.signals import BATCH_JOB, SEARCH_ATTRIBUTES
from groupage.store.objects import open_store
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.workflow.conftest import TASK_QUEUE, Jobs, serving
from tests.workflow.scripted_batch import Script, in_doubt
from tests.workflow.world import World

KEYS = {"Keyword": SearchAttributeKey.for_keyword, "Datetime": SearchAttributeKey.for_datetime}
POLICY = JobPolicy(poll="1s")


def failing(message: str) -> ApplicationError:
    return ApplicationError(message, next_retry_delay=timedelta(milliseconds=200))


class Stubborn(World):
    """`submit_fails`, `finalize_fails`: what is raised by that step, for as long as it is set."""

    submit_fails: ApplicationError | None = None
    finalize_fails: ApplicationError | None = None

    @activity.defn(name="submit_batch")
    async def submit_batch(self, argument: SubmitBatch) -> SubmittedBatch:
        if self.submit_fails is not None:
            raise self.submit_fails
        return await World.submit_batch(self, argument)

    @activity.defn(name="finalize_job")
    async def finalize_job(self, argument: FinalizeJob) -> Summary:
        if self.finalize_fails is not None:
            raise self.finalize_fails
        return await World.finalize_job(self, argument)


async def wall_clock() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(Path(sysconfig.get_path("scripts")) / "temporal"),
        data_converter=pydantic_data_converter,
        search_attributes=[KEYS[kind](name) for name, kind in SEARCH_ATTRIBUTES.items()],
    ) as env:
        yield env


@pytest.fixture
def world() -> Stubborn:
    return Stubborn(wall_clock, requests=10)


@pytest.fixture
async def live(env: WorkflowEnvironment, world: Stubborn) -> AsyncIterator[Jobs]:
    async with serving(env, world) as jobs:
        yield jobs


def job_of(client: Client) -> Job:
    return Job(Connection(client, TASK_QUEUE), open_store("memory://"), "t", "k")


async def seen(job: Job, true: Callable[[list[Trouble]], Any]) -> list[Trouble]:
    for _ in range(300):
        troubles = await job.troubles()
        if true(troubles):
            return troubles
        await asyncio.sleep(0.1)
    raise AssertionError(f"never came: {troubles}")


async def test_a_step_of_a_shard_that_keeps_failing_is_told(live, world):
    world.submit_fails = failing("No module named 'anthropic'")
    handle = await live.start(policy=POLICY)
    job = job_of(live.client)
    troubles = await seen(job, lambda found: found and found[0].fails)
    assert troubles[0].text.startswith("submit_batch of r0-s000, attempt ")
    assert "No module named 'anthropic'" in troubles[0].text
    status = with_troubles(await job.status(), troubles)
    assert status.health is Health.at_risk
    world.submit_fails, world.script = None, lambda r, s: Script(turnaround_s=0.0)
    assert (await handle.result()).state is JobState.completed
    assert await job.troubles() == []


async def test_a_step_of_the_job_that_keeps_failing_is_told(live, world):
    world.finalize_fails = failing("date value out of range")
    world.script = lambda r, s: Script(turnaround_s=0.0)
    handle = await live.start(policy=POLICY)
    troubles = await seen(job_of(live.client), lambda found: found and found[0].fails)
    assert "finalize_job of the job, attempt " in troubles[0].text
    assert "date value out of range" in troubles[0].text
    world.finalize_fails = None
    await handle.result()


async def test_a_create_call_in_doubt_is_told_and_is_no_failure(live, world):
    world.submit_fails = in_doubt()
    handle = await live.start(policy=POLICY)
    troubles = await seen(job_of(live.client), lambda found: any("attempt 3" in each.text for each in found))
    assert "it is not known yet whether it was submitted" in troubles[0].text
    assert not troubles[0].fails
    await handle.terminate()
    world.submit_fails = None


async def test_a_pause_for_quota_is_told_with_the_providers_words(live, world):
    full = BatchError(error_class=ErrorClass.quota, code="token_limit_exceeded", message="Enqueued token limit reached")
    world.script = lambda r, s: Script(turnaround_s=0.0, refuse=[full] * 50)
    handle = await live.start(policy=JobPolicy(poll="30s"))
    troubles = await seen(job_of(live.client), bool)
    assert troubles[0].text.startswith("r0-s000 pauses: quota: Enqueued token limit reached; next try in ")
    await handle.terminate()


async def test_a_batch_that_runs_is_no_trouble(live, world):
    script = Script(turnaround_s=9e9)
    world.script = lambda r, s: script
    handle = await live.start(policy=POLICY)
    while world.calls["await_batch"] < 3:  # noqa: ASYNC110 - the world fills up in this loop's own activities
        await asyncio.sleep(0.1)
    assert await job_of(live.client).troubles() == []
    script.turnaround_s = 0.0
    await handle.result()


@workflow.defn(name=BATCH_JOB)
class Broken:
    @workflow.run
    async def run(self, argument: JobSpec) -> None:
        raise OverflowError(f"date value out of range: {argument.key}")


async def test_workflow_code_that_fails_is_told_and_nobody_says_that_no_worker_is_there(env):
    async with Worker(
        env.client, task_queue=TASK_QUEUE, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        await env.client.start_workflow(BATCH_JOB, JobSpec(tenant="t", key="k"), id="job/t/k", task_queue=TASK_QUEUE)
        job = job_of(env.client)
        troubles = await seen(job, bool)
        bare = await job.status()
        status = with_troubles(bare, troubles)
    assert "no worker answers" not in bare.reason
    assert "workers have not answered" in bare.reason
    assert troubles[0].text.startswith("workflow code of the job fails, attempt ")
    assert "date value out of range: k" in troubles[0].text
    assert status.health is Health.stuck
    assert status.reason.startswith("its workflow code fails")
    assert "groupage watch" not in status.next_step


async def test_a_question_is_seen_where_no_worker_runs(env, world):
    world.estimate = Decimal(20)
    async with serving(env, world) as jobs:
        handle = await jobs.start(policy=JobPolicy(max_cost_usd=Decimal(5)))
        job = job_of(env.client)
        while (await job.status()).state is not JobState.needs_decision:  # noqa: ASYNC110 - the server's clock is real
            await asyncio.sleep(0.1)
        asked = await job.status()
    status = await job.status()
    assert (status.state, status.health) == (JobState.needs_decision, Health.needs_decision)
    assert status.reason.startswith(asked.reason)
    assert "20.00 USD is above the policy's 5 USD" in status.reason
    assert "worker" in status.reason, "why the rest is not known"
    assert status.next_step == asked.next_step
    assert "groupage decide t/k go_on" in status.next_step
    await handle.terminate()
