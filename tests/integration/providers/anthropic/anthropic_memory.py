"""How much a process grows while a 100 MB batch goes up to and its results come down: argv are base URL and folder."""

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
from groupage.activities.providers.anthropic import AnthropicProvider
from groupage.activities.providers.anthropic_transfer import body_size
from groupage.activities.providers.base import ResultFile, Submission
from groupage.activities.settings import ProviderSettings

sys.path.insert(0, str(Path(__file__).parents[1]))

import search_path  # noqa: F401  # what follows is found through it
from peak import Peak

REQUESTS, PROMPT = 1000, "word " * 20_000


async def main(base_url, folder):
    settings = ProviderSettings(base_url=base_url, api_key="memory")
    provider = AnthropicProvider("anthropic", settings)
    path = folder / "up"
    body = {"model": "claude-sonnet-4-5", "max_tokens": 40_000}
    with path.open("wb") as file:
        for number in range(REQUESTS):
            messages = [{"role": "user", "content": f"{number} {PROMPT}"}]
            file.write(provider.render(f"w-{number}", "/v1/messages", orjson.dumps({**body, "messages": messages})))
    submission = Submission("warm", "/v1/messages", "m", path, REQUESTS, datetime.now(UTC))
    await provider.upload(submission)
    with Peak() as up:
        batch = await provider.create(submission, [])
    give_up_at = time.monotonic() + 200
    while not (await provider.status(batch.batch_id)).phase.ended:
        assert time.monotonic() < give_up_at, "the batch does not end"
        await asyncio.sleep(0.2)
    with Peak() as down:
        size = await provider.download(ResultFile("output", batch.batch_id), folder / "down")
    await provider.delete("batch", batch.batch_id)
    await provider.close()
    told = {"create_mb": up.mb, "download_mb": down.mb, "sent": body_size(path), "received": size}
    sys.stdout.write(json.dumps(told))


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
