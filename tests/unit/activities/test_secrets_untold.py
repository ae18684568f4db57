"""No key, header or password gets into an error, a log or a result, whatever is wrong with it and whoever quotes it."""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from groupage.activities.failures import reported
from groupage.activities.providers.base import BatchProvider, SyncCall
from groupage.activities.providers.call_errors import connection_failed
from groupage.activities.registry import ADAPTERS
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass
from groupage.schemas.errors import GroupageError, ProviderError
from groupage.schemas.secrets import HIDDEN, know, redacted, tells_a_secret
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

SECRET = "kX7-untold-94f1c2"
BATCH = "/v1/chat/completions"
MODELS = {"anthropic": "claude-sonnet-5", "gemini": "gemini-2.5-flash", "vertex": "gemini-2.5-flash"}
SENT_AS_WRITTEN = [f"{SECRET}\n", f" {SECRET}\r\n", f"{SECRET} "]
CANNOT_BE_SENT = [f"{SECRET}\nand-more", f"{SECRET} and-more", f"{SECRET}é", f"{SECRET}\0"]
KEYS = {"openai": "OPENAI_API_KEY", "azure": "AZURE_OPENAI_API_KEY", "azure/2024-10-21": "AZURE_OPENAI_API_KEY",
        "anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}  # fmt: skip
"""Where the key stands; Bedrock and Vertex have none."""


class Server:
    """Notes the headers that come, and refuses everybody with a message that quotes them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                seen.append(str(self.headers))
                told = {"code": 401, "message": f"who is {self.headers}?", "type": "authentication_error"}
                content = orjson.dumps({"type": "error", "error": told})
                self.send_response(401)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - the library's name

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    for name in (
        "ANTHROPIC_AUTH_TOKEN",
        "GOOGLE_API_KEY",
        "AZURE_OPENAI_AD_TOKEN",
        "AWS_PROFILE",
        "OPENAI_API_VERSION",
    ):
        monkeypatch.delenv(name, raising=False)
    usual = {
        "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true",
    } | dict.fromkeys(KEYS.values(), "usual")  # fmt: skip
    for name, value in usual.items():
        monkeypatch.setenv(name, value)


def adapter(label: str, server: Server, **given: Any) -> BatchProvider:
    name, _, version = label.partition("/")
    options = {"api_version": version} if version else {}
    if name == "vertex":
        options = {"project": "my-project", "location": "us-central1"}
    base_url = server.url + ("/v1" if name == "openai" else "")
    return ADAPTERS[name](name, ProviderSettings(base_url=base_url, options=options, **given))


async def told(label: str, make: Callable[[], BatchProvider]) -> list[tuple[ErrorClass | None, str, str]]:
    """(class, code, all that a traceback or a result would show) of an adapter that is made, asked, and asked by sync."""
    found: list[tuple[ErrorClass | None, str, str]] = []
    try:
        provider = make()
    except ProviderError as error:
        return [(error.error_class, error.code, _shown(error))]
    model = MODELS.get(label, "amazon.nova-lite-v1:0" if label == "bedrock" else "gpt-4o-mini")
    body = orjson.dumps({"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 5})
    batch = "projects/p/locations/us-central1/batchPredictionJobs/1" if label == "vertex" else "b1"
    try:
        await provider.status("batches/b1" if label == "gemini" else batch)
    except ProviderError as error:
        found.append((error.error_class, error.code, _shown(error)))
    answer = await provider.complete(SyncCall("w", BATCH, body, 10.0))
    found.append((answer.error_class, answer.code, repr(answer)))
    await provider.close()
    return found


def _shown(error: ProviderError) -> str:
    """What is told of it, with the causes that our logs would add."""
    chain = "" if tells_a_secret(error) else "".join(traceback.format_exception(error))
    return f"{error!r} {error} {error.hint} {getattr(error, '__notes__', '')} {chain}"


@pytest.mark.parametrize("label", KEYS)
async def test_a_key_is_sent_without_the_line_end_or_blanks_around_it(
    label: str, server: Server, monkeypatch: pytest.MonkeyPatch
):
    for written in SENT_AS_WRITTEN:
        for given in ({"api_key": written}, {}):
            monkeypatch.setenv(KEYS[label], written if not given else "other")
            server.seen.clear()
            found = await told(label, lambda given=given: adapter(label, server, **given))  # type: ignore[misc]
            assert server.seen
            assert all(SECRET in headers for headers in server.seen)
            # The server quotes what it was sent.
            assert [(each, SECRET in text, HIDDEN in text) for each, _, text in found] == [
                (ErrorClass.account, False, True)
            ] * 2


@pytest.mark.parametrize("label", KEYS)
@pytest.mark.parametrize("written", CANNOT_BE_SENT)
async def test_a_key_that_no_header_can_carry_is_refused_by_the_name_of_its_setting(
    label: str, written: str, server: Server, monkeypatch: pytest.MonkeyPatch
):
    server.seen.clear()
    if "\0" not in written:
        monkeypatch.setenv(KEYS[label], written)
    ways = [("api_key", {"api_key": written})] + ([] if "\0" in written else [(KEYS[label], {})])
    for named, given in ways:
        found = await told(label, lambda given=given: adapter(label, server, **given))  # type: ignore[misc]
        assert found
        for error_class, code, text in found:
            assert (error_class, code) == (ErrorClass.account, "configuration")
            assert named in text
            assert SECRET not in text
    assert server.seen == []


@pytest.mark.parametrize("label", [*KEYS, "vertex", "bedrock"])
@pytest.mark.parametrize("value", CANNOT_BE_SENT[::2])
async def test_a_header_that_cannot_be_sent_is_refused_by_its_name(label: str, value: str, server: Server):
    value = value.replace(" ", "\n")
    found = await told(label, lambda: adapter(label, server, extra_headers={"x-gateway": value}))
    assert [(each, code) for each, code, _ in found] == [(ErrorClass.account, "configuration")]
    assert "x-gateway" in found[0][2]
    assert SECRET not in found[0][2]


@pytest.mark.parametrize("label", [*KEYS, "vertex"])
async def test_what_a_gateway_says_of_our_headers_is_told_without_them(label: str, server: Server):
    found = await told(label, lambda: adapter(label, server, extra_headers={"x-gateway-token": f" {SECRET}\n"}))
    assert found
    assert all(SECRET not in text for _, _, text in found)
    assert any(SECRET in headers for headers in server.seen)


async def test_a_session_token_of_AWS_that_cannot_be_sent_is_not_told(server: Server, monkeypatch: pytest.MonkeyPatch):
    for token, codes in ((f"{SECRET}\nx", ["configuration"] * 2), (f"{SECRET}ł", ["401"] * 2)):
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        found = await told("bedrock", lambda: adapter("bedrock", server))
        assert [(each, code) for each, code, _ in found] == [(ErrorClass.account, code) for code in codes]
        assert all(SECRET not in text for _, _, text in found)


def test_what_AWS_says_of_a_signature_is_told_without_the_headers_it_repeats():
    from botocore.exceptions import ClientError
    from groupage.activities.providers.bedrock_errors import translate

    message = (
        "The request signature we calculated does not match.\n\nThe Canonical String for this request should have "
        "been\n'POST\n/model\n\nx-amz-security-token:IQoJb3JpZ2luX2VjEA4aCXVzLWVhc3Qt\n'"
    )
    answer: Any = {"Error": {"Code": "InvalidSignatureException", "Message": message}, "ResponseMetadata": {}}
    error = translate(ClientError(answer, "GetModelInvocationJob"), "status of b1")
    assert error is not None
    assert "does not match" in str(error)
    assert "IQoJb3" not in str(error)


def test_what_libraries_quote_is_left_out_though_nobody_knows_the_secret():
    import httpx2
    from groupage.activities.providers.vertex_errors import translate
    from requests.exceptions import InvalidHeader

    quoted = [
        httpx2.LocalProtocolError("Illegal header value b'Bearer t0ken-of-an-identity\\n'"),
        httpx2.InvalidURL("Invalid port: 't0ken-of-an-identity@host'"),
        UnicodeEncodeError("ascii", "t0ken-of-an-identityé", 20, 21, "ordinal not in range(128)"),
    ]
    errors = [connection_failed(each, "status of b1", str(each), timed_out=False) for each in quoted]
    told_by_requests = "Invalid leading whitespace, or return character(s) in header value: 't0ken-of-an-identity\\n'"
    errors.append(translate(InvalidHeader(told_by_requests), "status of b1"))
    for error in errors:
        assert error is not None
        assert (error.error_class, error.code) == (ErrorClass.account, "configuration")
        assert "t0ken" not in f"{error} {error.hint}"
    assert "t0ken" not in redacted(told_by_requests + str(quoted[0]) + 'Invalid header value b"t0ken-\'of\\n"')
    assert redacted("refused: Bearer eyJhbGciOiJSUzI1NiIsInR5cCI6Ik") == f"refused: Bearer {HIDDEN}"
    assert redacted("Bearer authentication is needed") == "Bearer authentication is needed"


@pytest.mark.parametrize("label", KEYS)
async def test_a_line_end_after_an_address_is_no_part_of_it(label: str, server: Server):
    server.seen.clear()
    name, _, _ = label.partition("/")
    provider = adapter(label, server)
    settings = provider._settings  # type: ignore[attr-defined]
    found = await told(label, lambda: ADAPTERS[name](name, replace(settings, base_url=f"{settings.base_url}\n")))
    assert [each for each, _, _ in found] == [ErrorClass.account] * 2
    assert server.seen


def test_passwords_in_addresses_are_hidden():
    from groupage.activities.providers.azure_options import read_address
    from groupage.activities.providers.compatibility import compatibility_of

    settings = ProviderSettings(base_url="ftp://user:pa55word-94f1@host/v1", api_key="k")
    assert "pa55word" not in repr(settings)
    with pytest.raises(ProviderError, match="host/v1") as caught:
        read_address(settings, compatibility_of("azure", settings))
    assert "pa55word" not in str(caught.value)


def test_an_error_of_ours_never_tells_what_is_known():
    know(f"{SECRET}\n")
    error = GroupageError(f"refused: {SECRET}", hint=f"look at {SECRET}")
    assert SECRET not in f"{error}{error.hint}{error.__notes__}"
    assert redacted(repr(f'{{"key": "{SECRET}\n"}}'.encode())) == f'b\'{{"key": "{HIDDEN}\\n"}}\''


def test_activities_neither_raise_nor_log_what_a_library_quotes(caplog: pytest.LogCaptureFixture):
    know(SECRET)
    caplog.set_level(logging.INFO)

    def ours() -> None:
        cause = ValueError(f"Illegal header value b'Bearer {SECRET}'")
        raise ProviderError("it failed", error_class=ErrorClass.transient) from cause

    def unexpected() -> None:
        group = ExceptionGroup("unhandled", [KeyError(f"{SECRET}")])
        raise RuntimeError("cannot go on") from group

    def harmless() -> None:
        raise RuntimeError("cannot go on")

    def run(fail: Callable[[], None]) -> None:
        with reported():
            fail()

    raised = []
    for fail in (ours, unexpected, harmless):
        with pytest.raises(Exception) as caught:
            ActivityEnvironment().run(run, fail)
        raised.append(caught.value)
    assert [type(each) for each in raised] == [ApplicationError, ApplicationError, RuntimeError]
    assert raised[1].type == "RuntimeError"
    shown = "".join("".join(traceback.format_exception(each)) for each in raised)
    assert "it failed" in shown
    assert SECRET not in shown + caplog.text
