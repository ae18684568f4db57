"""The input of the benchmark: chat requests of about 500 bytes a line, as `json.dumps` writes them."""

import json
from pathlib import Path

MODEL = "gpt-4o-mini"
_SYSTEM = (
    "You label support tickets of a parcel service. Answer with one label out of delivery, damage, refund, "
    "address or other, and one sentence that says why."
)
_PLACES = ("Porto", "Kraków", "Leeds", "Lyon", "Gent", "Graz", "Turku", "Bologna")


def write_requests(path: Path, requests: int) -> int:
    """Write `requests` distinct OpenAI batch lines; returns the file's size. The same call writes the same bytes.

    One line in eight holds a character beyond ASCII, which `json.dumps` escapes.
    """
    size = 0
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        for number in range(requests):
            question = (
                f"Ticket {number}: parcel {number * 7919 % 10_000_019} to {_PLACES[number % len(_PLACES)]} was due "
                f"{number % 28 + 1} days ago and has not come; the customer writes for the {number % 5 + 1}. time."
            )
            body = {
                "model": MODEL,
                "messages": [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": question}],
                "max_tokens": 200,
            }
            line = {"custom_id": f"ticket-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            size += file.write(json.dumps(line) + "\n")
    return size
