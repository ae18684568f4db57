"""The short way writes what the long way writes, byte for byte, or leaves the line alone."""

import copy
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from groupage.activities import harvesting
from groupage.activities.answers import read_batch_line
from groupage.activities.harvesting import Quarantine, Reader
from groupage.activities.normalising import Normaliser
from groupage.activities.plain_answers import PlainChat
from groupage.activities.pricing import PriceBook
from groupage.schemas import Route
from groupage.schemas.ids import wire_id
from groupage.store.results import ResultLine, encode_fragment, result_row
from groupage.store.rows import RESULT_BYTES, Names
from hypothesis import given
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
TAG = "gabc234-abcdefghijkl2-r0-s0"
ENDED = datetime(2026, 11, 29, 12, 0, 0, 500_000, tzinfo=UTC)
CREATED = int(ENDED.timestamp()) - 60


class Recorder:
    """Stands for the writer: keeps what it is given, encoded as the writer does it."""

    def __init__(self) -> None:
        self.codes, self.models = Names(), Names()
        self.codes.code("")
        self.written: list[tuple[bytes, tuple[int, ...], str]] = []
        self.short = 0

    def model_code(self, model: str) -> int:
        return self.models.code(model)

    def add(self, line: ResultLine) -> None:
        fragment = encode_fragment(line)
        self._keep(fragment, result_row(line, len(fragment), self.codes, self.models))

    def add_encoded(self, fragment: bytes, row: bytes) -> None:
        self.short += 1
        self._keep(fragment, RESULT_BYTES.unpack(row))

    def _keep(self, fragment: bytes, row: tuple[int, ...]) -> None:
        # The model's number may differ, its name not.
        self.written.append((fragment, row[:8] + row[9:], self.models.texts[row[8]]))


def normaliser(provider: str = "openai", model: str = "gpt-4o-mini", batch_id: str = "batch_1") -> Normaliser:
    return Normaliser(
        provider=provider,
        endpoint=CHAT,
        model=model,
        route=Route.batch,
        round_=1,
        prices=PriceBook(provider, ENDED),
        sent_at=ENDED - timedelta(hours=1),
        ended_at=ENDED,
        batch_id=batch_id,
    )


def read(lines: list[bytes], tmp: Path, *, plain: bool, **options: str) -> tuple[Recorder, Any]:
    path = tmp / "output"
    path.write_bytes(b"".join(lines))
    reader = Reader(
        tag=TAG,
        endpoint=CHAT,
        members=np.arange(100, dtype=np.uint32),
        read_line=read_batch_line,
        normaliser=normaliser(**options),
        stop=threading.Event(),
        plain_chat=plain,
    )
    recorder = Recorder()
    with Quarantine(tmp / "quarantine") as quarantine:
        harvest = reader.read([("output", path)], recorder, quarantine)  # type: ignore[arg-type]
    return recorder, harvest


def row(index: int = 0, **changes: Any) -> dict[str, Any]:
    """A plain line; `changes` replace values by path: message__content="x"; ... means: remove."""
    found: dict[str, Any] = {
        "id": "batch_req_1",
        "custom_id": wire_id(TAG, index),
        "response": {
            "status_code": 200,
            "request_id": "req_1",
            "body": {
                "id": "chatcmpl-1",
                "created": CREATED,
                "model": "gpt-4o-mini-2024-07-18",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": 'h\u00e9 \u2028 "q" \\ 50% %b'}, "finish_reason": "stop"}
                ],
                "usage": {
                    "prompt_tokens": 81,
                    "completion_tokens": 94,
                    "prompt_tokens_details": {"cached_tokens": 0},
                    "completion_tokens_details": {"reasoning_tokens": 7},
                },
            },
        },
        "error": None,
    }  # fmt: skip
    for path, value in changes.items():
        holder: Any = found
        *ways, last = PATHS[path]
        for way in ways:
            holder = holder[way]
        if value is ...:
            holder.pop(last, None)
        else:
            holder[last] = value
    return found


BODY = ("response", "body")
MESSAGE = (*BODY, "choices", 0, "message")
PATHS: dict[str, tuple[Any, ...]] = {
    "custom_id": ("custom_id",),
    "error": ("error",),
    "response": ("response",),
    "status": ("response", "status_code"),
    "request_id": ("response", "request_id"),
    "body": BODY,
    "created": (*BODY, "created"),
    "model": (*BODY, "model"),
    "choices": (*BODY, "choices"),
    "finish": (*BODY, "choices", 0, "finish_reason"),
    "message": MESSAGE,
    "content": (*MESSAGE, "content"),
    "refusal": (*MESSAGE, "refusal"),
    "tool_calls": (*MESSAGE, "tool_calls"),
    "usage": (*BODY, "usage"),
    "prompt": (*BODY, "usage", "prompt_tokens"),
    "completion": (*BODY, "usage", "completion_tokens"),
    "ins": (*BODY, "usage", "prompt_tokens_details"),
    "outs": (*BODY, "usage", "completion_tokens_details"),
}
ODD: list[Any] = [
    ..., None, "", "x", 0, 1, -1, True, False, 200, 200.0, 201, 1.5, 2**31, 2**32, 2**63, [], [1], {}, {"a": 1}, "stop",
    {"cached_tokens": 3}, {"reasoning_tokens": -2}, {"reasoning_tokens": 1.5}, {"cache_write_tokens": 4},
    {"cached_tokens": None}, CREATED + 1, float(CREATED), "gpt-4o", "no-such-model", wire_id(TAG, 3), wire_id(TAG, 100),
    [{"finish_reason": "stop", "message": {"content": "a"}}, {"finish_reason": "length", "message": {"content": "b"}}],
]  # fmt: skip


def test_a_plain_line_takes_the_short_way_and_says_the_same(tmp_path):
    lines = [orjson.dumps(row(n), option=orjson.OPT_APPEND_NEWLINE) for n in range(5)]
    short, counts = read(lines, tmp_path, plain=True)
    long, same_counts = read(lines, tmp_path, plain=False)
    assert (short.short, long.short) == (5, 0)
    assert short.written == long.written
    assert counts == same_counts
    result = orjson.loads(b"{" + short.written[0][0][1:])
    assert (result["text"], result["usage"]["reasoning_tokens"]) == ('h\u00e9 \u2028 "q" \\ 50% %b', 7)


@pytest.mark.parametrize("path", PATHS)
def test_whatever_stands_at_one_place_both_ways_write_the_same(path, tmp_path):
    odd = [orjson.dumps(row(n % 100, **{path: value}), option=orjson.OPT_APPEND_NEWLINE) for n, value in enumerate(ODD)]
    for lines in (odd, [orjson.dumps(row(99)) + b"\n", *odd, orjson.dumps(row(98))]):
        short, counts = read(lines, tmp_path, plain=True)
        long, same_counts = read(lines, tmp_path, plain=False)
        assert short.written == long.written
        assert counts == same_counts


def test_an_answer_that_is_nested_too_deeply_to_be_written_takes_the_long_way(tmp_path):
    """It raised, and the shard was never collected."""
    plain = orjson.dumps(row(0), option=orjson.OPT_APPEND_NEWLINE)
    deep = plain.replace(b'"created":', b'"deep":' + b"[" * 300 + b"]" * 300 + b',"created":')
    short, _ = read([deep], tmp_path, plain=True)
    long, _ = read([deep], tmp_path, plain=False)
    assert short.short == 0
    assert short.written == long.written
    assert orjson.loads(b"{" + short.written[0][0][1:])["outcome"] == "succeeded"


@given(st.lists(st.tuples(st.sampled_from(sorted(PATHS)), st.sampled_from(ODD)), min_size=2, max_size=4))
def test_whatever_stands_at_several_places_both_ways_write_the_same(tmp_path_factory, changes):
    made = copy.deepcopy(row())
    for path, value in changes:
        try:
            made = _changed(made, path, copy.deepcopy(value))
        except (AttributeError, KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    lines = [orjson.dumps(row(7)) + b"\n", orjson.dumps(made) + b"\n"]
    tmp = tmp_path_factory.mktemp("lines")
    assert read(lines, tmp, plain=True)[0].written == read(lines, tmp, plain=False)[0].written


def _changed(made: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    holder: Any = made
    *ways, last = PATHS[path]
    for way in ways:
        holder = holder[way]
    if value is ...:
        holder.pop(last, None)
    else:
        holder[last] = value
    return made


@pytest.mark.parametrize(
    "raw", [b"{", b"[]\n", b"null\n", b'\xef\xbb\xbf{"custom_id":"x"}\n', b'{"response":{"body":[]}}\n']
)
def test_lines_that_are_no_rows_are_left_to_the_long_way(raw, tmp_path):
    short, counts = read([raw], tmp_path, plain=True)
    long, same_counts = read([raw], tmp_path, plain=False)
    assert short.written == long.written == []
    assert counts == same_counts


def test_without_a_known_price_the_long_way_is_taken(tmp_path):
    lines = [orjson.dumps(row(n, model="no-such-model"), option=orjson.OPT_APPEND_NEWLINE) for n in range(3)]
    short, _ = read(lines, tmp_path, plain=True, provider="nobody", model="another")
    assert short.short == 0
    assert short.written == read(lines, tmp_path, plain=False, provider="nobody", model="another")[0].written


def test_a_file_of_other_lines_is_not_tried_twice_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(harvesting, "PLAIN_MISSES_MAX", 10)
    tried: list[bytes] = []
    add = PlainChat.add
    monkeypatch.setattr(PlainChat, "add", lambda self, line: tried.append(line) or add(self, line))
    lines = [orjson.dumps(row(n % 100, finish="length"), option=orjson.OPT_APPEND_NEWLINE) for n in range(50)]
    read(lines, tmp_path, plain=True)
    # Truncated answers are answers, so they count for the trying to go on; errors do not.
    errors = [orjson.dumps(row(n % 100, status=500), option=orjson.OPT_APPEND_NEWLINE) for n in range(50)]
    tried.clear()
    read(errors, tmp_path, plain=True)
    assert len(tried) == 11
