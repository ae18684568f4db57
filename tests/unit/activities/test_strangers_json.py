"""What servers show of others, or quote in errors, may hold half a surrogate pair: it stops nothing of ours."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from groupage.activities.failures import reported
from groupage.activities.registry import ADAPTERS
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

TAG = "gabcdef-abcdefghijklm-r0-s0"
OPENAI = (
    r'{"data":[{"id":"theirs","status":"completed","created_at":1,"metadata":{"note":"cut \ud83d"}},'
    r'{"id":"ours","status":"completed","created_at":1,"metadata":{"groupage_tag":"%s"}}],"has_more":false}'
)
GEMINI = (
    r'{"operations":[{"name":"theirs","metadata":{"displayName":"cut \ud83d","state":"BATCH_STATE_RUNNING"}},'
    r'{"name":"ours","metadata":{"displayName":"%s","state":"BATCH_STATE_RUNNING"}}]}'
)
ERROR = rb'{"type":"error","error":{"type":"invalid_request_error","code":"odd \ud83d","message":"no \"\ud83d\""}}'

Serve = Callable[[int, bytes], str]


@contextmanager
def serving(status: int, content: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda status, content: stack.enter_context(serving(status, content))


@pytest.mark.parametrize(("name", "listing"), [("openai", OPENAI), ("azure", OPENAI), ("gemini", GEMINI)])
async def test_PO_10_half_a_surrogate_pair_in_what_is_not_ours_does_not_hide_a_batch(serve, name, listing):
    url = serve(200, (listing % TAG).encode())
    provider = ADAPTERS[name](name, ProviderSettings(base_url=url, api_key="a-key-of-ours"))
    found = await provider.find(TAG, since=None, not_ids=())
    await provider.close()
    assert found is not None
    assert (found.batch_id, found.tag) == ("ours", TAG)


@pytest.mark.parametrize("name", ["openai", "azure", "anthropic", "gemini"])
async def test_an_error_that_quotes_half_a_surrogate_pair_reaches_temporal(serve, name):
    provider = ADAPTERS[name](name, ProviderSettings(base_url=serve(400, ERROR), api_key="a-key-of-ours"))

    async def look() -> None:
        with reported():
            await provider.status("batch_1")

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(look)
    await provider.close()
    failure = Failure()
    await pydantic_data_converter.encode_failure(raised.value, failure)
    assert "status" in failure.message
    assert 'no "' in failure.message


def test_text_that_no_message_can_hold_is_told_without_it():
    error = ProviderError("no \ud83d, 😀", error_class=ErrorClass.invalid, code="odd \ud83d")
    assert (str(error), error.code) == ("no ?, 😀", "odd ?")
