"""One request by bedrock-runtime: InvokeModel or Converse, one attempt.

boto3 blocks until the model has answered, for minutes at worst: such calls have threads of their own.
"""

import base64
import math
from typing import Any, NamedTuple

import orjson
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError


class Reply(NamedTuple):
    """A model's reply as JSON, the request's id at AWS, and the HTTP headers in lower case."""

    body: Any
    request_id: str
    headers: dict[str, str]


def bucket_s(timeout_s: float) -> float:
    """The next power of two: a client has one read timeout, and few clients should do for all calls."""
    return float(2 ** max(2, math.ceil(math.log2(max(timeout_s, 1.0)))))


def invoke(client: Any, model: str, body: dict[str, Any]) -> Reply:
    """InvokeModel with the model's own body."""
    answer = client.invoke_model(
        modelId=model, body=orjson.dumps(body), contentType="application/json", accept="application/json"
    )
    stream = answer["body"]
    try:
        raw = stream.read()
    finally:
        stream.close()
    request_id, headers = _told(answer)
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise _not_json("InvokeModel") from None
    return Reply(parsed, request_id, headers)


def converse(client: Any, model: str, body: dict[str, Any]) -> Reply:
    """Converse. `body` is as in a batch's line: bytes are base64 text there, and boto3 would encode them again."""
    shape = client.meta.service_model.operation_model("Converse").input_shape
    answer = client.converse(**with_bytes(shape, {**body, "modelId": model}))
    request_id, headers = _told(answer)
    answer.pop("ResponseMetadata", None)
    if "output" not in answer:
        # botocore makes an empty answer of a gateway's page (PO-22).
        raise _not_json("Converse")
    return Reply(without_bytes(answer), request_id, headers)


def with_bytes(shape: Any, value: Any) -> Any:
    """JSON as boto3's parameters: base64 text becomes bytes where botocore's model says blob.

    Free-form documents (tool inputs, schemas) stay as they are. Raises ProviderError(invalid) for bad base64.
    """
    if shape is None or getattr(shape, "is_document_type", False):
        return value
    kind = shape.type_name
    if kind == "blob" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise ProviderError(
                f"{shape.name}: the bytes are not base64", error_class=ErrorClass.invalid, code="bad_bytes"
            ) from None
    if kind == "structure" and isinstance(value, dict):
        return {name: with_bytes(shape.members.get(name), inner) for name, inner in value.items()}
    if kind == "list" and isinstance(value, list):
        return [with_bytes(shape.member, inner) for inner in value]
    if kind == "map" and isinstance(value, dict):
        return {name: with_bytes(shape.value, inner) for name, inner in value.items()}
    return value


def without_bytes(value: Any) -> Any:
    """boto3's answer as JSON: bytes become base64 text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: without_bytes(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_bytes(inner) for inner in value]
    return value


def _told(answer: dict[str, Any]) -> tuple[str, dict[str, str]]:
    metadata = answer.get("ResponseMetadata") or {}
    headers = {str(name).lower(): str(value) for name, value in (metadata.get("HTTPHeaders") or {}).items()}
    return str(metadata.get("RequestId") or ""), headers


def _not_json(operation: str) -> ProviderError:
    # It may have been answered, and billed, all the same: sync_runner.MAYBE_PAID_CODES.
    return ProviderError(
        f"{operation}: a success, but not an answer of a model", error_class=ErrorClass.transient, code="not_json"
    )
