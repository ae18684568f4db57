"""From requests to an accepted job, without a server."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.client.submission import accept, spooled_input
from groupage.schemas import Request
from groupage.schemas.errors import InputRefused, KeyConflict, UsageError
from groupage.store.objects import open_store

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def mappings(count: int) -> Iterator[dict[str, Any]]:
    return ({"id": f"r{n}", "endpoint": "/v1/chat/completions", "body": BODY} for n in range(count))


def text(count: int) -> bytes:
    return b"".join(orjson.dumps(each) + b"\n" for each in mappings(count))


async def test_every_form_of_the_same_requests_is_the_same_content(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(text(3))
    forms: list[Any] = [
        path,
        str(path),
        io.BytesIO(text(3)),
        mappings(3),
        list(mappings(3)),
        [Request(id=f"r{n}", body=BODY) for n in range(3)],
    ]
    fingerprints = set()
    for form in forms:
        async with spooled_input(form, provider="openai", directory=tmp_path) as spooled:
            assert spooled.requests == 3
            fingerprints.add(spooled.fingerprint)
    assert len(fingerprints) == 1
    async with spooled_input([], provider="openai", directory=tmp_path) as spooled:
        assert spooled.requests == 0


async def test_bad_lines_are_refused_with_file_and_line_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(text(1) + b"\n{broken\n")
    with pytest.raises(InputRefused, match="1 of 2 lines") as caught:
        async with spooled_input(path, provider="openai"):
            pytest.fail("it was accepted")
    assert caught.value.problems[0].startswith(f"{path}, line 3:")
    assert caught.value.total == 1
    async with spooled_input(path, provider="openai", on_invalid="skip") as spooled:
        assert (spooled.requests, spooled.rejected) == (2, 1)


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.jsonl"):
        async with spooled_input(tmp_path / "missing.jsonl", provider="openai"):
            pytest.fail("it was accepted")


async def test_the_spool_is_gone_afterwards_also_after_an_error(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    async with spooled_input(mappings(2), provider="openai", directory=spool):
        assert list(spool.iterdir())
    assert not list(spool.iterdir())
    with pytest.raises(InputRefused):
        async with spooled_input([{"id": "x"}], provider="openai", directory=spool):
            pytest.fail("it was accepted")
    assert not list(spool.iterdir())


async def test_SU_10_the_same_key_is_the_same_content_or_a_conflict() -> None:
    store = open_store("memory://")
    async with spooled_input(mappings(2), provider="openai") as spooled:
        first = await accept(store, spooled, tenant="t", key="k")
        assert await accept(store, spooled, tenant="t", key="k") == first
        unnamed = await accept(store, spooled, tenant="t", key=None)
        assert unnamed.key == spooled.fingerprint[:32]
    async with spooled_input(mappings(3), provider="openai") as other:
        with pytest.raises(KeyConflict, match="other content"):
            await accept(store, other, tenant="t", key="k")
        assert (await accept(store, other, tenant="another", key="k")).requests == 3
