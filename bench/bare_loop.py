"""What Groupage is compared with: a script for one batch job, as one would write it, without durability.

    python -m bench.bare_loop in.jsonl out.jsonl --base-url http://127.0.0.1:8080/v1

It keeps the provider's limits, reads everything in streams, joins answers by id, and writes the same
lines as `groupage run`: one per request, in input order, with text, usage and cost. It does not survive
anything: killed at any point it has to begin again, and pays again.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import genai_prices
import orjson
from openai import OpenAI
from openai.types import Batch

MAX_REQUESTS = 50_000
MAX_BYTES = 200 * 1024 * 1024
"""OpenAI's limits for one batch."""
ENDED = {"completed", "failed", "expired", "cancelled"}
EFFECTIVE_FOR = timedelta(days=30)


def cut(source: Path, folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Batch files within the limits, each with its ids in input order."""
    ids: list[str] = []
    size = number = 0
    path = folder / "batch-0.jsonl"
    file = path.open("wb", buffering=1 << 20)
    with source.open("rb", buffering=1 << 20) as lines:
        for line in lines:
            if not line.strip():
                continue
            if len(ids) == MAX_REQUESTS or size + len(line) > MAX_BYTES:
                file.close()
                yield path, ids
                number += 1
                ids, size = [], 0
                path = folder / f"batch-{number}.jsonl"
                file = path.open("wb", buffering=1 << 20)
            ids.append(orjson.loads(line)["custom_id"])
            size += file.write(line)
    file.close()
    yield path, ids


def submit(client: OpenAI, path: Path) -> Batch:
    with path.open("rb") as content:
        file = client.files.create(file=content, purpose="batch")
    path.unlink()
    return client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")


def wait(client: OpenAI, batch_id: str, poll_s: float) -> Batch:
    while True:
        batch = client.batches.retrieve(batch_id)
        if batch.status in ENDED:
            return batch
        time.sleep(poll_s)


class Prices:
    """USD a token, from genai-prices, looked up once a model."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float, float]] = {}

    def of(self, model: str, inputs: int, cached: int, outputs: int) -> float:
        """What the sync API would cost; a batch costs half."""
        if model not in self._known:
            million = 1_000_000
            self._known[model] = (
                self._ask(model, genai_prices.Usage(input_tokens=million)),
                self._ask(model, genai_prices.Usage(input_tokens=million, cache_read_tokens=million)),
                self._ask(model, genai_prices.Usage(output_tokens=million)),
            )
        plain, from_cache, output = self._known[model]
        return (inputs - cached) * plain + cached * from_cache + outputs * output

    def _ask(self, model: str, usage: genai_prices.Usage) -> float:
        return float(genai_prices.calc_price(usage, model, provider_id="openai").total_price) / 1e6


def result(row: dict[str, Any], batch_id: str, prices: Prices, effective_until: str) -> dict[str, Any]:
    """One line of the output, from one line of a batch's output or error file."""
    response = row["response"] or {}
    body: Any = response.get("body")
    answered = response.get("status_code") == 200
    text = tool_calls = usage = cost = error = None
    outcome = "failed"
    created = time.time()
    model = None
    if answered:
        choice = body["choices"][0]
        message = choice["message"]
        text, tool_calls = message["content"], message.get("tool_calls")
        outcome = {"length": "truncated", "content_filter": "refused"}.get(choice["finish_reason"], "succeeded")
        if message.get("refusal"):
            outcome = "refused"
        used = body["usage"]
        details, out_details = used.get("prompt_tokens_details") or {}, used.get("completion_tokens_details") or {}
        usage = {
            "input_tokens": used["prompt_tokens"],
            "cached_tokens": details.get("cached_tokens", 0),
            "cache_write_tokens": 0,
            "output_tokens": used["completion_tokens"],
            "reasoning_tokens": out_details.get("reasoning_tokens", 0),
        }
        model, created = body["model"], body["created"]
        cost = prices.of(model, usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"])
    else:
        told = row.get("error") or (body or {}).get("error") or {}
        error = {"class": "unknown", "code": told.get("code") or "", "message": told.get("message") or ""}
    line = {
        "id": row["custom_id"],
        "outcome": outcome,
        "text": text,
        "body": body,
        "usage": usage,
        "cost_usd": None if cost is None else round(cost / 2, 9),
        "sync_cost_usd": None if cost is None else round(cost, 9),
        "provider": "openai",
        "model": model,
        "route": "batch",
        "rounds": 1,
        "produced_at": datetime.fromtimestamp(created, UTC).isoformat(),
        "error": error,
        "provider_ids": {"batch": batch_id, "request": response.get("request_id")},
        "effective_until": effective_until,
    }
    if tool_calls:
        line["tool_calls"] = tool_calls
    return line


def collect(client: OpenAI, batch: Batch, prices: Prices, folder: Path) -> dict[str, bytes]:
    """Result lines by id of one batch."""
    found: dict[str, bytes] = {}
    effective_until = (datetime.now(UTC) + EFFECTIVE_FOR).isoformat()
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id is None:
            continue
        path = folder / file_id
        with client.files.with_streaming_response.content(file_id) as response:
            response.stream_to_file(path)
        with path.open("rb", buffering=1 << 20) as lines:
            for line in lines:
                row = orjson.loads(line)
                found[row["custom_id"]] = orjson.dumps(
                    result(row, batch.id, prices, effective_until), option=orjson.OPT_APPEND_NEWLINE
                )
        path.unlink()
    return found


def clean_up(client: OpenAI, batch: Batch) -> None:
    for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
        if file_id is not None:
            client.files.delete(file_id)


def missing(id_: str, state: str) -> bytes:
    error = {"class": "missing", "code": state, "message": "in no result file"}
    return orjson.dumps({"id": id_, "outcome": "failed", "error": error}, option=orjson.OPT_APPEND_NEWLINE)


def run(source: Path, output: Path, base_url: str, poll_s: float) -> None:
    client = OpenAI(base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    prices = Prices()
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch, output.open("wb", buffering=1 << 20) as out:
        folder = Path(scratch)
        batches = [(submit(client, path), ids) for path, ids in cut(source, folder)]
        for created, ids in batches:
            batch = wait(client, created.id, poll_s)
            found = collect(client, batch, prices, folder)
            for id_ in ids:
                out.write(found.pop(id_, b"") or missing(id_, batch.status))
            clean_up(client, batch)
    client.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("source", type=Path)
    options.add_argument("output", type=Path)
    options.add_argument("--base-url", required=True)
    options.add_argument("--poll", type=float, default=1.0, metavar="SECONDS")
    given = options.parse_args()
    run(given.source, given.output, given.base_url, given.poll)


if __name__ == "__main__":
    main()
