"""What -o may be, and what happens to what is there already."""

import os
import stat
import threading
from pathlib import Path

import pytest
from groupage.cli.files import check_output, write_whole
from groupage.schemas.errors import GroupageError, UsageError

LINES = b'{"id":"1"}\n'


def write(output: object) -> None:
    write_whole(str(output), lambda file: file.write(LINES))


@pytest.mark.parametrize("how", ["same", "symlink", "hardlink", "dotted"])
def test_the_input_is_never_the_output(tmp_path: Path, how: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"requests\n")
    output = tmp_path / "out.jsonl"
    match how:
        case "symlink":
            output.symlink_to(source)
        case "hardlink":
            output.hardlink_to(source)
        case "dotted":
            output = tmp_path / "." / "in.jsonl"
        case _:
            output = source
    with pytest.raises(UsageError, match="the input itself"):
        check_output(str(output), str(source))
    check_output(str(tmp_path / "other.jsonl"), str(source))


def test_the_input_on_stdin_is_not_the_output_either(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"requests\n")
    kept = os.dup(0)
    given = os.open(source, os.O_RDONLY)
    try:
        os.dup2(given, 0)
        with pytest.raises(UsageError, match="the input itself"):
            check_output(str(source), "-")
        check_output(str(tmp_path / "other.jsonl"), "-")
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(given)


def test_results_on_stdout_are_not_added_to_the_input(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"requests\n")
    with capfd.disabled():
        kept = os.dup(1)
        given = os.open(source, os.O_WRONLY | os.O_APPEND)
        try:
            os.dup2(given, 1)
            with pytest.raises(UsageError, match="the input itself"):
                check_output("-", str(source))
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(given)


def test_a_symlink_stays_one_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "real.jsonl"
    link = tmp_path / "link.jsonl"
    link.symlink_to("there/real.jsonl")
    for _ in range(2):
        # The first time it leads to nothing yet.
        check_output(str(link))
        write(link)
        assert link.is_symlink()
        assert target.read_bytes() == LINES
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["real.jsonl"]


def test_a_named_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    check_output(str(pipe))
    write(pipe)
    reader.join(10)
    assert read == [LINES]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="devices are made by root only")
def test_a_device_is_written_into_and_stays_one(tmp_path: Path) -> None:
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        null.write_bytes(b"")
    except PermissionError:
        pytest.skip("devices cannot be made or used here")
    write(null)
    with pytest.raises(GroupageError, match="No space left"):
        write(full)
    assert stat.S_ISCHR(null.stat().st_mode)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "null"]


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_an_open_descriptor_is_written_where_it_stands(tmp_path: Path, form: str) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"before\n")
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        output = form.format(descriptor)
        check_output(output)
        write(output)
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)
    assert file.read_bytes() == b"before\n" + LINES + b"after\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_process_substitution_is_a_descriptor_that_is_a_pipe() -> None:
    reading, writing = os.pipe()
    try:
        check_output(f"/dev/fd/{writing}")
        write(f"/dev/fd/{writing}")
        assert os.read(reading, 100) == LINES
    finally:
        os.close(reading)
        os.close(writing)


def test_a_file_that_only_its_owner_may_read_stays_so(tmp_path: Path) -> None:
    output = tmp_path / "private.jsonl"
    output.write_bytes(b"before")
    output.chmod(0o600)
    write(output)
    assert output.read_bytes() == LINES
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


def test_what_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="the name is empty"):
        check_output("")
    with pytest.raises(UsageError, match="there is no directory") as missing:
        check_output(str(tmp_path / "missing" / "out.jsonl"))
    assert missing.value.hint == "make the directory"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="no permission") as forbidden:
        check_output(str(tmp_path / "out.jsonl"))
    assert "make the directory" not in forbidden.value.hint
    (tmp_path / "kept.jsonl").write_bytes(b"")
    with pytest.raises(UsageError, match="may not be written"):
        check_output(str(tmp_path / "kept.jsonl"))


def test_at_the_end_the_error_says_where_the_results_are(tmp_path: Path) -> None:
    with pytest.raises(GroupageError, match="cannot be written") as error:
        write_whole(str(tmp_path / "gone" / "out.jsonl"), lambda _: 0, hint="`groupage results k -o OUT.jsonl`")
    assert error.value.hint == "`groupage results k -o OUT.jsonl`"
