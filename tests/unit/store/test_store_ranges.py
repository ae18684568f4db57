"""A large file that several processes take in gives what one process makes of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from groupage.schemas.limits import SEGMENT_BYTES, SEGMENT_REQUESTS
from groupage.store import processes, spool, spooler
from groupage.store.intake import SpooledInput, spool_requests
from groupage.store.parsing import rules_of
from groupage.store.ranges import RangeOrder, file_identity, join, line_ranges, spool_range
from groupage.store.spooler import Spooler
from store_builders import batch_line, canonical

CHAT = "/v1/chat/completions"
LONG = 2000
LINES = [
    b"\xef\xbb\xbf" + batch_line("0", "a byte order mark"),
    batch_line("1"),
    b"",
    batch_line("2", "longer " * 60) + b"\r",
    b"\xef\xbb\xbf" + batch_line("3", "a mark that is none"),
    batch_line("4", model="another"),
    batch_line("1", "an id again"),
    b"no json",
    batch_line("5", "too long " * 2000),
    b"   ",
    batch_line("6", max_tokens=7, model="third"),
    b'{"id": "7", "prompt": "short", "labels": {"team": "a"}}',
    batch_line("4", "and again", n=3),
    batch_line("8", max_tokens=9),
]
INPUTS = {
    "lines": b"\n".join(LINES) + b"\n",
    "no newline at the end": b"\n".join(LINES),
    "blank": b"\n\n\n",
    "one line": batch_line("1"),
    "nothing": b"",
}


def told(spooled: SpooledInput) -> tuple[Any, ...]:
    """All that intake leaves, wherever segments end."""
    rows = [row for segment in range(len(spooled.segments)) for row in spooled.rows(segment).tolist()]
    refused = [rejected.model_dump() for rejected in spooled.rejected_lines()]
    return canonical(spooled), rows, spooled.groups, refused, spooled.fingerprint, spooled.requests, spooled.problems


def alone(path: Path, folder: Path) -> SpooledInput:
    return spool_requests(path, folder, provider="openai", model="m", max_line_bytes=LONG)


@pytest.mark.parametrize("size", [1, 50, 333, 1000, 5000, 10**9])
@pytest.mark.parametrize("name", INPUTS)
def test_ranges_of_any_size_join_to_the_whole(tmp_path: Path, name: str, size: int) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(INPUTS[name])
    spooled = SpooledInput(tmp_path / "ranges", "openai")
    spooled.directory.mkdir()
    lines = 0
    with Spooler(spooled, rules_of("openai"), SEGMENT_REQUESTS, SEGMENT_BYTES) as whole:
        for number, (start, end) in enumerate(line_ranges(path, size)):
            order = RangeOrder(
                path=str(path),
                file=file_identity(path.stat()),
                start=start,
                end=end,
                directory=str(tmp_path / f"range-{number}"),
                provider="openai",
                model="m",
                endpoint=CHAT,
                max_line_bytes=LONG,
                segment_requests=3,
                segment_bytes=SEGMENT_BYTES,
            )
            part = spool_range(order)
            join(whole, Path(order.directory), part, lines)
            lines += part.lines
        whole.finish(lambda _: None)
    assert told(spooled) == told(alone(path, tmp_path / "alone"))


@pytest.mark.parametrize("size", [1, 7, 100, 70_000])
def test_ranges_end_with_lines_and_leave_nothing_out(tmp_path: Path, size: int) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a\n" * 50 + b"b" * 200_000 + b"\n\nc\n" + b"d" * 99)
    ranges = list(line_ranges(path, size))
    data = path.read_bytes()
    assert b"".join(data[start:end] for start, end in ranges) == data
    assert all(data[end - 1 : end] == b"\n" for _, end in ranges[:-1])


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Any file is large, and a range some lines."""
    monkeypatch.setattr(spool, "WORTH_BYTES", 1)
    monkeypatch.setattr(spool, "RANGE_BYTES", 3000)
    path = tmp_path / "in.jsonl"
    path.write_bytes(INPUTS["lines"] + b"".join(batch_line(f"more-{n % 60}") + b"\n" for n in range(70)))
    return path


def by_processes(path: Path, folder: Path) -> SpooledInput:
    return spool_requests(path, folder, provider="openai", model="m", max_line_bytes=LONG, processes=2)


def test_two_processes_find_equal_ids_in_each_others_ranges(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = 0

    def counted(*arguments: Any) -> None:
        nonlocal joined
        joined += 1
        join(*arguments)

    monkeypatch.setattr(processes, "join", counted)
    spooled = by_processes(large, tmp_path / "two")
    assert joined > 3
    assert told(spooled) == told(alone(large, tmp_path / "alone"))
    codes = [rejected.code for rejected in spooled.rejected_lines()]
    assert codes.count("duplicate_id") == 12
    assert not list((tmp_path / "two").glob("range-*"))


def test_processes_that_end_too_early_leave_it_to_one(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = told(alone(large, tmp_path / "alone"))
    monkeypatch.setattr(processes.sys, "executable", shutil.which("false"))
    assert told(by_processes(large, tmp_path / "lost")) == expected
    monkeypatch.setattr(processes.sys, "executable", "/no/such/python")
    assert told(by_processes(large, tmp_path / "missing")) == expected
    monkeypatch.setattr(processes.sys, "executable", None)
    assert told(by_processes(large, tmp_path / "embedded")) == expected


@pytest.mark.parametrize("replaces", [True, False])
def test_a_file_that_changes_while_it_is_taken_in_is_no_mixture_of_two(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaces: bool
) -> None:
    new = tmp_path / "new.jsonl"
    new.write_bytes(b"".join(batch_line(f"new-{n}", "another file") + b"\n" for n in range(300)))

    def changed_after_the_cut(path: Path, size: int) -> list[tuple[int, int]]:
        ranges = list(line_ranges(path, size))
        if replaces:
            new.replace(path)
        else:
            os.truncate(path, path.stat().st_size - 5000)
        return ranges

    monkeypatch.setattr(processes, "line_ranges", changed_after_the_cut)
    assert told(by_processes(large, tmp_path / "two")) == told(alone(large, tmp_path / "alone"))


def test_more_models_than_a_job_may_have_are_refused_as_by_one_process(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooler, "GROUPS_MAX", 2)
    spooled = by_processes(large, tmp_path / "two")
    assert "too_many_models" in [rejected.code for rejected in spooled.rejected_lines()]
    assert told(spooled) == told(alone(large, tmp_path / "alone"))


def test_a_file_whose_name_is_no_text_is_taken_in(large: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    try:
        large.rename(odd)
    except OSError:
        pytest.skip("this file system takes no such name")
    assert told(by_processes(odd, tmp_path / "two")) == told(alone(odd, tmp_path / "alone"))


def test_a_process_ends_with_the_one_that_started_it() -> None:
    command = [sys.executable, "-P", "-m", "groupage.store.range_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
