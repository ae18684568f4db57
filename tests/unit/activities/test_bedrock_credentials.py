"""Credentials of AWS that are renewed in their file while a worker runs."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from groupage.activities.providers.base import SyncCall
from groupage.activities.providers.bedrock import BedrockProvider
from groupage.activities.settings import ProviderSettings
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError

JOB = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abcdefghijkl"
BODY = orjson.dumps({"model": "amazon.nova-lite-v1:0", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5})
REPLY = {"output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}}, "stopReason": "end_turn"}


class _Handler(BaseHTTPRequestHandler):
    """Takes the key id NEWKEY alone."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        taken = "Credential=NEWKEY/" in self.headers.get("authorization", "")
        body = (
            {"jobArn": JOB, "status": "InProgress", "jobName": "x", **REPLY} if taken else {"message": "it is expired"}
        )
        content = orjson.dumps(body)
        self.send_response(200 if taken else 403)
        if not taken:
            self.send_header("x-amzn-errortype", "ExpiredTokenException")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    yield file
    server.shutdown()
    server.server_close()
    thread.join()


def write(file: Path, key: str) -> None:
    file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\naws_session_token=t\n")


async def test_renewed_credentials_are_read_after_a_refusal(credentials: Path):
    provider = BedrockProvider("bedrock", ProviderSettings())
    try:
        # Without any at first: what is put there later is found, too.
        with pytest.raises(ProviderError) as refused:
            await provider.status(JOB)
        assert refused.value.code == "configuration"
        write(credentials, "OLDKEY")
        for _ in range(2):
            with pytest.raises(ProviderError) as refused:
                await provider.status(JOB)
            assert (refused.value.error_class, refused.value.status) == (ErrorClass.account, 403)
        answer = await provider.complete(SyncCall("w", "/v1/chat/completions", BODY, 10.0))
        assert answer.error_class is ErrorClass.account
        write(credentials, "NEWKEY")
        answer = await provider.complete(SyncCall("w", "/v1/chat/completions", BODY, 10.0))
        assert (answer.outcome, answer.text) == (Outcome.succeeded, "yes")
        assert (await provider.status(JOB)).raw_state == "InProgress"
    finally:
        await provider.close()


async def test_clients_are_made_anew_once_for_many_refusals(credentials: Path):
    write(credentials, "OLDKEY")
    provider = BedrockProvider("bedrock", ProviderSettings())
    try:
        clients = provider._clients
        first = clients.get("bedrock", 60.0)
        clients.forget(first)
        second = clients.get("bedrock", 60.0)
        # A refusal of an older client comes late: the new one stays.
        clients.forget(first)
        assert clients.get("bedrock", 60.0) is second is not first
    finally:
        await provider.close()
