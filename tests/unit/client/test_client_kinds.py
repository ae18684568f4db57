"""An input that is no JSON Lines at all is told once, with what to do."""

import gzip
import io
from pathlib import Path

import pytest
import zstandard
from groupage.client.submission import spooled_input
from groupage.schemas.errors import InputRefused, UsageError

LINE = '{"id": "1", "prompt": "hello"}\n'
ARRAY = b'\n [{"id": "1", "prompt": "x"},\n {"id": "2", "prompt": "y"}]\n'


@pytest.mark.parametrize(
    ("content", "said", "advice"),
    [
        # Without the moment at which it was packed: each process that collects the tests has to find the same ones.
        (gzip.compress(LINE.encode(), mtime=0), "compressed (gzip)", "gzip -dc"),
        (zstandard.ZstdCompressor().compress(LINE.encode()), "compressed (zstd)", "zstd -dc"),
        (LINE.encode("utf-16"), "UTF-16", "iconv"),
        (LINE.encode("utf-16-le"), "UTF-16", "iconv"),
        (LINE.encode("utf-16-be"), "UTF-16", "iconv"),
        (b"PAR1\x15\x04", "Parquet", "row"),
        (ARRAY, "one JSON array", "jq -c '.[]'"),
        (b"\xef\xbb\xbf" + ARRAY, "one JSON array", "jq -c '.[]'"),
        (b'{\n  "id": "1",\n  "prompt": "x"\n}\n', "over several lines", "jq -c ."),
        (b"id,prompt\n1,hello\n2,world\n", "table (CSV)", "object"),
    ],
)
@pytest.mark.parametrize("opened", [False, True])
async def test_a_file_of_another_kind_is_told_once(
    tmp_path: Path, content: bytes, said: str, advice: str, opened: bool
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    source = io.BufferedReader(io.BytesIO(content)) if opened else path  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        async with spooled_input(source, provider="openai", model="m"):
            pytest.fail("it was accepted")
    assert said in str(caught.value)
    assert advice in caught.value.hint
    assert "skip" not in caught.value.hint
    assert "line 1" not in str(caught.value)


@pytest.mark.parametrize("content", [b'{"id": "1"}\n{"id": "2"}\n', b'{"id": "a\tb", "prompt": "x"}\n{"id"\n'])
async def test_where_no_line_can_be_sent_skipping_is_not_advised(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputRefused, match="2 of 2 lines") as caught:
        async with spooled_input(path, provider="openai", model="m"):
            pytest.fail("it was accepted")
    assert caught.value.hint == "mend the lines"
    assert "at at" not in str(caught.value)


async def test_one_odd_line_is_still_only_one_line(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"[1]\n" + LINE.encode())
    with pytest.raises(InputRefused, match="1 of 2 lines") as caught:
        async with spooled_input(path, provider="openai", model="m"):
            pytest.fail("it was accepted")
    assert "--on-invalid skip" in caught.value.hint
    async with spooled_input(path, provider="openai", model="m", on_invalid="skip") as spooled:
        assert (spooled.requests, spooled.rejected) == (2, 1)
