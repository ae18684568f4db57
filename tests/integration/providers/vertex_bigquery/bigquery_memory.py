"""How much a process grows while a table goes up and comes down: argv are base URL, folder and megabytes."""

import asyncio
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
from bigquery_plane import INPUT, TAG, Plane, variables_of
from groupage.activities.providers.base import Submission
from groupage.schemas.ids import wire_id

LINE = 2000


class Address:
    """Where the emulator is, as `Plane` wants it."""

    def __init__(self, base_url):
        self.base_url = base_url


def peak_mb():
    """The high-water mark of this process."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


async def main(base_url, folder, megabytes):
    os.environ.update(variables_of(base_url))
    plane = Plane(Address(base_url), folder)
    plane.make_dataset()
    small = plane.submission(100, tag=TAG.replace("s7", "s8"))
    (ref,) = await plane.data.upload(small)
    await plane.data.download(ref, folder / "small")
    count, path = megabytes * 1_000_000 // LINE, folder / "up.jsonl"
    with path.open("wb", buffering=1 << 20) as file:
        for number in range(count):
            request = orjson.dumps({"contents": [{"parts": [{"text": f"{number} " + "word\n" * (LINE // 6)}]}]})
            file.write(plane.data.line(wire_id(TAG, number), request, claude=False))
    submission = Submission(TAG, "/generateContent", "m", path, count, datetime.now(UTC))
    told = {"sent": path.stat().st_size, "before_mb": peak_mb()}
    began = time.monotonic()
    await plane.data.upload(submission)
    told |= {"after_upload_mb": peak_mb(), "upload_s": time.monotonic() - began}
    began = time.monotonic()
    told["received"] = await plane.data.download(f"bq://{INPUT}", folder / "down.jsonl")
    told |= {"after_download_mb": peak_mb(), "download_s": time.monotonic() - began}
    plane.close()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
