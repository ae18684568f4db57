"""How much a process grows while 200 MB go up to and down from a server: argv are base URL and folder."""

import asyncio
import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import psutil
from groupage.activities.providers.base import ResultFile, Submission
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.settings import ProviderSettings

LINE = b"a" * 999_999 + b"\n"


class Peak:
    """Samples the resident size every few milliseconds; `mb` is the growth since it began."""

    def __enter__(self):
        self._process = psutil.Process()
        self._start = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.003):
            self._peak = max(self._peak, self._process.memory_info().rss)

    @property
    def mb(self):
        return (self._peak - self._start) / 1e6


async def main(base_url, folder):
    path = folder / "up"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(LINE)
    provider = OpenAIProvider("openai", ProviderSettings(base_url=base_url, api_key="memory"))
    await provider.delete("file", "file-warm-up")
    submission = Submission("warm", "/v1/chat/completions", "m", path, 200, datetime.now(UTC))
    with Peak() as up:
        (file_id,) = await provider.upload(submission)
    with Peak() as down:
        size = await provider.download(ResultFile("output", file_id), folder / "down")
    await provider.delete("file", file_id)
    await provider.close()
    sys.stdout.write(json.dumps({"upload_mb": up.mb, "download_mb": down.mb, "bytes": size}))


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
