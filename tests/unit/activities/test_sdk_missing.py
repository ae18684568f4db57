"""A worker without a provider's SDK: each call of its adapter is a person's matter, never one that is tried for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path

sys.modules.update(dict.fromkeys(sys.argv[3:]))

from groupage.activities.providers.base import Doubt, ResultFile, Submission, SyncCall
from groupage.activities.registry import ADAPTERS
from groupage.activities.settings import ProviderSettings
from groupage.schemas import BatchPhase, BatchStatus
from groupage.schemas.errors import ProviderError

NOW = datetime.now(UTC)
dialect, source = sys.argv[1], Path(sys.argv[2])
provider = ADAPTERS[dialect](dialect, ProviderSettings())
sent = Submission(tag="gaaaaaa-aaaaaaaaaaaa-r0-s0", endpoint="/v1/chat/completions", model="m", path=source, requests=1,
    intent_at=NOW, look_since=NOW)
body = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}'


async def listed():
    async for _ in provider.list_ours("aaaaaa"):
        raise AssertionError("nothing is there")


async def main():
    calls = {
        "find": lambda: provider.find(sent.tag, since=NOW, not_ids=()),
        "create": lambda: provider.create(sent, [{"vertex": "gs://bucket/file", "bedrock": "s3://bucket/file"}.get(dialect, "file")]),
        "status": lambda: provider.status("batch"),
        "cancel": lambda: provider.cancel("batch"),
        "download": lambda: provider.download(ResultFile("output", "gs://b/f" if dialect == "vertex" else "s3://b/f"),
            source.with_name("out")),
        "list_ours": listed,
    }
    if dialect != "anthropic":
        calls["upload"] = lambda: provider.upload(sent)
        calls["delete"] = lambda: provider.delete("file", "gs://b/f" if dialect == "vertex" else "s3://b/f")
    else:
        doubt = Doubt(sent.tag, 1, NOW, NOW, frozenset())
        calls["find"] = lambda: provider.find_doubtful(doubt)
    wrong = []
    for name, call in calls.items():
        try:
            got = await call()
        except ProviderError as error:
            got = (error.error_class, error.code, error.hint)
        except Exception as error:
            got = repr(error)
        if got != ("account", "configuration", f"pip install 'groupage[{dialect}]'"):
            wrong.append(f"{name}: {got}")
    answer = await provider.complete(SyncCall("w-1", sent.endpoint, body, 5.0))
    if (answer.error_class, answer.code) != ("account", "configuration"):
        wrong.append(f"complete: {answer}")
    await provider.close()
    sys.exit("\\n".join(wrong) or 0)


asyncio.run(main())
"""

VARIABLES = {
    "OPENAI_API_KEY": "test",
    "ANTHROPIC_API_KEY": "test",
    "GEMINI_API_KEY": "test",
    "AZURE_OPENAI_API_KEY": "test",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9",
    "AWS_REGION": "us-east-1",
    "GROUPAGE_BEDROCK_BUCKET": "bucket",
    "GROUPAGE_BEDROCK_ROLE_ARN": "arn:aws:iam::123456789012:role/batch",
    "GOOGLE_CLOUD_PROJECT": "project",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "GROUPAGE_VERTEX_DATA": "gs://bucket/prefix",
}


@pytest.mark.parametrize(
    ("dialect", "missing"),
    [
        ("openai", ["openai", "httpx2"]),
        ("azure", ["openai", "httpx2"]),
        ("anthropic", ["anthropic", "httpx2"]),
        ("bedrock", ["boto3", "botocore"]),
        ("gemini", ["google", "google.genai", "httpx2"]),
        ("vertex", ["google", "google.cloud", "google.api_core", "google.auth", "google_crc32c", "requests"]),
    ],
)
def test_every_call_without_the_sdk_asks_for_the_package(dialect: str, missing: list[str], tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"custom_id": "a", "params": {}}\n')
    done = subprocess.run(
        [sys.executable, "-c", CALLS, dialect, str(source), *missing],
        env=os.environ | VARIABLES,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
