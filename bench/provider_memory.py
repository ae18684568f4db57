"""The memory that a gigabyte of a provider's results takes: each adapter beside a bare loop with the provider's SDK.

    python -m bench.provider_memory [--providers openai,bedrock] [--lines 5000,50000] [--answer-bytes 20000]

For each provider and size one batch is made and answered; then two fresh processes fetch and read its results: one
by the activity that a worker runs (download, read, join, store), one by bench/bare_results.py. Each tells its own
high-water mark of resident memory. docs/performance.md says what the figures mean.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import zstandard
from groupage.schemas import JobRef, JobSpec, Message, ShardRef
from groupage.schemas.activity_calls import AwaitBatch, CollectBatch, PlanRound, PrepareJob, SubmitBatch
from groupage.workers.memory import bound_allocator

from bench.processes import peak_mib
from tests.side_by_side.providers import PROVIDERS, Provider, running

MIB = 2**20
LINES = (5_000, 50_000)
ANSWER_BYTES = 20_000
BATCH_WITHIN_S = 600.0


class Ready(Message):
    """A batch that has ended: what its results are collected by."""

    call: CollectBatch
    files: list[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one process. `before_mib` is what it held when the work began, with all that the work imports beforehand."""

    provider: str
    side: str
    lines: int
    megabytes: float
    before_mib: float
    peak_mib: float
    seconds: float


def activities(provider: Provider, folder: Path) -> Any:
    """(data, batch) activities on a store in the folder, as a worker has them."""
    from groupage.activities.batch import BatchActivities
    from groupage.activities.data import DataActivities
    from groupage.activities.registry import Context
    from groupage.activities.settings import ActivitySettings, ProviderSettings

    (folder / "spool").mkdir(exist_ok=True)
    settings = ActivitySettings(
        store_url=(folder / "store").as_uri(),
        spool_dir=folder / "spool",
        providers={provider.name: ProviderSettings()},
    )
    context = Context(settings)
    return context, DataActivities(context), BatchActivities(context)


async def attempt(activity: Any, call: Any) -> Any:
    """Attempts as Temporal makes them, until one succeeds."""
    from temporalio.exceptions import ApplicationError
    from temporalio.testing import ActivityEnvironment

    give_up_at = time.monotonic() + BATCH_WITHIN_S
    while True:
        try:
            return await ActivityEnvironment().run(activity, call)
        except ApplicationError as error:
            if error.non_retryable or time.monotonic() > give_up_at:
                raise
            await asyncio.sleep(0.5)


async def submit(provider: Provider, folder: Path, lines: int) -> Ready:
    """Make a batch of so many requests and wait for its end."""
    (folder / "store").mkdir()
    source = folder / "in.jsonl"
    with source.open("wb", buffering=MIB) as file:
        for n in range(lines):
            body = {"model": provider.model, "messages": [{"role": "user", "content": f"Question {n}"}]}
            file.write(orjson.dumps({"id": f"q{n}", "body": body}) + b"\n")
    context, data, batch = activities(provider, folder)
    try:
        now = datetime.now(UTC)
        spec = JobSpec(key="memory", provider=provider.name, input_url=source.as_uri())
        job: JobRef = (await attempt(data.prepare_job, PrepareJob(spec=spec, accepted_at=now))).job
        plan = await attempt(data.plan_round, PlanRound(job=job, round=0, actions={}))
        if plan.batch_shards != 1:
            raise RuntimeError(f"{lines} lines are {plan.batch_shards} batches: ask for fewer")
        shard = ShardRef(job=job, round=0, shard=0)
        made = await attempt(batch.submit_batch, SubmitBatch(shard=shard))
        waiting = AwaitBatch(shard=shard, batch_id=made.batch_id, submitted_at=made.submitted_at, poll_s=0.5)
        status = await attempt(batch.await_batch, waiting)
        adapter = context.provider(provider.name)
        files = [file.ref for file in adapter.result_files(status) if file.lines]
    finally:
        await context.close()
    return Ready(call=CollectBatch(shard=shard, status=status, submitted_at=made.submitted_at), files=files)


async def collect(provider: Provider, folder: Path, ready: Ready) -> int:
    """The step of a worker; returns how many requests were answered."""
    context, data, _ = activities(provider, folder)
    try:
        report = await attempt(data.collect_batch, ready.call)
    finally:
        await context.close()
    return sum(report.outcomes.values()) - sum(report.unanswered.values())


def child(what: str, provider: Provider, folder: Path, lines: int) -> None:
    """One process's part; prints JSON."""
    if what == "submit":
        ready = asyncio.run(submit(provider, folder, lines))
        (folder / "ready.json").write_text(ready.model_dump_json())
        print("{}")
        return
    ready = Ready.model_validate_json((folder / "ready.json").read_bytes())
    # As `groupage worker` does, and with what it has imported before there is any work.
    bound_allocator()
    activities(provider, folder)
    before, began = peak_mib(os.getpid()), time.perf_counter()
    done = asyncio.run(collect(provider, folder, ready))
    seconds = time.perf_counter() - began
    print(json.dumps({"done": done, "before_mib": before, "peak_mib": peak_mib(os.getpid()), "seconds": seconds}))


def run_child(command: list[str], env: dict[str, str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", *command], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-500:]}\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout))


def measure(provider: Provider, folder: Path, lines: int, answer_bytes: int) -> list[Figures]:
    """Both sides on the same results."""
    megabytes = 3 * lines * answer_bytes // 10**6 + 640
    options: dict[str, Any] = {"turnaround": "1s", "answer_bytes": answer_bytes, "megabytes": megabytes}
    with running(provider, folder, **options) as there:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GROUPAGE_", "TEMPORAL_"))}
        env = clean | there.variables | provider.waits
        ours = ["bench.provider_memory", "--child"]
        here = [provider.label, str(folder), str(lines)]
        run_child([*ours, "submit", *here], env)
        told = {"groupage": run_child([*ours, "collect", *here], env)}
        ready = Ready.model_validate_json((folder / "ready.json").read_bytes())
        refs = [ready.call.status.batch_id] if provider.label == "anthropic" else ready.files
        told["bare loop"] = run_child(["bench.bare_results", provider.label, *refs], env)
        size = sum(map(unpacked, (folder / "store").rglob("output.jsonl.zst")))
    figures = []
    for side, one in told.items():
        done = int(one.pop("done"))
        if done != lines:
            raise RuntimeError(f"{provider.label}, {side}: {done} of {lines} lines were read")
        figures.append(Figures(provider.label, side, lines, size / 10**6, **one))
    return figures


def unpacked(path: Path) -> int:
    """Bytes of a compressed file's content."""
    with zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True) as stream:
        return sum(map(len, iter(lambda: stream.read(MIB), b"")))


def show(figures: list[Figures]) -> None:
    sizes = sorted({one.lines for one in figures})
    known = {(one.provider, one.side, one.lines): one for one in figures}
    head = [
        f"{side}, {known[label, side, n].megabytes:,.0f} MB"
        for label in [figures[0].provider]
        for side in ("groupage", "bare loop")
        for n in sizes
    ]
    print("\n| peak memory in MiB | " + " | ".join(head) + " | growth |")
    print("|---" * (len(head) + 2) + "|")
    for label in dict.fromkeys(one.provider for one in figures):
        ours = [known[label, "groupage", n] for n in sizes]
        theirs = [known[label, "bare loop", n] for n in sizes]
        cells = [f"{one.peak_mib:,.0f} ({one.seconds:.0f} s)" for one in (*ours, *theirs)]
        print(f"| `{label}` | {' | '.join(cells)} | {ours[-1].peak_mib - ours[0].peak_mib:+,.0f} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--providers", default=",".join(PROVIDERS))
    options.add_argument("--lines", default=",".join(map(str, LINES)), help="of one batch each")
    options.add_argument("--answer-bytes", type=int, default=ANSWER_BYTES)
    options.add_argument("--directory", type=Path, help="scratch space: four times the results")
    options.add_argument("--json", type=Path, help="write the figures there, too")
    options.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        what, label, folder, lines = given.child
        child(what, PROVIDERS[label], Path(folder), int(lines))
        return
    figures: list[Figures] = []
    for label in given.providers.split(","):
        for lines in map(int, given.lines.split(",")):
            with tempfile.TemporaryDirectory(prefix="groupage-memory-", dir=given.directory) as folder:
                found = measure(PROVIDERS[label], Path(folder), lines, given.answer_bytes)
            for one in found:
                print(
                    f"  {label}, {one.side}, {lines:,} lines: {one.before_mib:.0f} MiB before, {one.peak_mib:.0f} at most, {one.seconds:.1f} s",
                    flush=True,
                )
            figures += found
    show(figures)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in figures], indent=1))


if __name__ == "__main__":
    main()
