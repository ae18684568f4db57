"""The worker process: heavy work beside the event loop, so that the server keeps answering.

One process, one job at a time, as JSON lines over its stdin and stdout. It changes nothing but files
that the server names; the server commits them. If it dies, the job is simply done again.
"""

import asyncio
import ctypes
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.faults import FaultPlan
from groupage.emulator.finish import FinishJob, finish
from groupage.emulator.work import CheckJob, check

ATTEMPTS = 3
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl


class WorkFailed(RuntimeError):
    """A job raised in the worker: the text is its traceback."""


def encode(job: CheckJob | FinishJob) -> bytes:
    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, FaultPlan):
            return value.model_dump(mode="json")
        raise TypeError(f"{type(value).__name__} does not travel to the worker")

    data = {name: getattr(job, name) for name in job.__dataclass_fields__}
    return orjson.dumps({"kind": type(job).__name__, "job": data}, default=plain, option=orjson.OPT_APPEND_NEWLINE)


def decode(line: bytes) -> CheckJob | FinishJob:
    message = orjson.loads(line)
    data = message["job"]
    paths = {"source", "lines", "rows", "ids", "database", "output", "errors", "page", "struck"}
    for name in paths & data.keys():
        data[name] = Path(data[name])
    if message["kind"] == "CheckJob":
        return CheckJob(**data)
    return FinishJob(**data | {"plan": FaultPlan.model_validate(data["plan"])})


def main() -> None:
    """Loop until stdin ends."""
    # Ctrl-C goes to the whole group; the server ends its worker by closing the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for line in sys.stdin.buffer:
        job = decode(line)
        try:
            answer: dict[str, Any] = {"ok": check(job) if isinstance(job, CheckJob) else finish(job)}
        except Exception:  # noqa: BLE001  # the traceback goes to the server, which decides
            answer = {"failed": traceback.format_exc()}
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        sys.stdout.buffer.flush()


class Worker:
    """The server's end. `run` does one job at a time and starts the process when it is needed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def run(self, job: CheckJob | FinishJob) -> dict[str, Any]:
        """The job's result. Raises WorkFailed."""
        async with self._turn:
            for _ in range(ATTEMPTS):
                answer = await self._try(encode(job))
                if answer is not None:
                    break
                await self._end()
            else:
                raise WorkFailed(f"the worker process died {ATTEMPTS} times over {asdict(job)}")
        if "failed" in answer:
            raise WorkFailed(str(answer["failed"]))
        return dict(answer["ok"])

    async def warm_up(self) -> None:
        """Start the process before there is work: importing takes a second."""
        async with self._turn:
            await self._running()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from groupage.emulator.worker import main; main()",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        return self._process

    async def _try(self, line: bytes) -> dict[str, Any] | None:
        """None if the process died."""
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            await process.stdin.drain()
            reply = await process.stdout.readline()
        except ConnectionError:
            return None
        return dict(orjson.loads(reply)) if reply.endswith(b"\n") else None

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def close(self) -> None:
        await self._end()
