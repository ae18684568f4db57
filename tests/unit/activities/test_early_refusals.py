"""QU-07: a 413 that comes while a body is on its way, from a server that then closes the connection and is gone."""

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from groupage.activities.providers import early_refusals
from groupage.activities.providers.base import Submission
from groupage.activities.registry import ADAPTERS
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError

TAG = "gabcdef-abcdefghijklm-r0-s0"
LARGE, SMALL = 30_000_000, 900_000
PAGE = b"<html><head><title>413 Request Entity Too Large</title></head></html>"
REPLY = b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(PAGE), PAGE)


class Server:
    """Answers each connection as soon as it has the headers, takes none of the body, and closes."""

    def __init__(self, reply: bytes) -> None:
        self.reply, self.asked = reply, 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    data = connection.recv(1024)
                    if not data:
                        break
                    head += data
                if head.startswith(b"STOP"):
                    return
                self.asked += 1
                connection.sendall(self.reply)

    def close(self) -> None:
        with socket.create_connection(self._socket.getsockname()) as last:
            last.sendall(b"STOP\r\n\r\n")
            self._thread.join()
        self._socket.close()


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], Server]]:
    made: list[Server] = []

    def start(reply: bytes) -> Server:
        made.append(Server(reply))
        return made[-1]

    yield start
    for server in made:
        server.close()


async def sent(name: str, url: str, path: Path, size: int) -> ProviderError:
    """What submitting a body of that size fails for: of an upload, or of a create call that carries it."""
    with path.open("wb") as file:
        file.truncate(size)
    provider = ADAPTERS[name](name, ProviderSettings(base_url=url, api_key="a-key-of-ours"))
    submission = Submission(TAG, "/v1/chat/completions", "m", path, 1, datetime.now(UTC))
    with pytest.raises(ProviderError) as raised:
        await provider.create(submission, await provider.upload(submission))
    await provider.close()
    return raised.value


@pytest.mark.parametrize("name", ["openai", "azure", "anthropic"])
async def test_QU_07_a_body_that_is_refused_while_it_is_on_its_way_is_too_large(serve, tmp_path, monkeypatch, name):
    monkeypatch.setattr(early_refusals, "PATIENCE_S", 0.2)
    error = await sent(name, serve(REPLY).url, tmp_path / "body", LARGE)
    assert (error.error_class, error.status) == (ErrorClass.too_large, 413), error
    assert not isinstance(error, AmbiguousCreate)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize(("size", "asked"), [(LARGE, 2), (SMALL, 1)])
async def test_a_connection_that_broke_without_a_word_stays_what_it_is(serve, tmp_path, monkeypatch, name, size, asked):
    monkeypatch.setattr(early_refusals, "PATIENCE_S", 0.2)
    server = serve(b"")
    error = await sent(name, server.url, tmp_path / "body", size)
    assert (error.error_class, error.code) == (ErrorClass.transient, "connection_lost"), error
    assert isinstance(error, AmbiguousCreate) is (name == "anthropic")
    assert server.asked == asked
