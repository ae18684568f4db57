"""From our requests to Bedrock's records: translated, without their model, in the job type's words."""

from groupage.activities.providers.exact_json import dumps
from groupage.activities.providers.native_bodies import inexpressible, native_body, native_endpoint

_TYPES = {"/invoke": "InvokeModel", "/converse": "Converse"}


def invocation_type(endpoint: str, model: str) -> str:
    """A job's modelInvocationType: one job speaks one dialect, because it has one endpoint and one model."""
    target = native_endpoint("bedrock", endpoint, model)
    if target not in _TYPES:
        raise inexpressible("bedrock", f"{endpoint} for {model}: no job takes {target}")
    return _TYPES[target]


def render(wire_id: str, endpoint: str, body: bytes) -> bytes:
    """One record, newline included. `{}` is what planning asks for: how much is added to a body."""
    if body == b"{}":
        return _record(wire_id, body)
    _, target, translated = native_body("bedrock", endpoint, body)
    if target == "/converse" and "toolConfig" in translated:
        raise inexpressible("bedrock", "a Converse job takes no toolConfig: use /invoke with the model's own body")
    return _record(wire_id, dumps(translated))


def _record(wire_id: str, body: bytes) -> bytes:
    return b'{"recordId":"%b","modelInput":%b}\n' % (wire_id.encode(), body)
