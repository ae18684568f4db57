"""The command as its users run it: a process, an emulated provider, a state directory of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.emulator.answers import expected_text
from groupage.emulator.process import EmulatorProcess
from groupage.schemas.ids import decode_tag

ENDPOINT = "/v1/chat/completions"
MODEL = "gpt-4o-mini"
TIMEOUT_S = 200.0


def body_of(number: int) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": f"Say {number} in words."}], "max_tokens": 50}


def line_of(number: int) -> bytes:
    return orjson.dumps({"custom_id": f"r{number}", "method": "POST", "url": ENDPOINT, "body": body_of(number)}) + b"\n"


class Commands:
    """Runs `groupage` against one state directory and one emulator."""

    def __init__(self, directory: Path, emulator: EmulatorProcess) -> None:
        self.directory = directory
        self.emulator = emulator
        self.state_dir = directory / "state"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "GROUPAGE_", "OPENAI_"))}
        self.environment = clean | {
            "GROUPAGE_STATE_DIR": str(self.state_dir),
            "OPENAI_BASE_URL": emulator.base_url,
            "OPENAI_API_KEY": "test",
            "GROUPAGE_ACTIVITIES__CREATE_VISIBILITY_S": "2",
            # No configuration of this machine's user.
            "XDG_CONFIG_HOME": str(directory / "config"),
            "TEMPORAL_CONFIG_FILE": str(directory / "none.toml"),
        }
        self._running: list[subprocess.Popen[str]] = []

    def write_input(self, numbers: range | list[int], name: str = "in.jsonl") -> Path:
        path = self.directory / name
        path.write_bytes(b"".join(line_of(number) for number in numbers))
        return path

    def start(self, *arguments: object, module: Sequence[str] = ("-m", "groupage.cli")) -> "subprocess.Popen[str]":
        command = [sys.executable, *module, *map(str, arguments)]
        process = subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def finish(
        self, process: "subprocess.Popen[str]", timeout_s: float = TIMEOUT_S
    ) -> "subprocess.CompletedProcess[str]":
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{process.args} did not end in {timeout_s:.0f} s\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(
        self, *arguments: object, timeout_s: float = TIMEOUT_S, module: Sequence[str] = ("-m", "groupage.cli")
    ) -> "subprocess.CompletedProcess[str]":
        return self.finish(self.start(*arguments, module=module), timeout_s)

    def run(self, source: Path, output: Path, *more: object) -> "subprocess.CompletedProcess[str]":
        return self.call("run", source, "-o", output, "--poll", "500ms", "--deadline", "10m", *more)

    def stop_all(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def batches_by_tag(self) -> Counter[str]:
        """How many provider batches each of our submissions became."""
        return Counter(
            value
            for batch in self.emulator.status()["batches"]
            for value in (batch["metadata"] or {}).values()
            if decode_tag(value)
        )

    def wait_until_submitted(self, batches: int = 1) -> None:
        give_up_at = time.monotonic() + 150
        while len(self.emulator.status()["batches"]) < batches:
            ended = next((each for each in self._running if each.returncode is None and each.poll()), None)
            if ended is not None:
                pytest.fail(f"it ended before it submitted anything: {self.finish(ended).stderr}")
            assert time.monotonic() < give_up_at, "nothing was submitted"
            time.sleep(0.05)


def read_results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def assert_answers(path: Path, numbers: range | list[int]) -> None:
    """One line per input line, in input order, each with its own question's answer."""
    results = read_results(path)
    assert [result["id"] for result in results] == [f"r{number}" for number in numbers]
    for number, result in zip(numbers, results, strict=True):
        assert result["outcome"] == "succeeded", result
        assert result["text"] == expected_text(ENDPOINT, body_of(number))
