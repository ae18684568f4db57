"""Collects the evidence of a run that has ended."""

import asyncio
import io
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard
from temporalio.client import Client, WorkflowExecutionStatus

from tests.chaos.evidence import Evidence
from tests.chaos.provider import Provider
from tests.chaos.scenario import TENANT, Scenario

QUIET_WITHIN_S = 120.0
"""A batch that was cancelled too late ends, is harvested and cleaned up after the job has ended."""
PERSON_AFTER_S = 14.0
"""By then every batch that we may cancel has ended, the slowest cancellation included."""
LOOK_EVERY_S = 0.15


async def workflows_of(client: Client, scenario: Scenario) -> dict[str, tuple[str, bool]]:
    """{run id: (workflow id, is it running)} of the job and its shards."""
    prefix = f"job/{TENANT}/{scenario.key}"
    query = f'WorkflowId = "{prefix}" OR WorkflowId STARTS_WITH "{prefix}/"'
    return {
        found.run_id: (found.id, found.status is WorkflowExecutionStatus.RUNNING)
        async for found in client.list_workflows(query)
    }


@dataclass(slots=True)
class Quiet:
    """`running` are workflows that still run; `ended_by_person` batches that were reported and then cancelled by hand."""

    running: list[str] = field(default_factory=list)
    ended_by_person: list[str] = field(default_factory=list)


async def wait_until_quiet(
    client: Client, provider: Provider, scenario: Scenario, *, within_s: float, job_directory: Path
) -> Quiet:
    """Wait until nothing runs and no file is left, or the time is over.

    Where batches show no tag, one that a lost reply may have made is not cancelled before its results prove it ours. If
    it does not end, the summary names it, its workflow goes on watching it, and a person ends it in the console.
    """
    began = time.monotonic()
    give_up_at, quiet_at = began + within_s, Quiet()
    while True:
        running = [id_ for id_, runs in (await workflows_of(client, scenario)).values() if runs]
        state = await provider.state()
        quiet = not running and not state["batches_live"] and not state["files"]
        if quiet or time.monotonic() > give_up_at:
            quiet_at.running = running
            return quiet_at
        if not scenario.provider.tagged and not quiet_at.ended_by_person and time.monotonic() > began + PERSON_AFTER_S:
            named = " ".join((_json(job_directory / "summary.json") or {}).get("left_behind", ()))
            live = [batch["id"] for batch in state["batches"] if not batch["ended"] and batch["id"] in named]
            for batch_id in live:
                await provider.cancel(batch_id)
            quiet_at.ended_by_person = live
        if not running and not state["batches_live"]:
            # Files that nobody is going to delete any more: no need to wait for them long.
            give_up_at = min(give_up_at, time.monotonic() + 10.0)
        await asyncio.sleep(LOOK_EVERY_S)


async def gather(
    client: Client,
    provider: Provider,
    scenario: Scenario,
    *,
    job_directory: Path,
    output: Path,
    stderr: Path,
    exit_code: int | None,
    api_key: str,
) -> Evidence:
    within_s = QUIET_WITHIN_S if exit_code is not None else 1.0
    quiet = await wait_until_quiet(client, provider, scenario, within_s=within_s, job_directory=job_directory)
    state = await provider.state()
    histories = {}
    for run_id, (workflow_id, _) in (await workflows_of(client, scenario)).items():
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        events = [event.SerializeToString() async for event in handle.fetch_history_events()]
        histories[f"{workflow_id} {run_id}"] = b"".join(events)
    return Evidence(
        scenario=scenario,
        api_key=api_key,
        exit_code=exit_code,
        output=_bytes(output),
        summary=_json(job_directory / "summary.json"),
        ledger=await asyncio.to_thread(_ledger, job_directory / "ledger.parquet"),
        questions=await provider.questions(),
        batches=state["batches"],
        files=state["files"],
        running_workflows=quiet.running,
        ended_by_person=quiet.ended_by_person,
        histories=histories,
        objects=_objects(job_directory),
        stderr=(_bytes(stderr) or b"").decode(errors="replace"),
    )


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _json(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_bytes())) if path.exists() else None


def _ledger(path: Path) -> list[dict[str, Any]] | None:
    if not path.exists():
        return None
    import pyarrow.parquet

    return list(pyarrow.parquet.read_table(path).to_pylist())


def _objects(directory: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(directory.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        name = path.relative_to(directory).as_posix()
        found[name] = data
        if path.suffix == ".zst" and "/parts/" not in name:
            # Several frames in a row are one object.
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
                found[name] = stream.read()
    return found
