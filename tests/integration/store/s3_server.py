"""SeaweedFS as a real S3 server for tests: signatures, checksums, conditional writes, multipart."""

import json
import os
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from groupage.schemas.errors import StoreError
from groupage.store.objects import Store, open_store

ACCESS_KEY, SECRET_KEY = "test-access", "test-secret"
PORT_TRIALS = 4
"""A port that was free when it was chosen may be another process's by the time that the server gets to it."""


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": "us-east-1",
        }

    def variables(self) -> dict[str, str]:
        """For boto3 and its kin."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def open(self, url: str = "s3://groupage/a/prefix") -> Store:
        return open_store(url, **self.options())


def _free_ports(count: int) -> list[int]:
    """Ports whose neighbour 10,000 above is free too: the server opens that one as well."""
    found: list[int] = []
    held = []
    while len(found) < count:
        first = socket.create_server(("127.0.0.1", 0))
        held.append(first)
        port = first.getsockname()[1]
        if port + 10_000 > 65_535:
            continue
        try:
            held.append(socket.create_server(("127.0.0.1", port + 10_000)))
        except OSError:
            continue
        found.append(port)
    for one in held:
        one.close()
    return found


def _answers(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until a bucket takes an object: the parts start one after another. False: a port was taken meanwhile."""
    store = open_store("s3://groupage", **server.options(), retry_config={"max_retries": 0})
    until = time.monotonic() + 150
    while True:
        if process.poll() is not None and b"address already in use" in log.read_bytes():
            return False
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"SeaweedFS does not answer:\n{log.read_text()[-2000:]}")
        try:
            store.put("ready", b"")
        except StoreError:
            time.sleep(0.2)
        else:
            return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Its data is thrown away: a kill, not the ten seconds of an orderly end."""
    if process.poll() is None:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        for one in family:
            one.kill()
        process.wait(60)
        psutil.wait_procs(family, timeout=60)


@contextmanager
def running_s3(
    folder: Path, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY, volumes: int = 20
) -> Iterator[S3Server]:
    """A server whose data lies in the folder (64 MB a volume); it is killed at the end of the block."""
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = [{"accessKey": access_key, "secretKey": secret_key}]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "test", "credentials": keys, "actions": actions}]}))
    for trial in range(PORT_TRIALS):
        data, log = folder / f"data-{trial}", folder / f"log-{trial}"
        (data / "buckets").mkdir(parents=True)
        master, volume, filer, port = _free_ports(4)
        command = [
            str(Path(sysconfig.get_path("scripts")) / "weed"), "server", f"-dir={data}",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}", "-filer",
            f"-filer.port={filer}", "-s3", f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.config={config}", f"-volume.max={volumes}", "-master.volumeSizeLimitMB=64",
        ]  # fmt: skip
        server = S3Server(f"http://127.0.0.1:{port}", access_key, secret_key)
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
        try:
            if _answers(server, process, log):
                yield server
                return
        finally:
            _stop(process)
    pytest.fail(f"SeaweedFS found a port taken {PORT_TRIALS} times")
