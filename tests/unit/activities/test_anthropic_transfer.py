"""The head of a results file, in whatever pieces it comes: whose batch it is."""

import time

import orjson
import pytest
from groupage.activities.providers.anthropic_transfer import first_wire_id

WIRE = "gabcdef-abcdefghijklm-r0-s0-7"
PIECE = 1 << 16


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


async def test_a_line_four_times_as_long_takes_some_four_times_as_long():
    """Not sixteen times: it is read in the event loop."""

    async def seconds(size: int) -> float:
        body = Body(line(text="a" * size), PIECE)
        best = 60.0
        for _ in range(2):
            began = time.process_time()
            assert await first_wire_id(body, "x") == WIRE
            best = min(best, time.process_time() - began)
        return best

    assert await seconds(24 << 20) < 9 * await seconds(6 << 20)
