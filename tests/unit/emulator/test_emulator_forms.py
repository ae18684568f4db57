"""Multipart forms, cut into chunks anywhere."""

import asyncio
import itertools

import pytest
from groupage.emulator.multipart import BadForm, FormTooLarge, read_form
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TYPE = "multipart/form-data; boundary=edge"


def form(file, *, name="file", purpose="batch"):
    return (
        b'--edge\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n' + purpose.encode() + b"\r\n"
        b'--edge\r\nContent-Disposition: form-data; name="' + name.encode() + b'"; filename="in.jsonl"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + file + b"\r\n--edge--\r\n"
    )


def read(chunks, path, max_bytes=10**6):
    async def stream():
        for chunk in chunks:
            yield chunk

    return asyncio.run(read_form(stream(), TYPE, path, max_bytes))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    pieces=st.lists(
        st.sampled_from([b"\r\n", b"--edge", b"\r\n--edg", b"-", b"\n", b"x" * 70, b"\r\n--", b""]), max_size=9
    ),
    cuts=st.lists(st.integers(0, 800), max_size=12),
)
def test_a_file_arrives_byte_for_byte_however_the_stream_is_cut(tmp_path, pieces, cuts):
    file = b"".join(pieces)
    while b"\r\n--edge" in file:
        # What is left may join to another one.
        file = file.replace(b"\r\n--edge", b"")
    data = form(file)
    edges = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    chunks = [data[start:end] for start, end in itertools.pairwise(edges)]
    path = tmp_path / "file"
    result = read(chunks, path)
    assert path.read_bytes() == file
    assert (result.size, result.filename, result.fields) == (len(file), "in.jsonl", {"purpose": "batch"})


def test_one_byte_at_a_time(tmp_path):
    data = form(b"a\r\n-\r\n--edgy")
    read([data[at : at + 1] for at in range(len(data))], tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"a\r\n-\r\n--edgy"


def test_a_form_that_ends_early_is_refused(tmp_path):
    with pytest.raises(BadForm, match="ends before"):
        read([form(b"abc")[:-6]], tmp_path / "file")


def test_a_file_over_the_limit_is_refused(tmp_path):
    with pytest.raises(FormTooLarge):
        read([form(b"x" * 1000)], tmp_path / "file", max_bytes=999)


def test_what_is_no_form_is_refused(tmp_path):
    with pytest.raises(BadForm):
        read([b"hello there, this is no form at all"], tmp_path / "file")
