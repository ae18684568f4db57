"""Jobs that were terminated or reset by hand, as docs/triage.md recommends: what was paid for is delivered, once."""

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cli_world import Commands, assert_answers
from groupage.client.local_server import ServerFiles, read_record
from groupage.workers.embedded import ServerUse
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

JOB = "job/default/k"


def with_job(groupage: Commands, work: Callable[[WorkflowHandle[Any, Any]], Awaitable[Any]]) -> Any:
    """Do something to the workflow of job `k` at the embedded server."""

    async def connected() -> Any:
        record = read_record(ServerFiles.of(groupage.state_dir))
        assert record is not None
        client = await Client.connect(record.address)
        return await work(client.get_workflow_handle(JOB))

    return asyncio.run(connected())


def terminate(groupage: Commands) -> None:
    with_job(groupage, lambda job: job.terminate("by hand"))


async def reset_to_the_first_task(job: WorkflowHandle[Any, Any]) -> None:
    """`temporal workflow reset --type FirstWorkflowTask`"""
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    events = (await job.fetch_history()).events
    request = ResetWorkflowExecutionRequest(
        namespace="default",
        workflow_execution=WorkflowExecution(workflow_id=job.id),
        reason="by hand",
        workflow_task_finish_event_id=next(e.event_id for e in events if e.event_type == completed),
        request_id="reset",
    )
    await job._client.workflow_service.reset_workflow_execution(request)


def wait_until(holds: Callable[[], object], within_s: float = 180.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"not within {within_s:.0f} s"
        time.sleep(0.1)


def summary_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_promise_3_a_terminated_job_that_is_handed_in_again_sends_nothing_that_was_answered(
    start: Callable[..., Commands], tmp_path: Path
):
    """Round 0 settles after round 1 was planned of all its requests and the job was terminated."""
    groupage = start()
    groupage.emulator.set_faults(
        {
            "batches": [
                {"effect": "stall", "at": 0.8, "every": 1},
                {"effect": "slow_cancel", "seconds": 5, "every": 1},
            ],
            "calls": [{"call": "sync", "action": "error", "status": 429, "retry_after": 3}],
        }
    )
    command = ("run", groupage.write_input(range(20)), "-o", tmp_path / "out", "--poll", "500ms", "--key", "k",
               "--policy", "max_shard_requests=10", "--policy", "settle=1s", "--policy", "sync_rpm=120",
               "--policy", "turnaround=5s", "--json")  # fmt: skip
    first = groupage.start(*command, "--deadline", "35s")
    wait_until(lambda: "sync" in groupage.emulator.status()["calls"])
    terminate(groupage)
    groupage.finish(first)
    wait_until(lambda: groupage.emulator.status()["batches_live"] == 0)
    assert groupage.emulator.ledger()["questions_answered"] == 16, "the trial shows nothing"
    groupage.emulator.set_faults({})
    done = groupage.call(*command, "--deadline", "5m")
    assert_answers(tmp_path / "out", range(20))
    ledger = groupage.emulator.ledger()
    assert (ledger["questions_answered"], ledger["questions_answered_more_than_once"]) == (20, 0)
    assert summary_of(done)["waste_usd"] == "0"


def test_promise_3_a_cancelled_successor_of_a_terminated_job_keeps_what_was_answered(
    start: Callable[..., Commands], tmp_path: Path
):
    """The successor ends before it comes to the rounds of the first run, one of whose batches still lives."""
    groupage = start()
    groupage.emulator.set_faults(
        {
            "batches": [{"effect": "stall", "at": 0.5, "tag": "-r1-"}],
            "requests": [{"kind": "http", "status": 500, "share": 0.5, "times": 1, "routes": ["batch"]}],
        }
    )
    source, policy = groupage.write_input(range(20)), ("--poll", "500ms", "--key", "k", "--deadline", "5m")
    server = ServerUse(groupage.state_dir)
    server.join()  # so that it runs between the commands, without a worker
    try:
        running = groupage.start("run", source, "-o", tmp_path / "out", *policy)
        groupage.wait_until_submitted(2)
        running.kill()
        terminate(groupage)
        assert groupage.call("submit", source, *policy).returncode == 0
        with_job(groupage, lambda job: job.cancel())
        groupage.call("watch", "k")
        done = summary_of(groupage.call("results", "k", "-o", tmp_path / "out", "--json"))
    finally:
        server.leave()
    paid, state = groupage.emulator.ledger()["questions_answered"], groupage.emulator.status()
    assert paid >= 10, "the trial shows nothing"
    assert (done["state"], done["outcomes"]["succeeded"], done["rounds"]) == ("cancelled", paid, 2)
    assert (state["batches_live"], state["files"]) == (0, [])


def test_a_job_that_is_reset_is_followed_to_its_end(start: Callable[..., Commands], tmp_path: Path):
    """As docs/triage.md recommends for a broken history: the command goes on, and so does its worker."""
    groupage = start(turnaround="6s")
    source = groupage.write_input(range(20))
    running = groupage.start("run", source, "-o", tmp_path / "out", "--poll", "500ms", "--key", "k", "--deadline", "5m",
                             "--policy", "max_shard_requests=10", "--json")  # fmt: skip
    groupage.wait_until_submitted(2)
    with_job(groupage, reset_to_the_first_task)
    done = groupage.finish(running)
    assert done.returncode == 0, done.stderr
    assert_answers(tmp_path / "out", range(20))
    ledger, state = groupage.emulator.ledger(), groupage.emulator.status()
    assert (ledger["questions_answered"], ledger["questions_answered_more_than_once"]) == (20, 0)
    assert (state["batches_live"], state["files"]) == (0, [])
