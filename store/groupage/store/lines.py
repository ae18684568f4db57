"""Physical lines of an input, from bytes in pieces. Splits on 0x0A only: U+2028, U+0085 and their kind
are legal inside JSON strings (docs/cases.md RP-01).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

BOM = b"\xef\xbb\xbf"
READ_BYTES = 1 << 20
_HEAD_KEPT = 256


@dataclass(frozen=True, slots=True)
class LongLine:
    """Stands for a line over the limit: its first bytes and its size. The rest was not kept."""

    head: bytes
    size: int


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(READ_BYTES):
        yield chunk


def physical_lines(chunks: Iterable[bytes], max_bytes: int, *, at_start: bool = True) -> Iterator[bytes | LongLine]:
    """Every line, blank ones included, without its newline; a byte order mark at the start is dropped. `at_start`:
    the input begins here.

    A last line without a newline is a line; nothing after the last newline is none. Memory: one piece
    and at most `max_bytes` of an unfinished line, however long it goes on.
    """
    rest: list[bytes] = []
    held = 0
    dropped = 0  # bytes of an over-long line seen so far, if we are in one
    head = b""
    for chunk in _without_bom(chunks) if at_start else chunks:
        first, *others = chunk.split(b"\n")
        if dropped:
            dropped += len(first)
        else:
            rest.append(first)
            held += len(first)
            if held > max_bytes:
                head, dropped = b"".join(rest)[:_HEAD_KEPT], held
                rest, held = [], 0
        if not others:
            continue
        yield LongLine(head, dropped) if dropped else b"".join(rest)
        last = others.pop()
        if max_bytes < len(chunk):
            for line in others:
                yield line if len(line) <= max_bytes else LongLine(line[:_HEAD_KEPT], len(line))
        else:
            yield from others
        rest, held, dropped = [last], len(last), 0
        if held > max_bytes:
            head, dropped = last[:_HEAD_KEPT], held
            rest, held = [], 0
    if dropped:
        yield LongLine(head, dropped)
    elif held:
        yield b"".join(rest)


def _without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    start = b""
    pieces = iter(chunks)
    for chunk in pieces:
        start += chunk
        if len(start) >= len(BOM):
            break
    if start:
        yield start.removeprefix(BOM)
    yield from pieces
