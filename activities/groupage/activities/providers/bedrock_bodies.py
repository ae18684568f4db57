"""From our requests to Bedrock's records: translated, without their model, in the job type's words."""

from typing import Any

from groupage.activities.providers.exact_json import dumps, loads
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.portable import Inexpressible, target_endpoint, translate

_TYPES = {"/invoke": "InvokeModel", "/converse": "Converse"}


def invocation_type(endpoint: str, model: str) -> str:
    """A job's modelInvocationType: one job speaks one dialect, because it has one endpoint and one model."""
    try:
        return _TYPES[target_endpoint("bedrock", model, endpoint)]
    except (Inexpressible, KeyError) as error:
        raise _invalid(f"{endpoint} for {model}: {error}") from error


def model_input(endpoint: str, body: bytes) -> tuple[str, str, dict[str, Any]]:
    """(model id, /invoke or /converse, Bedrock's body). Raises ProviderError(invalid)."""
    request = loads(body)
    if not isinstance(request, dict):
        raise _invalid("the body is not an object")
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise _invalid("the body has no model")
    try:
        return model, target_endpoint("bedrock", model, endpoint), translate("bedrock", model, endpoint, request)
    except Inexpressible as error:
        # Intake has refused such requests: this one came in by another way.
        raise _invalid(str(error)) from error


def render(wire_id: str, endpoint: str, body: bytes) -> bytes:
    """One record, newline included. `{}` is what planning asks for: how much is added to a body."""
    if body == b"{}":
        return _record(wire_id, body)
    _, target, translated = model_input(endpoint, body)
    if target == "/converse" and "toolConfig" in translated:
        raise _invalid("a Converse job takes no toolConfig: use /invoke with the model's own body")
    return _record(wire_id, dumps(translated))


def _record(wire_id: str, body: bytes) -> bytes:
    return b'{"recordId":"%b","modelInput":%b}\n' % (wire_id.encode(), body)


def _invalid(detail: str) -> ProviderError:
    return ProviderError(f"bedrock: {detail}", error_class=ErrorClass.invalid, code="inexpressible")
