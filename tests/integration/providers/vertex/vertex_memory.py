"""How much a process grows while an object goes up and comes down: argv are folder and megabytes."""

import asyncio
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from groupage.activities.providers.base import ResultFile, Submission
from groupage.activities.providers.vertex import VertexProvider
from groupage.activities.settings import ProviderSettings

TAG = "gk3v5q2-4f7xk2m5ab3cd-r0-s7"


def peak_mb() -> float:
    """The high-water mark of this process."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


async def main(folder: Path, megabytes: int) -> None:
    adapter = VertexProvider("vertex", ProviderSettings())
    path = folder / "up.jsonl"

    async def there_and_back(tag: str, size: int) -> tuple[float, float]:
        with path.open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(1_000_000))
        submission = Submission(tag, "/generateContent", "gemini-2.5-flash", path, 1, datetime.now(UTC))
        began = time.monotonic()
        (ref,) = await adapter.upload(submission)
        middle = time.monotonic()
        assert await adapter.download(ResultFile("output", ref), folder / "down.jsonl") == size * 1_000_000
        took = middle - began, time.monotonic() - middle
        with path.open("rb") as sent, (folder / "down.jsonl").open("rb") as received:
            while chunk := sent.read(1 << 20):
                assert received.read(1 << 20) == chunk
        return took

    # All that is imported and connected once is there, and two pieces of the largest size have gone by.
    await there_and_back(TAG.replace("s7", "s8"), 20)
    told = {"before_mb": peak_mb()}
    told["upload_s"], told["download_s"] = await there_and_back(TAG, megabytes)
    told["after_mb"] = peak_mb()
    await adapter.close()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
