"""Memory does not grow with the job: the same steps at two sizes, in processes of their own (MS-02)."""

import subprocess
import sys
from pathlib import Path

import pytest

STEPS = """
import re, sys
from datetime import datetime, UTC
from pathlib import Path
from groupage.schemas import ErrorClass, Outcome, Route, Usage
from groupage.store.intake import accept_job, spool_requests
from groupage.store.merge import NoResult, merge_job
from groupage.store.objects import open_store
from groupage.store.results import ResultLine
from groupage.store.shard_results import ShardResultWriter

count, answer_bytes, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
now = datetime(2026, 11, 29, tzinfo=UTC)
store = open_store((folder / "store").as_uri())

def lines():
    for n in range(count):
        yield b'{"id":"row-%d","prompt":"%b"}\\n' % (n, b"%d " % n * 40)

spooled = spool_requests(lines(), folder / "spool", provider="openai", model="m")
assert (spooled.requests, spooled.rejected) == (count, 0)
manifest = accept_job(store, spooled, tenant="t", key="k", owner="abcdef")
shards = []
for start in range(0, count, 2000):
    with ShardResultWriter(store, "t", "k", 0, len(shards), directory=folder / "results") as writer:
        for n in range(start, min(count, start + 2000)):
            writer.add(ResultLine(n, Outcome.succeeded, "openai", Route.batch, 1, now, text=str(n) * (answer_bytes // 5)))
        writer.close()
    shards.append((0, len(shards)))
lost = NoResult(Outcome.expired, ErrorClass.not_sent, "", "", now)
merged = merge_job(store, manifest, shards, no_result=lost, effective_until=now, directory=folder / "merge")
assert merged.tally.outcomes == {Outcome.succeeded: count}
# Not ru_maxrss: a child's begins with what its parent held when it was forked.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def peak_mib(count: int, answer_bytes: int, folder: Path) -> int:
    """Peak resident size, in MiB, of a process that takes a job of `count` requests all the way."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(count), str(answer_bytes), str(folder)],
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("answer_bytes", [100, 16_000])
def test_MS_02_memory_is_flat_in_the_size_of_the_job(tmp_path: Path, answer_bytes: int) -> None:
    small, large = (40_000, 100_000) if answer_bytes == 100 else (9_000, 20_000)
    first = peak_mib(small, answer_bytes, tmp_path / "small")
    second = peak_mib(large, answer_bytes, tmp_path / "large")
    # The larger job has 25 MB (or 180 MB) more of data; 8 bytes a request are allowed, and the allocator's whims.
    assert second - first < 25
    assert second < 512
