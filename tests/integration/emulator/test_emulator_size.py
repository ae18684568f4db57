"""Large files neither fill the memory nor lose a byte; the measurement measures."""

import hashlib
from dataclasses import asdict

from groupage.emulator.measure import _peak_mb, measure
from openai import AsyncOpenAI

MEGABYTES = 64


async def test_MS_02_the_servers_memory_does_not_grow_with_the_file(start, tmp_path):
    emulator = start()
    path = tmp_path / "large"
    block = bytes(range(256)) * 4096
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(MEGABYTES):
            file.write(block)
            digest.update(block)
    async with AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0) as client:
        await client.files.create(file=("warm", b"x"), purpose="batch")
        before = _peak_mb(emulator.pid)
        with path.open("rb") as file:
            stored = await client.files.create(file=file, purpose="batch")
        got = hashlib.sha256()
        async with client.files.with_streaming_response.content(stored.id) as reply:
            async for chunk in reply.iter_bytes():
                got.update(chunk)
    assert stored.bytes == MEGABYTES * len(block)
    assert got.digest() == digest.digest()
    assert _peak_mb(emulator.pid) - before < MEGABYTES / 4


def test_the_emulator_can_be_measured_alone(tmp_path):
    figures = asdict(measure(2000, tmp_path))
    assert figures.pop("requests") == 2000
    assert all(value > 0 for value in figures.values())
    assert list(tmp_path.iterdir()) == []
