"""From our requests to lines of a Gemini batch and bodies of its sync API: translated, without their model."""

from urllib.parse import quote

from groupage.activities.providers.exact_json import dumps
from groupage.activities.providers.native_bodies import native_body, native_endpoint

EMBED = "/embedContent"


def is_embedding(endpoint: str, model: str) -> bool:
    """Whether a batch of it is one of embeddings: they have a create call of their own."""
    return native_endpoint("gemini", endpoint, model) == EMBED


def render(wire_id: str, endpoint: str, body: bytes) -> bytes:
    """One line, newline included. `{}` is what planning asks for: how much is added to a body."""
    request = body if body == b"{}" else dumps(native_body("gemini", endpoint, body)[2])
    return b'{"key":"%b","request":%b}\n' % (wire_id.encode(), request)


def model_path(model: str) -> str:
    """`models/gemini-2.5-flash`; a tuned model comes with its own `tunedModels/`."""
    return quote(model if "/" in model else f"models/{model}", safe="/")
