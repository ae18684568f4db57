"""Groupage beside a bare loop, on the same input, against the emulated provider.

    python -m bench.throughput 100000 1000000

docs/performance.md says what the figures mean.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from groupage.emulator.measure import measure
from groupage.emulator.process import EmulatorProcess

from bench.processes import Run, Usage, Watch, run_watched
from bench.requests_file import write_requests
from bench.same_output import check_same
from bench.steps import Step, steps_of

TURNAROUND = "1s"
POLL_S = 1.0
WORKERS = min(4, os.cpu_count() or 1)
"""One a core: Python runs one thread at a time in each."""
GROUPAGE = str(Path(sys.executable).with_name("groupage"))


@dataclass(slots=True)
class Figures:
    """One run of one side. `emulator_cpu_s` is the provider's share of the machine meanwhile."""

    side: str
    wall_s: float
    processes: list[Usage]
    emulator_cpu_s: float
    steps: list[Step] = field(default_factory=list)

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.processes)


def clean_environment(state: Path, base_url: str) -> dict[str, str]:
    """Nothing of the caller's own settings: a fresh state directory, the emulator as the provider."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GROUPAGE_", "TEMPORAL_"))}
    return env | {
        "GROUPAGE_STATE_DIR": str(state),
        "GROUPAGE_PROVIDERS__OPENAI__BASE_URL": base_url,
        "OPENAI_API_KEY": "bench",
    }


def run_command(source: Path, output: Path, *options: str) -> list[str]:
    return [
        GROUPAGE, "run", str(source), "-o", str(output), "--poll", f"{POLL_S:g}s", "--deadline", "2h", "--json", *options,
    ]  # fmt: skip


class Bench:
    """One emulator and one scratch directory for all runs of one size."""

    def __init__(self, folder: Path, emulator: EmulatorProcess, requests: int, workers: int) -> None:
        self.folder = folder
        self.workers = workers
        self.emulator = emulator
        self.source = folder / "in.jsonl"
        self.input_bytes = write_requests(self.source, requests)
        self._runs = 0

    def bare_loop(self) -> tuple[Figures, Path]:
        output = self._fresh("bare") / "out.jsonl"
        command = [sys.executable, "-m", "bench.bare_loop", str(self.source), str(output)]
        command += ["--base-url", self.emulator.base_url, "--poll", f"{POLL_S:g}"]
        with Watch(self.emulator.pid) as provider:
            run = run_watched(command, dict(os.environ), self.folder / "bare.log")
        return Figures("bare loop", run.wall_s, [_named(run, "script")], provider.cpu_s()), output

    def one_command(self) -> tuple[Figures, Path]:
        """`groupage run` alone: it starts Temporal and a worker for itself."""
        folder = self._fresh("alone")
        output = folder / "out.jsonl"
        env = clean_environment(folder / "state", self.emulator.base_url)
        with Watch(self.emulator.pid) as provider:
            run = run_watched(run_command(self.source, output), env, self.folder / "alone.log")
        subprocess.run([GROUPAGE, "dev", "--stop"], env=env, check=True, capture_output=True)
        processes = [_named(run, "run+worker"), _intake(run.watch), *_servers(run.watch)]
        return Figures("groupage run", run.wall_s, processes, provider.cpu_s()), output

    def deployed(self) -> tuple[Figures, Path]:
        """Temporal and its workers run already; `groupage run` is the client."""
        folder = self._fresh("deployed")
        output = folder / "out.jsonl"
        env = clean_environment(folder / "state", self.emulator.base_url)
        with contextlib.ExitStack() as stack:
            services = [stack.enter_context(_service("dev", env, self.folder / "dev.log"))]
            services += [
                stack.enter_context(_service("worker", env, self.folder / f"worker-{n}.log"))
                for n in range(1, self.workers)
            ]
            provider = stack.enter_context(Watch(self.emulator.pid))
            serving = [stack.enter_context(Watch(pid)) for pid in services]
            run = run_watched(run_command(self.source, output, "--no-worker"), env, self.folder / "client.log")
            steps = asyncio.run(_steps(folder / "state"))
        used = [watch.main() for watch in serving]
        workers = [Usage("worker", one.cpu_s, one.peak_mib) for one in used]
        processes = [_named(run, "client"), _intake(run.watch), *workers, *_servers(serving[0])]
        return Figures("groupage deployed", run.wall_s, processes, provider.cpu_s(), steps), output

    def _fresh(self, name: str) -> Path:
        self._runs += 1
        self.emulator.reset()
        # What the run before has written must not be on its way to the disk during this one.
        os.sync()
        folder = self.folder / f"{name}-{self._runs}"
        folder.mkdir()
        return folder


def _named(run: Run, name: str) -> Usage:
    used = run.watch.main()
    return Usage(name, used.cpu_s, used.peak_mib)


def _intake(watch: Watch) -> Usage:
    """The processes that a client starts to read a large input: their CPU in all, the largest one's memory."""
    children = [one for one in watch.children() if "temporal" not in one.name]
    return Usage("intake", sum(one.cpu_s for one in children), max((one.peak_mib for one in children), default=0.0))


def _servers(watch: Watch) -> list[Usage]:
    return [Usage("temporal server", one.cpu_s, one.peak_mib) for one in watch.children() if "temporal" in one.name]


@contextlib.contextmanager
def _service(command: str, env: dict[str, str], log: Path) -> Iterator[int]:
    """`groupage dev` or `groupage worker`: yields its process id once it polls."""
    with log.open("ab") as out:
        begun = log.stat().st_size
        process = subprocess.Popen([GROUPAGE, command], env=env, stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + 60
            while b"task queues" not in log.read_bytes()[begun:]:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"groupage {command} did not start: {log.read_text()[-2000:]}")
                time.sleep(0.1)
            time.sleep(2.0)
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


async def _steps(state: Path) -> list[Step]:
    from groupage.client.local_server import find_local_server
    from temporalio.client import Client

    server = find_local_server(state)
    assert server is not None
    client = await Client.connect(server.address)
    jobs = [job.id async for job in client.list_workflows("WorkflowType='BatchJob'")]
    return await steps_of(client, jobs[0])


def show(figures: list[Figures], requests: int, input_bytes: int) -> None:
    print(
        f"\n{requests:,} requests, {input_bytes / requests:.0f} bytes a line, turnaround {TURNAROUND}, poll {POLL_S:g} s"
    )
    bare = statistics.median([one.wall_s for one in figures if one.side == "bare loop"] or [math.nan])
    for side in dict.fromkeys(one.side for one in figures):
        runs = [one for one in figures if one.side == side]
        wall = statistics.median(one.wall_s for one in runs)
        spread = "" if len(runs) == 1 else f" ({min(o.wall_s for o in runs):.1f} to {max(o.wall_s for o in runs):.1f})"
        cpu = statistics.median(one.cpu_s for one in runs)
        provider = statistics.median(one.emulator_cpu_s for one in runs)
        print(
            f"  {side:18} {wall:7.1f} s{spread}  {requests / wall:8,.0f} requests/s  {wall / bare:5.2f} x bare loop  "
            f"CPU {cpu:6.1f} s  emulator's CPU {provider:5.1f} s"
        )
        for number, process in enumerate(runs[0].processes):
            peak = max(one.processes[number].peak_mib for one in runs if len(one.processes) > number)
            cpus = statistics.median(one.processes[number].cpu_s for one in runs if len(one.processes) > number)
            print(f"      {process.name:18} CPU {cpus:6.1f} s   peak memory {peak:6.0f} MiB")
        for step in runs[-1].steps:
            print(
                f"      {step.name:18} x{step.count:<3} from {step.first_s:6.1f} s to {step.last_s:6.1f} s, "
                f"{step.busy_s:6.1f} s in all"
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sizes", nargs="*", type=int, default=[100_000])
    options.add_argument("--runs", type=int, default=1, help="of each side, in turn")
    options.add_argument("--workers", type=int, default=WORKERS, help="worker processes of the deployed side")
    options.add_argument("--sides", default="bare,alone,deployed", help="which to run")
    options.add_argument("--directory", type=Path, help="scratch space: some 8 kB a request")
    options.add_argument("--json", type=Path, help="write the figures there, too")
    options.add_argument("--keep", action="store_true", help="leave the scratch directory")
    given = options.parse_args()
    # So that what was started is ended as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    told = []
    print("the emulator alone:", json.dumps(asdict(measure(50_000, given.directory))))
    for requests in given.sizes:
        folder = Path(tempfile.mkdtemp(prefix="groupage-bench-", dir=given.directory))
        try:
            with EmulatorProcess(folder / "emulator", turnaround=TURNAROUND) as emulator:
                bench = Bench(folder, emulator, requests, given.workers)
                figures = _run_all(bench, given.runs, given.sides.split(","))
            show(figures, requests, bench.input_bytes)
            told.append({"requests": requests, "figures": [asdict(one) for one in figures]})
        finally:
            if given.keep:
                print("kept:", folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        given.json.write_text(json.dumps(told, indent=1))


def _run_all(bench: Bench, runs: int, sides: list[str]) -> list[Figures]:
    """All sides in turn, so that a machine whose speed drifts is fair to each. Outputs are compared."""
    ways = {"bare": bench.bare_loop, "alone": bench.one_command, "deployed": bench.deployed}
    figures: list[Figures] = []
    for _ in range(runs):
        outputs: list[Path] = []
        for side in sides:
            one, output = ways[side]()
            figures.append(one)
            outputs.append(output)
            print(f"  {one.side}: {one.wall_s:.1f} s, CPU {one.cpu_s:.1f} s", flush=True)
        for other in outputs[1:]:
            check_same(outputs[0], other)
        for output in outputs:
            shutil.rmtree(output.parent)
    return figures


if __name__ == "__main__":
    main()
