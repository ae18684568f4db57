"""Running one command and watching it and its children: wall time, CPU seconds and peak memory of each."""

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

SAMPLE_EVERY_S = 0.1


@dataclass(slots=True)
class Usage:
    """What one process has used: CPU seconds without its children's, and the most memory that was resident."""

    name: str
    cpu_s: float = 0.0
    peak_mib: float = 0.0


@dataclass(slots=True)
class Watch:
    """Samples a process and its children until it is left. `begin_s` is each one's CPU when watching began."""

    pid: int
    used: dict[int, Usage] = field(default_factory=dict)
    begin_s: dict[int, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.sample()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        self.sample()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_EVERY_S):
            self.sample()

    def sample(self) -> None:
        try:
            top = psutil.Process(self.pid)
            processes = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                with process.oneshot():
                    times, resident, name = process.cpu_times(), process.memory_info().rss, process.name()
            except psutil.NoSuchProcess:
                continue
            cpu_s = times.user + times.system
            self.begin_s.setdefault(process.pid, cpu_s if process.pid == self.pid or not self._thread else 0.0)
            one = self.used.setdefault(process.pid, Usage(name))
            one.cpu_s = cpu_s - self.begin_s[process.pid]
            one.peak_mib = max(one.peak_mib, peak_mib(process.pid) or resident / 2**20)

    def main(self) -> Usage:
        return self.used.get(self.pid, Usage("?"))

    def children(self) -> list[Usage]:
        return [one for pid, one in self.used.items() if pid != self.pid]

    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.used.values())


def peak_mib(pid: int) -> float:
    """The kernel's own high-water mark of resident memory; 0 where it keeps none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peaks = [line.split()[1] for line in status.split("\n") if line.startswith("VmHWM")]
    return int(peaks[0]) / 1024 if peaks else 0.0


def reset_peak(pid: int) -> None:
    """Begin the high-water mark anew, where the system can do that."""
    mark = Path(f"/proc/{pid}/clear_refs")
    if mark.exists():
        mark.write_text("5")


@dataclass(frozen=True, slots=True)
class Run:
    """One finished command."""

    wall_s: float
    watch: Watch


def run_watched(command: Sequence[str], env: Mapping[str, str], log: Path) -> Run:
    """Run to the end. Raises RuntimeError with the end of its output if it failed."""
    with log.open("ab") as out:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
        with Watch(process.pid) as watch:
            code = process.wait()
            wall_s = time.perf_counter() - began
    if code != 0:
        told = log.read_text(errors="replace")[-3000:]
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{told}")
    return Run(wall_s, watch)
