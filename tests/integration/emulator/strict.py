"""Holding what the emulator sends to the SDKs' own models, strictly: no field missing, wrong or too many.

The SDKs themselves read leniently, so that a wrong emulator would not be noticed.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

Json = Any


def ask(url: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """(status, body as sent). An error is an answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Authorization": "Bearer test", "Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def upload(url: str, content: bytes, purpose: str = "batch") -> tuple[int, bytes]:
    """POST /files as a form."""
    mark = "b0undary"
    parts = (
        f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n'
        f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    ).encode()
    body = parts + content + f"\r\n--{mark}--\r\n".encode()
    return ask(f"{url}/files", "POST", body, {"Content-Type": f"multipart/form-data; boundary={mark}"})


class Strict(BaseModel):
    """For what the SDKs have no model of."""

    model_config = ConfigDict(extra="forbid", strict=True)


def held_to(model: Any, raw: bytes, may_have: tuple[str, ...] = ()) -> Json:
    """The document, if the model takes it strictly and knows each of its fields. AssertionError tells which not."""
    adapter = TypeAdapter(model)
    value = adapter.validate_json(raw, strict=True)
    unknown = [where for where in extras(value) if where not in may_have]
    assert unknown == [], f"{model}: fields that it does not have: {unknown} in {raw[:300]!r}"
    return json.loads(raw)


def extras(value: Any, where: str = "") -> Iterator[str]:
    """Paths of all fields that no model declares."""
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield f"{where}{name}"
        for name in type(value).model_fields:
            yield from extras(getattr(value, name), f"{where}{name}.")
    elif isinstance(value, list):
        for each in value:
            yield from extras(each, where)
    elif isinstance(value, dict):
        for each in value.values():
            yield from extras(each, where)
