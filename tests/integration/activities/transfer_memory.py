"""How much a process grows while 200 MB go up to and down from a server: argv are base URL and folder."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from groupage.activities.providers.base import ResultFile, Submission
from groupage.activities.providers.openai import OpenAIProvider
from groupage.activities.settings import ProviderSettings
from peak import Peak

LINE = b"a" * 999_999 + b"\n"


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
