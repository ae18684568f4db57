"""Reading a batch's results as one would without Groupage: the provider's SDK, a loop, a dict of texts by id.

Each function takes the name of a result file (of Anthropic: of the batch) and fills the dict; it streams where the SDK
can. Clients find their servers by the usual variables.

    python -m bench.bare_results PROVIDER NAME...     # prints {"done", "before_mib", "peak_mib", "seconds"}
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bench.processes import peak_mib

Texts = dict[str, str]


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _chat(body: dict[str, Any]) -> str:
    return str(body["choices"][0]["message"]["content"])


def _gemini(body: dict[str, Any]) -> str:
    return str(body["candidates"][0]["content"]["parts"][0]["text"])


def openai(ref: str, texts: Texts) -> None:
    from openai import OpenAI

    _openai_file(OpenAI(), ref, texts)


def azure(ref: str, texts: Texts) -> None:
    from openai import OpenAI

    base_url = f"{os.environ['AZURE_OPENAI_ENDPOINT']}/openai/v1/"
    _openai_file(OpenAI(base_url=base_url, api_key=os.environ["AZURE_OPENAI_API_KEY"]), ref, texts)


def _openai_file(client: Any, ref: str, texts: Texts) -> None:
    with client, client.files.with_streaming_response.content(ref) as content:
        # Not iter_lines: it also splits at U+2028, which is legal inside a JSON string.
        for line in _lines(content.iter_bytes()):
            row = json.loads(line)
            texts[row["custom_id"]] = _chat(row["response"]["body"])


def anthropic(ref: str, texts: Texts) -> None:
    from anthropic import Anthropic

    with Anthropic() as client:
        for row in client.messages.batches.results(ref):
            assert row.result.type == "succeeded"
            block = row.result.message.content[0]
            assert block.type == "text"
            texts[row.custom_id] = block.text


def bedrock(ref: str, texts: Texts) -> None:
    import boto3  # type: ignore[import-untyped]

    bucket, _, key = ref.removeprefix("s3://").partition("/")
    for line in boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].iter_lines():
        row = json.loads(line)
        texts[row["recordId"]] = row["modelOutput"]["content"][0]["text"]


def vertex(ref: str, texts: Texts) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client  # type: ignore[import-untyped]

    bucket, _, key = ref.removeprefix("gs://").partition("/")
    client = Client(project=os.environ["GOOGLE_CLOUD_PROJECT"], credentials=AnonymousCredentials())
    with tempfile.TemporaryFile() as lines:
        client.bucket(bucket).blob(key).download_to_file(lines)
        lines.seek(0)
        for line in lines:
            row = json.loads(line)
            texts[row["request"]["labels"]["groupage_id"]] = _gemini(row["response"])


def vertex_bigquery(ref: str, texts: Texts) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    project = os.environ["GOOGLE_CLOUD_PROJECT"]
    options = {"api_endpoint": os.environ["BIGQUERY_EMULATOR_HOST"]}
    client = bigquery.Client(project, AnonymousCredentials(), client_options=options)
    for row in client.list_rows(client.get_table(ref.removeprefix("bq://"))):
        response = row["response"]
        texts[row["custom_id"]] = _gemini(json.loads(response) if isinstance(response, str) else response)


def gemini(ref: str, texts: Texts) -> None:
    from google import genai

    with genai.Client() as client:
        for line in _lines([client.files.download(file=ref)]):
            row = json.loads(line)
            texts[row["key"]] = _gemini(row["response"])


READERS: dict[str, Callable[[str, Texts], None]] = {
    "openai": openai,
    "azure": azure,
    "anthropic": anthropic,
    "bedrock": bedrock,
    "vertex": vertex,
    "vertex-bigquery": vertex_bigquery,
    "gemini": gemini,
}


def main() -> None:
    label, *refs = sys.argv[1:]
    texts: Texts = {}
    before, began = peak_mib(os.getpid()), time.perf_counter()
    for ref in refs:
        READERS[label](ref, texts)
    seconds = time.perf_counter() - began
    told = {"done": len(texts), "before_mib": before, "peak_mib": peak_mib(os.getpid()), "seconds": seconds}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
