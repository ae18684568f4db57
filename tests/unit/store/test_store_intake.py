"""Intake: which lines are taken, how the others are named, and what a line becomes."""

import io
import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.schemas import Request
from groupage.schemas.errors import UsageError
from groupage.store.intake import spool_requests
from groupage.store.lines import LongLine, physical_lines
from groupage.store.rows import REJECTED
from hypothesis import given, settings
from hypothesis import strategies as st
from store_builders import batch_line, bodies, canonical, rejections, spool


def short(**fields: Any) -> bytes:
    return orjson.dumps(fields)


def test_IV_01_a_repeated_id_is_rejected_and_both_lines_are_named() -> None:
    spooled = spool([batch_line("a"), batch_line("b"), b"", batch_line("a", "another text")])
    assert rejections(spooled) == [(4, "duplicate_id")]
    assert "line 4" in spooled.problems[0]
    assert "line 1" in spooled.problems[0]
    assert spooled.requests == 3
    assert spooled.groups[0].requests == 2
    assert [int(row["group"]) for row in spooled.rows(0)] == [0, 0, REJECTED]


def test_repeated_ids_are_found_across_segments_and_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupage.store.duplicates.CANDIDATES_AT_ONCE", 7)
    lines = [batch_line(f"id-{n % 60}", f"text {n}") for n in range(100)]
    spooled = spool(lines, segment_requests=9)
    found = list(spooled.rejected_lines())
    assert [rejected.line for rejected in found] == list(range(61, 101))
    assert [rejected.index for rejected in found] == list(range(60, 100))
    assert all(f"also on line {rejected.line - 60}" in rejected.message for rejected in found)
    whole = spool(lines[:60])
    assert spooled.groups == whole.groups  # the sums do not count what was rejected


def test_equal_hashes_of_different_ids_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupage.store.spooler.hash_of", lambda _id: 42)
    spooled = spool([batch_line("a"), batch_line("b"), batch_line("c"), batch_line("b")])
    assert rejections(spooled) == [(4, "duplicate_id")]


def test_IV_03_IV_04_ids_are_data_of_any_length_and_alphabet() -> None:
    ids = ["a.b", "a:b", "a/b", "é", "x" * 65, "x" * 4096, "a\u2028\u0085\x0b\x0c", 'q"\\,"endpoint":', " a ", "日本"]
    spooled = spool([batch_line(id_) for id_ in ids])
    assert spooled.rejected == 0
    assert [orjson.loads(line)["id"] for line in canonical(spooled)] == ids


@pytest.mark.parametrize(
    "line",
    [
        b'{"prompt":"x"}',
        b'{"id":"","prompt":"x"}',
        b'{"id":" \\t\\u00a0","prompt":"x"}',
        b'{"custom_id":null,"prompt":"x"}',
    ],
)
def test_IV_05_a_missing_empty_or_blank_id_is_rejected_with_its_line(line: bytes) -> None:
    spooled = spool([batch_line("a"), b"", line, batch_line("b")], model="m")
    assert rejections(spooled) == [(3, "no_id")]


def test_IV_06_lines_that_are_no_objects_and_bodies_that_are_no_objects_sink_nothing() -> None:
    bad = [b"[1]", b'"x"', b"null", b"7", b'{"custom_id":"s","url":"/v1/chat/completions","body":"text"}']
    lines = [line for n, one in enumerate(bad) for line in (batch_line(f"good-{n}"), one)]
    spooled = spool(lines)
    assert rejections(spooled) == [
        (2, "not_an_object"),
        (4, "not_an_object"),
        (6, "not_an_object"),
        (8, "not_an_object"),
        (10, "bad_body"),
    ]
    assert spooled.requests == 10
    assert spooled.groups[0].requests == 5


def test_IV_07_a_broken_line_is_reported_with_its_physical_number_and_an_excerpt() -> None:
    lines = [batch_line(f"id-{n}") for n in range(1, 5001)]
    lines[4320] = lines[4320][:-20]
    spooled = spool(lines)
    (rejected,) = spooled.rejected_lines()
    assert (rejected.line, rejected.index, rejected.code) == (4321, 4320, "invalid_json")
    assert "column" in rejected.message
    assert 0 < len(rejected.excerpt) < 90
    assert rejected.excerpt.strip("…") in lines[4320].decode()
    assert spooled.requests == 5000


def test_IV_09_a_byte_order_mark_is_stripped_however_the_input_is_cut() -> None:
    data = b"\xef\xbb\xbf" + batch_line("a") + b"\n" + batch_line("b") + b"\n"
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))], [data[:2], data[2:]]):
        folder = spool(b"").directory / "again"
        spooled = spool_requests(pieces, folder, provider="openai")
        assert (spooled.requests, spooled.rejected) == (2, 0)


def test_IV_18_one_enormous_line_is_reported_and_the_rest_runs() -> None:
    lines = [batch_line("a"), batch_line("huge", "x" * 200_000), batch_line("b")]
    spooled = spool(lines, max_line_bytes=100_000)
    (rejected,) = spooled.rejected_lines()
    assert (rejected.line, rejected.code) == (2, "too_long")
    assert f"{len(lines[1])} bytes" in rejected.message
    assert spooled.groups[0].requests == 2


def test_a_line_that_never_ends_is_not_held_in_memory() -> None:
    piece = b"x" * 10_000
    lines = list(physical_lines([b"a\n", *[piece] * 50, b"\nlast"], 15_000))
    assert lines[0] == b"a"
    assert isinstance(lines[1], LongLine)
    assert lines[1].size == 500_000
    assert len(lines[1].head) <= 256
    assert lines[2] == b"last"


@pytest.mark.parametrize("data", [b"", b"\n\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_IV_24_an_empty_input_is_an_empty_job(data: bytes) -> None:
    spooled = spool(data)
    assert (spooled.requests, spooled.rejected, spooled.segments, spooled.groups) == (0, 0, [], [])
    assert spooled.fingerprint == spool(b"").fingerprint


def test_IV_25_blank_lines_are_skipped_and_counted() -> None:
    data = b"\n" + batch_line("a") + b"\r\n  \t\r\n" + batch_line("b") + b"\n{bad\n\n" + batch_line("c")
    spooled = spool(data)
    assert [int(row["line"]) for row in spooled.rows(0)] == [2, 4, 5, 7]
    assert rejections(spooled) == [(5, "invalid_json")]
    assert spooled.requests == 4


def test_RP_01_only_0x0a_ends_a_line() -> None:
    text = "\u2028 \u2029 \u0085 \x7f end"
    raw = json.dumps({"id": "a", "prompt": text}, ensure_ascii=False).encode()
    spooled = spool([raw], model="m")
    assert spooled.requests == 1
    assert orjson.loads(bodies(spooled)[0])["messages"][0]["content"] == text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"id":"a","prompt":"\xff\xfe"}', "invalid_utf8"),
        (b'{"id":"a","prompt":"x"} trailing', "invalid_json"),
        (b'{"id":"a","prompt":NaN}', "invalid_json"),
        (b'{"id":"a","id":"b","prompt":"x"}', "duplicate_key"),
        (b'{"id":"a","body":{"model":"m","seed":1,"seed":2}}', "duplicate_key"),
        (b'{"id":7,"prompt":"x"}', "bad_id"),
        (b'{"id":"\\ud800","prompt":"x"}', "bad_id"),
        (b'{"id":"a","custom_id":"b","prompt":"x"}', "ambiguous_id"),
        (b'{"id":"' + b"x" * 4097 + b'","prompt":"x"}', "bad_id"),
        (b'{"id":"a","prompt":"x","temperature":0}', "unknown_key"),
        (b'{"id":"a","prompt":"x","\\ud800":0}', "unknown_key"),
        (b'{"id":"a"}', "bad_body"),
        (b'{"id":"a","prompt":"x","messages":[]}', "bad_body"),
        (b'{"id":"a","prompt":7}', "bad_body"),
        (b'{"id":"a","messages":"x"}', "bad_body"),
        (b'{"id":"a","messages":[]}', "bad_body"),
        (b'{"id":"a","input":"x"}', "bad_body"),
        (b'{"id":"a","prompt":"x","url":"/v1/embeddings"}', "bad_body"),
        (b'{"id":"a","prompt":"x","url":"/v1/images"}', "unknown_endpoint"),
        (b'{"id":"a","prompt":"x","url":["/v1/responses"]}', "unknown_endpoint"),
        (b'{"id":"a","prompt":"x","method":"GET"}', "bad_method"),
        (b'{"id":"a","prompt":"x","labels":{"k":1}}', "bad_labels"),
        (b'{"id":"a","prompt":"x","labels":["k"]}', "bad_labels"),
        (b'{"id":"a","prompt":"x","labels":{"k":"' + b"v" * 17_000 + b'"}}', "bad_labels"),
        (b'{"id":"a","body":{"model":"m","stream":true}}', "stream"),
        (b'{"id":"a","body":{"model":null}}', "bad_model"),
        (b'{"id":"a","body":{"model":["m"]}}', "bad_model"),
        (b'{"id":"a","body":{"model":"m","x":' + b"[" * 5000 + b"]" * 5000 + b"}}", "too_deep"),
        (b'{"id":"a","body":{"model":"m","x":' + b"[" * 300 + b"]" * 300 + b"}}", "too_deep"),
    ],
)
def test_a_line_that_cannot_be_sent_is_rejected_with_its_reason(line: bytes, code: str) -> None:
    spooled = spool([batch_line("before"), line, batch_line("after")], model="m")
    assert rejections(spooled) == [(2, code)]
    assert spooled.groups[0].requests == 2
    assert "line 2: " in spooled.problems[0]
    assert spooled.problems[0].encode()


@pytest.mark.parametrize(
    ("key", "told"),
    [("lables", "unknown key 'lables' (did you mean 'labels'?): "), ("temperature", "unknown key 'temperature': ")],
)
def test_a_misspelt_key_of_a_line_is_told_with_the_likeliest_one(key: str, told: str) -> None:
    spooled = spool([json.dumps({"id": "a", "prompt": "x", key: {}}).encode()], model="m")
    assert told in spooled.problems[0]


def test_a_body_without_a_model_takes_the_default_or_is_rejected_with_a_way_out() -> None:
    line = b'{"id":"a","body":{"messages":[],"seed":3}}'
    assert bodies(spool([line], model="gpt-x")) == [b'{"model":"gpt-x","messages":[],"seed":3}']
    spooled = spool([line])
    assert spooled.problems[0].startswith("line 1: no model: add one to the body or pass --model")


@pytest.mark.parametrize(
    ("endpoint", "line", "body"),
    [
        ("/v1/chat/completions", {"prompt": "hi"}, {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/chat/completions", {"prompt": ""}, {"messages": [{"role": "user", "content": ""}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, None),
        ("/v1/responses", {"prompt": "hi"}, {"input": "hi"}),
        ("/v1/responses", {"input": "hi"}, {"input": "hi"}),
        (
            "/v1/responses",
            {"messages": [{"role": "user", "content": "hi"}]},
            {"input": [{"role": "user", "content": "hi"}]},
        ),
        ("/v1/completions", {"prompt": "hi"}, {"prompt": "hi"}),
        ("/v1/embeddings", {"input": ["a", "b"]}, {"input": ["a", "b"]}),
        ("/v1/moderations", {"input": "hi"}, {"input": "hi"}),
    ],
)
def test_a_short_line_becomes_the_body_of_its_endpoint(
    endpoint: str, line: dict[str, Any], body: dict[str, Any] | None
) -> None:
    by_default = spool([short(id="a", **line)], model="m", endpoint=endpoint)
    by_line = spool([short(id="a", url=endpoint, **line)], model="m")
    assert orjson.loads(bodies(by_default)[0]) == {"model": "m", **(line if body is None else body)}
    assert canonical(by_default) == canonical(by_line)
    assert orjson.loads(canonical(by_line)[0])["endpoint"] == endpoint


def test_the_canonical_line_has_its_keys_in_order_and_labels_only_if_there_are_any() -> None:
    spooled = spool(
        [
            short(labels={"team": "é"}, prompt="x", id="a"),
            short(id="b", labels={}, prompt="x", url="/chat/completions"),
        ],
        model="m",
    )
    assert canonical(spooled) == [
        '{"id":"a","endpoint":"/v1/chat/completions","labels":{"team":"é"},'
        '"body":{"model":"m","messages":[{"role":"user","content":"x"}]}}\n'.encode(),
        b'{"id":"b","endpoint":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}]}}\n',
    ]


def test_IV_13_requests_are_grouped_by_endpoint_and_model() -> None:
    lines = [short(id=f"{n}", body={"model": f"m{n % 2}", "input": "x", "max_output_tokens": 7}) for n in range(6)]
    spooled = spool(lines, endpoint="/v1/responses")
    assert [(group.model, group.requests, group.max_output_tokens) for group in spooled.groups] == [
        ("m0", 3, 21),
        ("m1", 3, 21),
    ]
    assert [int(row["group"]) for row in spooled.rows(0)] == [0, 1, 0, 1, 0, 1]
    assert sum(group.bytes for group in spooled.groups) == sum(map(len, bodies(spooled)))


def test_IV_16_sizes_are_bytes_after_encoding() -> None:
    spooled = spool([batch_line("a", "日本語" * 40)], segment_bytes=1)
    row = spooled.rows(0)[0]
    assert int(row["size"]) == len(canonical(spooled)[0])
    assert spooled.groups[0].bytes == len(bodies(spooled)[0]) > 360
    assert spooled.groups[0].tokens == int(row["tokens"]) == 360 // 4 + 1


def test_a_segment_is_closed_by_count_or_by_bytes_whichever_comes_first() -> None:
    lines = [batch_line(f"{n}") for n in range(10)]
    assert [segment.requests for segment in spool(lines, segment_requests=4).segments] == [4, 4, 2]
    size = len(canonical(spool(lines[:1]))[0])
    assert [segment.requests for segment in spool(lines, segment_bytes=3 * size).segments] == [3, 3, 3, 1]


def test_attachments_count_at_a_flat_rate_and_output_limits_times_choices() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    message = {"role": "user", "content": [{"type": "text", "text": "what is this"}, image]}
    spooled = spool([short(id="a", body={"model": "m", "messages": [message], "n": 3, "max_tokens": 10})])
    assert 1000 <= spooled.tokens < 1100
    assert spooled.max_output_tokens == 30


def test_sources_may_be_a_path_a_file_pieces_or_requests(tmp_path: Path) -> None:
    data = batch_line("a") + b"\n" + batch_line("b")
    (tmp_path / "in.jsonl").write_bytes(data)
    requests = [Request(id=n, body=orjson.loads(batch_line(n))["body"]) for n in "ab"]
    prints = set()
    source: Any
    for number, source in enumerate(
        [tmp_path / "in.jsonl", io.BytesIO(data), [data], iter([data[:30], data[30:]]), requests]
    ):
        spooled = spool_requests(source, tmp_path / str(number), provider="openai")
        assert (spooled.requests, spooled.rejected) == (2, 0)
        prints.add(spooled.fingerprint)
    assert len(prints) == 1


def test_requests_made_in_python_are_checked_like_lines() -> None:
    good = {"model": "m", "messages": []}
    requests = [
        Request(id="a", body=good),
        Request(id=" ", body=good),
        Request(id="a", body=good),
        Request(id="n", body={**good, "temperature": float("nan")}),
        Request(id="o", body={**good, "x": object()}),
        Request(id="e", endpoint="/v1/nowhere", body=good),
        Request(id="m", body={"messages": []}),
        Request(id="big", body={**good, "seed": 2**80}),
        Request(id="half", body={**good, "half": "\ud800"}),
    ]
    spooled = spool_requests(requests, spool(b"").directory / "python", provider="openai")
    assert rejections(spooled) == [
        (2, "no_id"),
        (3, "duplicate_id"),
        (4, "bad_body"),
        (5, "bad_body"),
        (6, "unknown_endpoint"),
        (7, "no_model"),
        (9, "bad_body"),
    ]
    assert json.loads(bodies(spooled)[7]) == {**good, "seed": 2**80}


def test_a_rejected_line_keeps_its_id_where_it_has_one() -> None:
    spooled = spool([b'{"id":"known","prompt":7}', b"{broken", b'{"id":7,"prompt":"x"}'], model="m")
    assert [orjson.loads(line)["id"] for line in canonical(spooled)] == ["known", None, None]


def test_an_unknown_default_endpoint_and_a_used_folder_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="endpoint"):
        spool([batch_line("a")], endpoint="/v1/nowhere")
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(UsageError, match="not empty"):
        spool_requests([], tmp_path, provider="openai")


def test_the_heartbeat_tells_how_many_lines_were_read() -> None:
    beats: list[int] = []
    spool([batch_line(f"{n}") for n in range(20_000)], heartbeat=beats.append)
    assert beats[:2] == [8192, 16384]
    assert beats[-1] == 20_000


SCRAPS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\u", b"\\ud800", b"null", b"1e999", b"-", b"\n", b"\r", b" ", b"\xff", b"\xef\xbb\xbf",
     b'"id"', b'"custom_id"', b'"body"', b'"model"', b'"prompt"', b'"messages"', b'"labels"', b'"url"', b"{}", b"[]", b"\x00", b"\xe2\x80\xa8"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    scraps=st.lists(st.one_of(SCRAPS, st.binary(max_size=6)), max_size=30),
    cuts=st.lists(st.integers(0, 200), max_size=4),
    limit=st.sampled_from([10, 60, 10_000]),
)
def test_no_input_crashes_intake_and_every_line_that_is_not_blank_has_an_index(
    scraps: list[bytes], cuts: list[int], limit: int
) -> None:
    line = batch_line("whole")
    at = cuts[0] % len(line) if cuts else 0
    data = line + b"\n" + b"".join(scraps) + b"\n" + line[:at] + b"".join(scraps) + line[at:]
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[i:j] for i, j in pairwise(edges)]
    folder = Path(tempfile.mkdtemp())
    spooled = spool_requests(pieces, folder, provider="openai", model="m", max_line_bytes=limit)
    expected = [n for n, one in enumerate(data.split(b"\n"), 1) if one.strip() or len(one) > limit]
    rows = [int(row["line"]) for segment in range(len(spooled.segments)) for row in spooled.rows(segment)]
    assert rows == expected
    assert spooled.requests == len(expected) == spooled.rejected + sum(group.requests for group in spooled.groups)
    assert [one.index for one in spooled.rejected_lines()] == sorted({one.index for one in spooled.rejected_lines()})
    for canonical_line in canonical(spooled):
        assert canonical_line.count(b"\n") == 1
        json.loads(canonical_line)
