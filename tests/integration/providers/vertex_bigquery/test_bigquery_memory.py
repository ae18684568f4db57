"""Flat memory: neither an input nor an output is ever held whole, here or in the emulator."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
from groupage.emulator.process import EmulatorProcess


def test_MS_02_a_table_of_120_mb_goes_up_and_down_in_flat_memory(tmp_path: Path) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join(map(str, (here, here.parents[1] / "activities")))
    with EmulatorProcess(tmp_path / "emulator") as emulator:
        status = Path(f"/proc/{emulator.pid}/status")
        before = _peak_mb(status)
        run = subprocess.run(
            [sys.executable, str(here / "bigquery_memory.py"), emulator.base_url, str(tmp_path), "100"],
            env=dict(os.environ, PYTHONPATH=paths),
            capture_output=True,
            check=False,
            timeout=280,
        )
        emulated = _peak_mb(status) - before
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    told = orjson.loads(run.stdout)
    assert told["sent"] > 120_000_000
    assert told["received"] > 100_000_000
    assert told["after_upload_mb"] - told["before_mb"] < 40, told
    assert told["after_download_mb"] - told["before_mb"] < 80, told
    assert emulated < 80


def _peak_mb(status: Path) -> float:
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6
