"""`groupage demo`: everything on this machine, with faults that really happen injected on purpose."""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from groupage.activities.settings import ProviderSettings
from groupage.cli.console import Console, money
from groupage.cli.files import write_whole
from groupage.cli.process import run_until_signal
from groupage.cli.progress import follow
from groupage.client import Job
from groupage.client.config import load_settings
from groupage.client.submission import accept, spooled_input, start_job
from groupage.emulator.installed import missing_package
from groupage.emulator.process import EmulatorProcess
from groupage.emulator.settings import parse_turnaround
from groupage.schemas import JobPolicy, Route, Summary, parse_duration
from groupage.schemas.errors import UsageError
from groupage.schemas.ids import decode_tag
from groupage.schemas.signals import TASK_QUEUE
from groupage.store.reader import JobResults
from groupage.workers.settings import Settings
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack
from groupage.workers.telemetry import configure_logging

MODEL = "gpt-4o-mini"
SHARDS = 8
DEADLINE = timedelta(seconds=100)
"""Near enough that a batch which stands still has to be given up within a minute or so."""

FAULTS: dict[str, Any] = {
    "requests": [
        {"kind": "http", "status": 500, "share": 0.02, "times": 1},
        {"kind": "http", "status": 429, "share": 0.01, "times": 1},
        {"kind": "missing", "share": 0.005, "times": 1},
        {"kind": "malformed", "share": 0.003, "times": 1},
        {"kind": "unknown_id", "share": 0.002, "times": 1},
        {"kind": "http", "status": 400, "share": 0.003},
        {"kind": "truncated", "share": 0.005},
        {"kind": "refused", "share": 0.003},
    ],
    "calls": [
        {"call": "batches.create", "action": "drop_after", "nth": [3]},
        {"call": "batches.retrieve", "action": "error", "status": 502, "every": 11},
        {"call": "batches.retrieve", "action": "html", "every": 17},
        {"call": "files.content", "action": "cut", "nth": [2]},
        {"call": "files.create", "action": "error", "status": 503, "nth": [5]},
    ],
    "batches": [
        {"effect": "expire", "nth": [2], "at": 0.7},
        {"effect": "token_limit", "nth": [6]},
        {"effect": "stall", "nth": [7], "at": 0.4},
        {"effect": "late_output", "nth": [4], "seconds": "2s"},
        {"effect": "counts", "counts": "zero", "nth": [5]},
    ],
}
FAULTS_IN_WORDS = (
    "3 % of the lines fail with 500 or 429, some with 400, some are truncated, missing, malformed or carry an unknown "
    "id; one create call is accepted and its reply lost; one batch expires at 70 %, one is refused for its tokens, "
    "one stands still at 40 % until the job escalates to sync; one result file is cut in the middle, one comes late; "
    "polls fail with 502 and HTML"
)


def run_demo(*, requests: int, turnaround: str, state: Path | None, keep: bool, as_json: bool) -> int:
    """0 if every request has exactly one outcome and no answer was paid for twice, else 1."""
    console = Console(as_json=as_json)
    configure_logging("error", "console", tracebacks=False)
    try:
        parse_turnaround(turnaround)
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    missing = missing_package("openai")
    if missing is not None:
        raise UsageError(
            f"the demo cannot run here: {missing} is not installed",
            hint="pip install 'groupage[openai,emulator,embedded]'",
        )
    with _state_directory(state) as directory:
        console.say(f"emulated provider on this machine, on purpose unreliable: {FAULTS_IN_WORDS}")
        emulator = EmulatorProcess(directory / "emulator", turnaround=turnaround, faults=FAULTS)
        with emulator:
            demo = _Demo(console, directory, emulator, requests, turnaround, keep=keep)
            return run_until_signal(demo.run, say=console.say, on_stop=lambda: "stopped; everything was cleaned up")


@contextmanager
def _state_directory(given: Path | None) -> Generator[Path, None, None]:
    """The given one is kept, a temporary one is removed."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    made = Path(tempfile.mkdtemp(prefix="groupage-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class _Demo:
    def __init__(
        self,
        console: Console,
        directory: Path,
        emulator: EmulatorProcess,
        requests: int,
        turnaround: str,
        *,
        keep: bool,
    ) -> None:
        self.console = console
        self.directory = directory
        self.emulator = emulator
        self.requests = requests
        self.turnaround = _typical(turnaround)
        self.keep = keep
        # Nothing of the user's own settings: no real provider, no real server.
        self.settings = load_settings(
            Settings,
            state_dir=directory,
            store=(directory / "store").as_uri(),
            task_queue=TASK_QUEUE,
            providers={"openai": ProviderSettings(base_url=emulator.base_url, api_key="demo")},
            activities={"create_visibility_s": 4.0, "files_late_s": 30.0},
        )

    async def run(self) -> int:
        return await run_with_stack(self.settings, self._work, workers=WorkerPlan(), embedded=True)

    async def _work(self, stack: Stack) -> int:
        began = time.monotonic()
        source = self.directory / "in.jsonl"
        await asyncio.to_thread(write_questions, source, self.requests)
        async with spooled_input(source, provider="openai", directory=self.directory) as spooled:
            manifest = await accept(stack.store, spooled, tenant="demo", key=None)
        policy = JobPolicy(
            poll=timedelta(seconds=1),
            turnaround=self.turnaround,
            max_shard_requests=-(-self.requests // SHARDS),
            sync_rpm=6000,
            max_rounds=3,
        )
        await start_job(stack.connection, stack.store, manifest, deadline=DEADLINE, model=MODEL, policy=policy)
        job = Job(stack.connection, stack.store, manifest.tenant, manifest.key)
        until = "Ctrl-C" if self.keep else "this ends; --keep leaves it up"
        self.console.say(
            f"job {job.tenant}/{job.key}: {manifest.requests:,} requests; Web UI (until {until}): {job.url}"
        )
        summary = await follow(job, self.console)
        seconds = time.monotonic() - began
        output = self.directory / "out.jsonl"
        await asyncio.to_thread(_write, stack, summary, output)
        await job.wait_for_clean_up(timedelta(seconds=30))
        seen = await asyncio.to_thread(self.emulator.status)
        code = self._show(summary, await asyncio.to_thread(self.emulator.ledger), seen, seconds, job.url)
        if self.keep:
            self.console.say(
                f"still up: Web UI {job.url}, provider {self.emulator.base_url}, files {self.directory}; stop with Ctrl-C"
            )
            await asyncio.Event().wait()
        return code

    def _show(
        self, summary: Summary, ledger: dict[str, Any], seen: dict[str, Any], seconds: float, url: str | None
    ) -> int:
        checks = verdicts(summary, ledger, seen, self.requests)
        paid = ledger["batch"]["cost_usd"] + ledger["sync"]["cost_usd"]
        if self.console.as_json:
            told = {"summary": summary, "ledger": ledger, "checks": checks, "seconds": round(seconds, 2), "url": url}
            self.console.data(told)
        else:
            rows = [(str(outcome), f"{n:,}") for outcome, n in summary.outcomes.items() if n]
            rows += [
                ("rounds", str(summary.rounds)),
                ("sent by", ", ".join(f"{n:,} {route}" for route, n in summary.routes.items() if n)),
                ("cost", f"{money(summary.cost_usd)} (by sync {money(summary.sync_cost_usd)})"),
                ("paid without an answer", money(summary.waste_usd)),
                (
                    "provider's own bill",
                    f"{money(paid)}, {ledger['batch']['batches']} batches, {ledger['sync']['calls']:,} sync calls",
                ),
                ("time", f"{seconds:.1f} s"),
            ]
            self.console.table(f"{summary.state}: {summary.requests:,} requests", ("", ""), rows)
            for promise, kept in checks.items():
                self.console.say(f"{'✓' if kept else '✗'} {promise}")
        return 0 if all(checks.values()) else 1


def verdicts(summary: Summary, ledger: dict[str, Any], seen: dict[str, Any], requests: int) -> dict[str, bool]:
    """The promises that the provider's own books can confirm."""
    # A batch that failed as a whole was never run: its shard goes again under the same tag.
    shards = Counter(
        value
        for batch in seen["batches"]
        if batch["status"] != "failed"
        for value in (batch["metadata"] or {}).values()
        if decode_tag(value)
    )
    return {
        "every request has exactly one outcome": sum(summary.outcomes.values()) == summary.requests == requests,
        "no answer was paid for twice": ledger["questions_answered_more_than_once"] == 0,
        "every shard became one batch, also where the reply was lost": set(shards.values()) == {1},
        "no sync call may have been billed twice": summary.maybe_paid_twice == 0,
        "the batch that stood still was escalated: its rest went by sync": summary.routes.get(Route.sync, 0) > 0,
        "the job ended by its deadline": _in_time(summary),
        "nothing is left at the provider": not seen["files"] and not seen["batches_live"],
    }


def _typical(turnaround: str) -> timedelta | None:
    """The policy's first guess; None where the emulator draws turnarounds from a distribution."""
    return None if ":" in turnaround else parse_duration(turnaround)


def _in_time(summary: Summary) -> bool:
    return bool(summary.finished_at and summary.deadline_at and summary.finished_at <= summary.deadline_at)


def write_questions(path: Path, requests: int) -> None:
    """`requests` different questions in OpenAI's batch format."""
    with path.open("wb") as file:
        for number in range(1, requests + 1):
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": f"Describe consignment {number} in one sentence."}],
                "max_tokens": 200,
            }
            line = {"custom_id": f"consignment-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(orjson.dumps(line) + b"\n")


def _write(stack: Stack, summary: Summary, output: Path) -> None:
    write_whole(str(output), JobResults(stack.store, summary.tenant, summary.key).copy_to)
