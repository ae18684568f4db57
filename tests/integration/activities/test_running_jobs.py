"""Whether a job runs is asked of a real Temporal server, from within an activity."""

from datetime import timedelta

from groupage.activities.registry import Context
from groupage.activities.settings import ActivitySettings
from groupage.workers.embedded import find_binary
from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

context = Context(ActivitySettings(store_url="memory://"))


@activity.defn
async def ask(key: str) -> bool:
    return await context.is_running("t", key)


@workflow.defn(name="BatchJob")
class Job:
    @workflow.run
    async def run(self, ends: bool) -> None:
        await workflow.wait_condition(lambda: ends)


@workflow.defn
class Asking:
    @workflow.run
    async def run(self, key: str) -> bool:
        return await workflow.execute_activity(ask, key, start_to_close_timeout=timedelta(seconds=20))


async def test_a_job_runs_while_its_workflow_does_and_not_before_or_after():
    server = await WorkflowEnvironment.start_local(dev_server_existing_path=find_binary())
    async with server:
        parts = {"workflows": [Job, Asking], "activities": [ask], "workflow_runner": UnsandboxedWorkflowRunner()}
        async with Worker(server.client, task_queue="q", **parts):
            await server.client.start_workflow("BatchJob", False, id="job/t/on", task_queue="q")
            await server.client.execute_workflow("BatchJob", True, id="job/t/over", task_queue="q")
            answers = [
                await server.client.execute_workflow(Asking.run, key, id=f"ask-{key}", task_queue="q")
                for key in ("on", "over", "never")
            ]
    assert answers == [True, False, False]
