"""Kill anything at any moment, and count what was lost.

    python -m tests.chaos --runs 200 [--provider NAME] [--seed S] [--lanes K] [--keep-logs DIR] [--only N]

Each run is a job through a real client, worker, Temporal server and emulated provider, with faults at
the provider, in which one or several of the processes are killed (SIGKILL) and started again. The exit
code is 0 if every promise was kept in every run.
"""

import argparse
import asyncio
import contextlib
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from groupage.workers.embedded import find_binary

from tests.chaos.lane import Around, Lane, RunReport
from tests.chaos.report import failed, one_line, problems, table
from tests.chaos.scenario import make_scenario
from tests.side_by_side.providers import PROVIDERS
from tests.side_by_side.servers import running_stores

STOP_AFTER_FAILURES = 10


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--provider", choices=PROVIDERS, default="openai")
    options.add_argument("--seed", type=int, default=1, help="of the whole series")
    options.add_argument("--lanes", type=int, default=4, help="runs at a time; they mostly wait")
    options.add_argument("--only", type=int, metavar="N", help="only run N (from 1) of the series")
    options.add_argument("--repeat", type=int, default=1, help="play each scenario so often")
    options.add_argument("--keep-logs", type=Path, metavar="DIR", help="where the state of failed runs goes")
    return options


class Series:
    """The runs that are still to be played, and the reports of those that were."""

    def __init__(self, options: argparse.Namespace, folder: Path, around: Around) -> None:
        self.options = options
        self.folder = folder
        self.around = around
        self.reports: list[RunReport] = []
        numbers = range(options.runs) if options.only is None else [options.only - 1]
        self._todo = [number for number in numbers for _ in range(options.repeat)]
        self._lanes_made = 0
        self.kept: list[Path] = []

    async def lane(self) -> None:
        """One lane until nothing is left to do; a lane in which a run failed is replaced."""
        lane: Lane | None = None
        try:
            while self._todo and sum(map(failed, self.reports)) < STOP_AFTER_FAILURES:
                number = self._todo.pop(0)
                if lane is None:
                    self._lanes_made += 1
                    folder = self.folder / f"lane-{self._lanes_made}"
                    lane = Lane(self._lanes_made, folder, self.around, binary=find_binary())
                    await lane.start()
                scenario = make_scenario(self.options.seed, number, self.around.provider)
                report = await lane.run(scenario)
                self.reports.append(report)
                print(one_line(report, of=self.options.runs), flush=True)
                if failed(report):
                    await lane.stop()
                    self._keep(lane, report)
                    lane = None
                else:
                    lane.forget(scenario)
        finally:
            if lane is not None:
                await lane.stop()

    def _keep(self, lane: Lane, report: RunReport) -> None:
        number, seed = report.scenario.number + 1, self.options.seed
        where = (self.options.keep_logs or Path(tempfile.gettempdir()) / "groupage-chaos") / f"seed-{seed}-run-{number}"
        where = _unused(where)
        where.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(lane.directory, where, ignore_dangling_symlinks=True)
        said = [report.scenario.describe(), *problems(report, shown=200)]
        (where / "problems.txt").write_text("\n".join(said) + "\n")
        self.kept.append(where)
        print("  " + "\n  ".join([report.scenario.describe(), *problems(report)]))
        print(f"  state and logs: {where}")
        again = f"--provider {self.options.provider} --seed {seed} --runs {self.options.runs} --only {number}"
        print(f"  again: python -m tests.chaos {again}", flush=True)


def _unused(path: Path) -> Path:
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name.split('~')[0]}~{number}")
    return path


async def play(options: argparse.Namespace) -> int:
    began = time.monotonic()
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, main.cancel)
    provider, api_key = PROVIDERS[options.provider], f"sk-chaos-{secrets.token_hex(12)}"
    with (
        tempfile.TemporaryDirectory(prefix="groupage-chaos-", ignore_cleanup_errors=True) as folder,
        running_stores(provider.store, Path(folder) / "stores", api_key) as stores,
    ):
        series = Series(options, Path(folder), Around(provider, stores, api_key))
        lanes = [asyncio.create_task(series.lane()) for _ in range(min(options.lanes, options.runs))]
        interrupted = False
        try:
            await asyncio.gather(*lanes)
        except asyncio.CancelledError:
            interrupted = True
        finally:
            for lane in lanes:
                lane.cancel()
            # Ends every process before it returns.
            ended = await asyncio.gather(*lanes, return_exceptions=True)
        print(f"\nprovider: {provider.label}\n" + table(series.reports, time.monotonic() - began), flush=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        played = len(series.reports) == len(range(options.runs) if options.only is None else [0]) * options.repeat
        good = played and not interrupted and not any(map(failed, series.reports))
        print("every promise was kept" if good else "FAILED" if not interrupted else "interrupted")
        return 0 if good else 130 if interrupted else 1


def main() -> int:
    options = parser().parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(play(options))
    return 130


if __name__ == "__main__":
    sys.exit(main())
