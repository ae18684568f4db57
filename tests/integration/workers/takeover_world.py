"""A workflow with one endless activity, run by a worker that is killed. Run as a program, it is that worker."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from groupage.workers.takeover import announced_worker
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@activity.defn(name="work")
async def hang() -> str:
    await asyncio.sleep(600)
    return "never"


@activity.defn(name="work")
async def finish() -> str:
    return f"attempt {activity.info().attempt}"


@workflow.defn(name="BatchJob")
class Waiting:
    @workflow.run
    async def run(self) -> str:
        # As an activity that has been retried often: the ordinary pause would be minutes.
        retry = RetryPolicy(initial_interval=timedelta(minutes=5))
        result: str = await workflow.execute_activity(
            "work", start_to_close_timeout=timedelta(minutes=5), retry_policy=retry
        )
        return result


async def main(address: str, state_dir: str) -> None:
    client = await Client.connect(address)
    async with announced_worker(Path(state_dir)) as announced:
        runner = UnsandboxedWorkflowRunner()
        worker = Worker(
            client,
            task_queue="waiting",
            identity=announced.identity,
            workflows=[Waiting],
            activities=[hang],
            workflow_runner=runner,
        )
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
