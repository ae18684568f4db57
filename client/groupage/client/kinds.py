"""What an input is that is no JSON Lines, said once for the file instead of once for each of its lines."""

from pathlib import Path
from typing import Any

HEAD_BYTES = 4096

_PACKED = {
    b"\x1f\x8b": ("gzip", "gzip -dc"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"\xfd7zXZ\x00": ("xz", "xz -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PARQUET = b"PAR1"
_UTF_8_MARK = b"\xef\xbb\xbf"
_SEPARATORS = ",;\t"


def head_of(source: Any) -> bytes:
    """The first bytes of a file, or of an open one that can be looked into without reading on; else nothing."""
    if isinstance(source, Path):
        # A pipe or a device would lose what is read of it here.
        if not source.is_file():
            return b""
        with source.open("rb") as file:
            return file.read(HEAD_BYTES)
    peek = getattr(source, "peek", None)
    return bytes(peek(HEAD_BYTES)[:HEAD_BYTES]) if callable(peek) else b""


def binary_kind(head: bytes) -> tuple[str, str] | None:
    """What it is and what to do, where it can be no lines of text whatever follows."""
    for magic, (name, command) in _PACKED.items():
        if head.startswith(magic):
            return f"is compressed ({name}), not lines of JSON", f"unpack it first: `{command} FILE > in.jsonl`"
    if head.startswith(_PARQUET):
        return "is a Parquet file, not lines of JSON", "write each row as a JSON object on a line of its own"
    if head.startswith(_UTF_16) or (b"\x00" in head[:4] and b"{" in head[:4]):
        return "is UTF-16 or UTF-32, not UTF-8", "convert it: `iconv -f UTF-16 -t UTF-8 FILE > in.jsonl`"
    return None


def text_kind(head: bytes) -> tuple[str, str] | None:
    """The same for text of which no line can be sent: other JSON, or a table."""
    text = head.removeprefix(_UTF_8_MARK).decode(errors="replace").lstrip()
    first = text.partition("\n")[0].strip()
    if first.startswith("["):
        return (
            "is one JSON array, not one JSON object a line",
            "write its elements as lines: `jq -c '.[]' FILE > in.jsonl`",
        )
    if first.startswith("{") and not first.endswith("}") and "\n" in text:
        return "is JSON over several lines, not one object a line", "write each on one line: `jq -c . FILE > in.jsonl`"
    if first and "{" not in first and any(separator in first for separator in _SEPARATORS):
        return (
            "looks like a table (CSV), not one JSON object a line",
            'write each row as an object: {"id": "1", "prompt": "..."}',
        )
    return None
