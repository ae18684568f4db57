"""Intake refuses what the provider cannot be told: with line number and field, before anything is sent."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.cli.options import JobOptions
from groupage.client.submission import spooled_input
from groupage.schemas import NATIVE_ENDPOINTS, Request, endpoints_of
from groupage.schemas.errors import InputRefused, UsageError
from groupage.store.intake import SpooledInput, spool_requests
from groupage.store.parsing import rules_of

ASKED = {"messages": [{"role": "user", "content": "hello"}]}
CLAUDE = "claude-sonnet-5-5"


def line(id_: str, endpoint: str | None = None, **body: Any) -> bytes:
    row: dict[str, Any] = {"custom_id": id_, "body": {"model": CLAUDE, **ASKED, **body}}
    return orjson.dumps(row | ({"url": endpoint} if endpoint else {})) + b"\n"


def spool(tmp_path: Path, *lines: bytes, provider: str = "anthropic", **options: Any) -> SpooledInput:
    return spool_requests([b"".join(lines)], tmp_path / "spool", provider=provider, **options)


async def test_the_client_refuses_the_line_by_number_and_field_before_anything_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(line("a") + b"\n" + line("b", seed=7) + line("c"))
    with pytest.raises(InputRefused) as error:
        async with spooled_input(file, provider="anthropic"):
            pytest.fail("nothing may be handed in")
    (problem,) = error.value.problems
    assert "line 3:" in problem
    assert "seed" in problem
    assert "[inexpressible]" in problem
    async with spooled_input(file, provider="openai") as spooled:
        assert spooled.rejected == 0


def test_good_neighbours_keep_their_places_and_their_bodies(tmp_path: Path) -> None:
    spooled = spool(tmp_path, line("a"), line("b", logprobs=True), line("c"))
    assert (spooled.requests, spooled.rejected) == (3, 1)
    (rejected,) = spooled.rejected_lines()
    assert (rejected.index, rejected.line, rejected.code) == (1, 2, "inexpressible")
    assert "logprobs" in rejected.message
    assert spooled.lines(0).splitlines()[2] == b'{"id":"c","endpoint":"/v1/chat/completions","body":%b}' % (
        orjson.dumps({"model": CLAUDE, **ASKED})
    )


def test_requests_made_in_python_are_looked_at_alike(tmp_path: Path) -> None:
    def made() -> AsyncIterator[Request] | Any:
        yield Request(id="a", body=ASKED)
        yield Request(id="b", body={**ASKED, "n": 2})
        yield Request(id="c", body={**ASKED, "max_tokens": 2**70})

    spooled = spool_requests(made(), tmp_path / "spool", provider="anthropic", model=CLAUDE)
    assert [(each.line, each.code) for each in spooled.rejected_lines()] == [(2, "inexpressible"), (3, "inexpressible")]


def test_a_number_that_rewriting_would_alter_is_refused_only_where_bodies_are_rewritten(tmp_path: Path) -> None:
    raw = line("a", temperature=0.5).replace(b"0.5", b"0.12345678901234567890")
    assert spool(tmp_path / "openai", raw, provider="openai").rejected == 0
    (rejected,) = spool(tmp_path / "vertex", raw, provider="vertex").rejected_lines()
    assert rejected.code == "inexpressible"


@pytest.mark.parametrize(
    ("provider", "endpoint"), [(name, each) for name, natives in NATIVE_ENDPOINTS.items() for each in natives]
)
def test_a_native_endpoint_is_taken_for_its_provider_only(tmp_path: Path, provider: str, endpoint: str) -> None:
    raw = line("a", endpoint, max_tokens=7, seed="no field of a chat request's")
    for name in (*NATIVE_ENDPOINTS, "openai", "azure"):
        spooled = spool(tmp_path / name, raw, provider=name)
        codes = [each.code for each in spooled.rejected_lines()]
        assert codes == ([] if endpoint in endpoints_of(name) else ["unknown_endpoint"])
    spooled = spool(tmp_path / "mine", raw, provider=provider)
    (group,) = spooled.groups
    assert (group.endpoint, group.model) == (endpoint, CLAUDE)
    assert orjson.loads(spooled.lines(0))["body"]["seed"] == "no field of a chat request's"


@pytest.mark.parametrize("provider", NATIVE_ENDPOINTS)
def test_endpoints_that_only_openai_has_are_refused_elsewhere(tmp_path: Path, provider: str) -> None:
    raw = orjson.dumps({"id": "a", "url": "/v1/responses", "body": {"model": "m", "input": "x"}})
    (rejected,) = spool(tmp_path, raw, provider=provider).rejected_lines()
    assert rejected.code == "unknown_endpoint"
    assert "/v1/chat/completions" in rejected.message
    with pytest.raises(UsageError):
        spool(tmp_path / "default", raw, provider=provider, endpoint="/v1/moderations")


@pytest.mark.parametrize(
    ("endpoint", "body", "tokens", "output"),
    [
        (
            "/v1/messages",
            {"max_tokens": 70, "system": "s" * 400, "messages": [{"role": "user", "content": "u" * 400}]},
            201,
            70,
        ),
        (
            "/generateContent",
            {"contents": [{"parts": [{"text": "u" * 400}]}], "generationConfig": {"maxOutputTokens": 9}},
            101,
            9,
        ),
        ("/generateContent", {"contents": [{"parts": [{"inlineData": {"data": "A" * 99_999}}]}]}, 1001, 1024),
        ("/converse", {"messages": [{"content": [{"text": "é" * 200}]}], "inferenceConfig": {"maxTokens": 8}}, 101, 8),
        ("/invoke", {"inputText": "u" * 400}, 101, 0),
        ("/invoke", {"prompt": "u" * 400, "max_gen_len": 6}, 101, 6),
        ("/embedContent", {"content": {"parts": [{"text": "u" * 400}]}}, 101, 0),
    ],
)
def test_a_native_body_is_counted(
    tmp_path: Path, endpoint: str, body: dict[str, Any], tokens: int, output: int
) -> None:
    provider = next(name for name, natives in NATIVE_ENDPOINTS.items() if endpoint in natives)
    raw = orjson.dumps({"id": "a", "url": endpoint, "body": {"model": "m", **body}})
    (group,) = spool(tmp_path, raw, provider=provider).groups
    assert (group.tokens, group.max_output_tokens) == (tokens, output)


def test_a_label_that_is_ours_is_refused_on_vertex_and_others_stay(tmp_path: Path) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    rows = [
        {"custom_id": id_, "url": "/generateContent", "body": {"model": "gemini-2.5-flash", **body, "labels": labels}}
        for id_, labels in (("a", {"team": "x"}), ("b", {"team": "x", "groupage_id": "mine"}))
    ]
    spooled = spool(tmp_path, *(orjson.dumps(row) + b"\n" for row in rows), provider="vertex")
    (rejected,) = spooled.rejected_lines()
    assert (rejected.line, rejected.code) == (2, "inexpressible")
    assert "labels.groupage_id" in rejected.message
    assert b'"labels":{"team":"x"}' in spooled.lines(0)


def test_nothing_is_looked_at_for_openai_and_its_relatives() -> None:
    assert all(rules_of(name).check is None for name in ("openai", "azure", "groq", "alibaba", "a-name-of-our-own"))


def test_the_command_line_takes_an_endpoint_for_its_provider() -> None:
    def parse(provider: str, endpoint: str) -> str:
        rest = {"profile": "default", "model": None, "deadline": "6h", "key": None, "tenant": "t", "labels": None}
        return JobOptions.parse("in.jsonl", provider=provider, endpoint=endpoint, policy=None, **rest).endpoint

    assert parse("bedrock", "/converse") == "/converse"
    with pytest.raises(UsageError, match="--endpoint /converse"):
        parse("openai", "/converse")
    with pytest.raises(UsageError, match="--endpoint /v1/responses"):
        parse("anthropic", "/v1/responses")
