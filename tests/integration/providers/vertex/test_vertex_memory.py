"""Flat memory: neither an input nor an output is ever held whole."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
from gcs_server import running_gcs
from vertex_world import variables_of


def test_MS_02_an_object_of_100_mb_goes_up_and_comes_down_in_flat_memory(tmp_path: Path) -> None:
    with running_gcs(tmp_path, in_memory=False) as gcs:
        run = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("vertex_memory.py")), str(tmp_path), "100"],
            env=os.environ | gcs.variables() | variables_of("http://127.0.0.1:9/v1"),
            capture_output=True,
            check=False,
            timeout=280,
        )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    told = orjson.loads(run.stdout)
    assert told["after_mb"] - told["before_mb"] < 40, told
