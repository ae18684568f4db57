"""The head of a results file, in whatever pieces it comes: whose batch it is."""

import orjson
import pytest
from groupage.activities.providers.anthropic_transfer import first_wire_id

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"


class Body:
    """A response's body in pieces."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    async def aiter_bytes(self):
        for at in range(0, len(self._data), self._size):
            yield self._data[at : at + self._size]


def line(wire_id=WIRE, text="yes"):
    message = {"content": [{"type": "text", "text": text}], "role": "assistant"}
    return orjson.dumps({"custom_id": wire_id, "result": {"type": "succeeded", "message": message}})


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize("end", [b"\n", b""])
async def test_the_first_id_is_found_however_the_body_is_cut(size, end):
    body = b"\n".join((b"", b"no json", line(None), line(), line("another"))) + end
    assert await first_wire_id(Body(body, size), "x") == WIRE
    assert await first_wire_id(Body(line() + end, size), "x") == WIRE
    assert await first_wire_id(Body(b"no json\n{}" + end, size), "x") == ""


async def test_a_long_line_is_not_copied_anew_for_each_of_its_pieces():
    """It is read in the event loop: a line of 30 MB would hold it for ten seconds."""

    class Piece(bytes):
        def __radd__(self, before):
            assert isinstance(before, bytearray), "what came before is copied for this piece"
            before.extend(self)
            return before

    class Pieces(Body):
        async def aiter_bytes(self):
            async for piece in super().aiter_bytes():
                yield Piece(piece)

    assert await first_wire_id(Pieces(line(text="a" * 1000), 10), "x") == WIRE
