"""The emulator as a process of its own, for tests, demo and benchmarks."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

STOP_TIMEOUT_S = 30.0


class EmulatorFailed(RuntimeError):
    """The process did not start, or the admin API said no; the text has the reason."""


class EmulatorProcess:
    """A context manager around `python -m groupage.emulator`.

    ::

        with EmulatorProcess(state, turnaround="2s", faults={"requests": [...]}) as emulator:
            client = AsyncOpenAI(base_url=emulator.base_url, api_key="test")
            ...
            assert emulator.ledger()["questions_answered_more_than_once"] == 0

    `kill()` is SIGKILL; `start()` again goes on at the same port and state. Options are the command's,
    with underscores: `max_files=5` is `--max-files 5`.
    """

    def __init__(
        self,
        state: Path | str,
        *,
        faults: Mapping[str, Any] | Path | str | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        """`environment` is added to the caller's own."""
        self.state = Path(state)
        self.port = port
        self.base_url = ""
        self._faults = faults
        self._options = options
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmulatorFailed("the emulator is not running")
        return self._process.pid

    @property
    def admin_url(self) -> str:
        return self.base_url.removesuffix("/v1") + "/_emulator"

    def flavour_url(self, name: str) -> str:
        """The base URL under which the emulator is a server with that flavour's differences."""
        return f"{self.base_url.removesuffix('/v1')}/flavours/{name}/v1"

    def _command(self) -> list[str]:
        self.state.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "groupage.emulator", "--state", str(self.state), "--port", str(self.port)]
        for name, value in self._options.items():
            if value is not None:
                command += ["--" + name.replace("_", "-"), str(value)]
        faults = self._faults
        if isinstance(faults, Mapping):
            path = self.state / "faults.json"
            path.write_bytes(orjson.dumps(faults))
            faults = path
        return command if faults is None else [*command, "--faults", str(faults)]

    def start(self) -> Self:
        """Returns when it listens. Raises EmulatorFailed with what it wrote to `stderr.log` in the state directory."""
        command = self._command()
        # A file, not a pipe: nobody reads while it runs, and a full pipe would stop the server.
        log = self.state / "stderr.log"
        with log.open("wb") as errors:
            environment = {**os.environ, **self._environment}
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)  # noqa: S603
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            process.stdout.close()
            process.wait(STOP_TIMEOUT_S)
            raise EmulatorFailed(log.read_text("utf-8", "replace").strip() or f"exit code {process.returncode}")
        self._process = process
        self.base_url = str(orjson.loads(line)["base_url"])
        # The same port after a restart, so that clients need not be told.
        self.port = int(self.base_url.rsplit(":", 1)[1].split("/")[0])
        return self

    def stop(self) -> int:
        """SIGTERM; returns the exit code, 0 where it ended cleanly."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.returncode

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- admin ---------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else orjson.dumps(body)
        request = urllib.request.Request(self.admin_url + path, data=data, method=method)  # noqa: S310  # loopback
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
                return orjson.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                raise EmulatorFailed(str(orjson.loads(error.read()).get("error"))) from error

    def status(self) -> dict[str, Any]:
        """Files left, batches and their states, HTTP calls by name: GET /_emulator/state."""
        return dict(self._ask("GET", "/state"))

    def ledger(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/ledger"))

    def questions(self, *, min_paid: int = 0, question: str | None = None) -> Iterator[dict[str, Any]]:
        """Rows of the ledger, streamed."""
        query = {"min_paid": str(min_paid)} | ({"question": question} if question else {})
        url = f"{self.admin_url}/ledger/questions?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as reply:  # noqa: S310
            for line in reply:
                yield orjson.loads(line)

    def advance(self, by: str | float) -> float:
        """Move the clock by "2h" or by seconds; returns the new time."""
        return float(self._ask("POST", "/clock/advance", {"by": by})["now"])

    def set_speed(self, speed: float) -> None:
        self._ask("POST", "/clock/advance", {"speed": speed})

    def set_faults(self, plan: Mapping[str, Any]) -> None:
        """Replace the fault plan; its counters start again. Raises EmulatorFailed for a bad plan."""
        self._ask("PUT", "/faults", plan)

    def faults(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/faults"))

    def reset(self) -> None:
        """Forget files, batches, ledger and counters; keep clock and plan."""
        self._ask("POST", "/reset")
