"""Flat memory: neither the create call's body nor the results are ever held whole."""

import subprocess
import sys
from pathlib import Path

import orjson
from groupage.emulator.process import EmulatorProcess


def test_MS_02_a_batch_of_100_mb_goes_up_and_down_in_flat_memory(tmp_path):
    script = Path(__file__).with_name("anthropic_memory.py")
    # Answers of 100 kB each, so that what comes down is as large as what went up.
    with EmulatorProcess(tmp_path / "emulator", turnaround="1s", answer_bytes=100_000) as emulator:
        run = subprocess.run(
            [sys.executable, str(script), emulator.base_url, str(tmp_path)],
            capture_output=True,
            check=False,
            timeout=280,
        )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    grown = orjson.loads(run.stdout)
    assert grown["sent"] > 100_000_000
    assert grown["received"] > 90_000_000
    assert grown["create_mb"] < 40, grown
    assert grown["download_mb"] < 40, grown
