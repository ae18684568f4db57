"""TE-08: today's code replays yesterday's histories, so jobs that are open during a deployment go on."""

import base64
import json
from pathlib import Path

import pytest
from groupage.workflows import BatchJob, ProviderBatch
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def replayer() -> Replayer:
    return Replayer(workflows=[BatchJob, ProviderBatch], data_converter=pydantic_data_converter)


def history_of(path: Path) -> WorkflowHistory:
    name = "job/t/k" if ".job." in path.name else "job/t/k/r0-s000"
    return WorkflowHistory.from_json(name, path.read_text(encoding="utf-8"))


def test_there_are_histories_of_jobs_and_shards():
    assert len(HISTORIES) >= 12


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_TE_08_a_recorded_history_replays(path):
    await replayer().replay_workflow(history_of(path))


async def test_TE_08_a_job_that_began_with_a_field_nobody_knew_goes_on():
    """New jobs with such a field are refused; the history of one that was begun by older code says otherwise."""
    history = json.loads((HISTORIES[0].parent / "happy.job.json").read_text(encoding="utf-8"))
    payload = history["events"][0]["workflowExecutionStartedEventAttributes"]["input"]["payloads"][0]
    argument = json.loads(base64.b64decode(payload["data"])) | {"nobody_knows": 1}
    payload["data"] = base64.b64encode(json.dumps(argument).encode()).decode()
    await replayer().replay_workflow(WorkflowHistory.from_json("job/t/k", json.dumps(history)))


async def test_a_history_that_the_code_would_not_write_is_refused():
    """The guard guards: a changed activity in a history is noticed."""
    path = next(p for p in HISTORIES if p.name == "happy.shard.json")
    changed = json.loads(path.read_text(encoding="utf-8").replace('"submit_batch"', '"create_batch"'))
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json("job/t/k/r0-s000", changed))
