"""Questions, input files and waiting, for tests that talk to a real emulator with the real SDK."""

import asyncio
import time

import orjson
from groupage.emulator import expected_text

CHAT = "/v1/chat/completions"


def body(number, **more):
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": f"Question {number}"}]} | more


def input_file(count, first=0):
    return b"".join(
        orjson.dumps({"custom_id": f"r-{number}", "method": "POST", "url": CHAT, "body": body(number)}) + b"\n"
        for number in range(first, first + count)
    )


async def submit(client, data, **more):
    """Upload and create; the batch as created."""
    file = await client.files.create(file=("in.jsonl", data), purpose="batch")
    arguments = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"} | more
    return await client.batches.create(**arguments)


async def wait(client, batch_id, *states, patience_s=150):
    """Poll until the batch is in one of the states (default: an end)."""
    wanted = states or ("completed", "failed", "expired", "cancelled")
    give_up = time.monotonic() + patience_s
    while True:
        batch = await client.batches.retrieve(batch_id)
        if batch.status in wanted:
            return batch
        assert time.monotonic() < give_up, f"{batch_id} is still {batch.status}"
        await asyncio.sleep(0.05)


async def checked(client, batch_id):
    """Wait until the input has been read: counts and model are known from then on."""
    for _ in range(3000):
        if (await client.batches.retrieve(batch_id)).model:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the input of {batch_id} was not read")


async def lines(client, file_id):
    """Parsed lines of a file, [] for none."""
    if file_id is None:
        return []
    content = (await client.files.content(file_id)).content
    return [orjson.loads(line) for line in content.split(b"\n") if line]


def numbers(found):
    return sorted(int(line["custom_id"].removeprefix("r-")) for line in found)


def check_answers(found):
    """Every line answers its own question."""
    for line in found:
        number = int(line["custom_id"].removeprefix("r-"))
        assert line["response"]["body"]["choices"][0]["message"]["content"] == expected_text(CHAT, body(number))
