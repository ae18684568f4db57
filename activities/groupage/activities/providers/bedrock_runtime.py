"""One request by bedrock-runtime: InvokeModel or Converse, one attempt.

boto3 blocks until the model has answered, for minutes at worst: such calls have threads of their own.
"""

import base64
import math
from typing import Any, NamedTuple

import orjson
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.store import answer_json

_REPLY = "GroupageReply"


class Reply(NamedTuple):
    """A model's reply: the JSON as it came, what it says, the request's id at AWS, and the HTTP headers in lower case."""

    raw: bytes
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
    return _reply("InvokeModel", raw, answer)


def converse(client: Any, model: str, body: dict[str, Any]) -> Reply:
    """Converse. `body` is as in a batch's line: bytes are base64 text there, and boto3 would encode them again."""
    shape = client.meta.service_model.operation_model("Converse").input_shape
    answer = client.converse(**with_bytes(shape, {**body, "modelId": model}))
    reply = _reply("Converse", answer[_REPLY], answer)
    if not isinstance(reply.body, dict) or "output" not in reply.body:
        # A gateway's page (PO-22).
        raise _not_json("Converse")
    return reply


def keep_replies(client: Any) -> None:
    """Converse's replies as they came: botocore would round their numbers, and not read what is nested deeply."""
    client.meta.events.register("before-parse.bedrock-runtime.Converse", _keep_reply)


def _keep_reply(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_more: Any) -> None:
    if response_dict["status_code"] < 300:
        customized_response_dict[_REPLY] = response_dict["body"]
        response_dict["body"] = b"{}"


def _reply(operation: str, raw: bytes, answer: dict[str, Any]) -> Reply:
    try:
        body = answer_json.loads(raw)
    except orjson.JSONDecodeError:
        raise _not_json(operation) from None
    metadata = answer.get("ResponseMetadata") or {}
    headers = {str(name).lower(): str(value) for name, value in (metadata.get("HTTPHeaders") or {}).items()}
    return Reply(raw, body, str(metadata.get("RequestId") or ""), headers)


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


def _not_json(operation: str) -> ProviderError:
    # It may have been answered, and billed, all the same: sync_runner.MAYBE_PAID_CODES.
    return ProviderError(
        f"{operation}: a success, but not an answer of a model", error_class=ErrorClass.transient, code="not_json"
    )
