"""How fast the emulator is by itself: `python -m groupage.emulator.measure --requests 50000`.

Benchmarks of the product subtract nothing; this says how much of their time could be the emulator's.
"""

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from groupage.emulator.faults import NO_FAULTS
from groupage.emulator.finish import FinishJob, finish
from groupage.emulator.process import EmulatorProcess
from groupage.emulator.state import State
from groupage.emulator.work import CheckJob, check

_CHUNK = 256 * 1024
_HEADERS = {"authorization": "Bearer measure"}


@dataclass(frozen=True, slots=True)
class Figures:
    """Lines and calls a second, MB (10^6 bytes) a second, MB of memory. `cpu`: of processor time, not of the clock."""

    requests: int
    input_mb: float
    output_mb: float
    check_lines_s: float
    check_lines_s_cpu: float
    finish_lines_s: float
    finish_lines_s_cpu: float
    both_lines_s_cpu: float
    upload_mb_s: float
    download_mb_s: float
    batch_s: float
    """From the create call to `completed`, with a turnaround of 0."""
    sync_calls_s: float
    """One connection, one call after the other."""
    worst_poll_ms: float
    """Slowest retrieve while a batch was worked on."""
    server_peak_mb: float


def measure(requests: int = 50_000, directory: Path | None = None) -> Figures:
    """Runs for some seconds; leaves nothing behind."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        source = Path(scratch) / "input.jsonl"
        write_input(source, requests)
        alone = _work_alone(source, Path(scratch) / "alone", requests)
        with EmulatorProcess(
            Path(scratch) / "state", turnaround="0s", max_requests=max(50_000, requests), max_batch_bytes=1 << 34,
            max_file_bytes=1 << 34,
        ) as emulator:  # fmt: skip
            served = _over_http(emulator, source)
    return Figures(
        requests=requests, input_mb=source_mb(alone), **{k: v for k, v in alone.items() if k != "size"}, **served
    )


def source_mb(alone: dict[str, Any]) -> float:
    return round(float(alone["size"]) / 1e6, 1)


def write_input(path: Path, requests: int) -> None:
    """A batch input file of distinct chat questions of about 350 bytes a line."""
    with path.open("wb", buffering=1 << 20) as file:
        for number in range(requests):
            question = f"Classify ticket {number}: parcel {number * 7} has not arrived, the customer asks for a refund."
            messages = [
                {"role": "system", "content": "You are a terse and careful assistant."},
                {"role": "user", "content": question},
            ]
            body = {"model": "gpt-4o-mini", "messages": messages, "max_tokens": 200}
            line = {"custom_id": f"r0-s0-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _work_alone(source: Path, directory: Path, requests: int) -> dict[str, Any]:
    state = State(directory)
    work = state.work_path
    checking = CheckJob(
        code="00" * 12,
        endpoint="/v1/chat/completions",
        source=source,
        lines=work("lines"),
        rows=work("rows"),
        ids=work("ids"),
        created=0,
        answer_bytes=320,
        max_requests=requests,
        max_batch_bytes=1 << 34,
        max_embedding_inputs=50_000,
    )
    finishing = FinishJob(
        number=1,
        seed=1,
        order="shuffled",
        ending="completed",
        finished=requests,
        only_errors=None,
        lost=0,
        source=source,
        lines=work("lines"),
        rows=work("rows"),
        database=state.path.absolute(),
        plan=NO_FAULTS,
        output=work("output"),
        errors=work("errors"),
        page=work("page"),
        struck=work("struck"),
    )
    times: list[tuple[float, float]] = []
    for job in (checking, finishing):
        wall, cpu = time.perf_counter(), time.process_time()
        if isinstance(job, CheckJob):
            check(job)
        else:
            finish(job)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    output_mb = round(work("output").stat().st_size / 1e6, 1)
    state.close()
    (check_s, check_cpu), (finish_s, finish_cpu) = times
    return {
        "size": source.stat().st_size,
        "output_mb": output_mb,
        "check_lines_s": round(requests / check_s),
        "check_lines_s_cpu": round(requests / check_cpu),
        "finish_lines_s": round(requests / finish_s),
        "finish_lines_s_cpu": round(requests / finish_cpu),
        "both_lines_s_cpu": round(requests / (check_cpu + finish_cpu)),
    }


def _over_http(emulator: EmulatorProcess, source: Path) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=600)
    size = source.stat().st_size
    began = time.perf_counter()
    file_id = _upload(connection, source)
    upload_s = time.perf_counter() - began
    began = time.perf_counter()
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = _ask(connection, "POST", "/v1/batches", body)
    worst = 0.0
    while batch["status"] not in ("completed", "failed"):
        time.sleep(0.02)
        poll = time.perf_counter()
        batch = _ask(connection, "GET", f"/v1/batches/{batch['id']}")
        worst = max(worst, time.perf_counter() - poll)
    if batch["status"] == "failed":
        raise RuntimeError(f"the batch failed: {batch['errors']}")
    batch_s = time.perf_counter() - began
    began = time.perf_counter()
    got = _download(connection, batch["output_file_id"])
    download_s = time.perf_counter() - began
    calls = 500
    began = time.perf_counter()
    for number in range(calls):
        messages = [{"role": "user", "content": f"sync {number}"}]
        _ask(connection, "POST", "/v1/chat/completions", {"model": "gpt-4o-mini", "messages": messages})
    sync_s = time.perf_counter() - began
    connection.close()
    return {
        "upload_mb_s": round(size / 1e6 / upload_s),
        "download_mb_s": round(got / 1e6 / download_s),
        "batch_s": round(batch_s, 2),
        "sync_calls_s": round(calls / sync_s),
        "worst_poll_ms": round(worst * 1000, 1),
        "server_peak_mb": _peak_mb(emulator.pid),
    }


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else orjson.dumps(body)
    connection.request(method, path, data, _HEADERS | ({"content-type": "application/json"} if data else {}))
    reply = connection.getresponse()
    answer = orjson.loads(reply.read())
    if reply.status != 200:
        raise RuntimeError(f"{method} {path}: {reply.status} {answer}")
    return answer


def _upload(connection: http.client.HTTPConnection, source: Path) -> str:
    head = (
        b'--edge\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--edge\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
    )
    tail = b"\r\n--edge--\r\n"

    def parts() -> Iterator[bytes]:
        yield head
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk
        yield tail

    length = len(head) + source.stat().st_size + len(tail)
    headers = {"content-type": "multipart/form-data; boundary=edge", "content-length": str(length)}
    connection.request("POST", "/v1/files", parts(), _HEADERS | headers)
    return str(orjson.loads(connection.getresponse().read())["id"])


def _download(connection: http.client.HTTPConnection, file_id: str) -> int:
    connection.request("GET", f"/v1/files/{file_id}/content", headers=_HEADERS)
    reply = connection.getresponse()
    total = 0
    while chunk := reply.read(_CHUNK):
        total += len(chunk)
    return total


def _peak_mb(pid: int) -> float:
    """Highest resident size of the server process so far; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    peak = next(line for line in status.read_text().split("\n") if line.startswith("VmHWM"))
    return round(int(peak.split()[1]) / 1024, 1)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m groupage.emulator.measure", description=__doc__)
    options.add_argument("--requests", type=int, default=50_000)
    sys.stdout.write(json.dumps(asdict(measure(options.parse_args().requests)), indent=2) + "\n")


if __name__ == "__main__":
    main()
