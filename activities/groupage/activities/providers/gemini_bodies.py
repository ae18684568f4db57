"""From our requests to lines of a Gemini batch and bodies of its sync API: translated, without their model."""

from urllib.parse import quote

from groupage.activities.providers.exact_json import dumps, loads
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.portable import Inexpressible, target_endpoint, translate

EMBED = "/embedContent"


def is_embedding(endpoint: str, model: str) -> bool:
    """Whether a batch of it is one of embeddings: they have a create call of their own."""
    try:
        return target_endpoint("gemini", model, endpoint) == EMBED
    except Inexpressible as error:
        raise _invalid(str(error)) from error


def native_request(endpoint: str, body: bytes) -> tuple[str, str, bytes]:
    """(model, /generateContent or /embedContent, Gemini's body). Raises ProviderError(invalid)."""
    request = loads(body)
    model = request.get("model") if isinstance(request, dict) else None
    if not isinstance(model, str) or not model:
        raise _invalid("the body has no model")
    try:
        target = target_endpoint("gemini", model, endpoint)
        return model, target, dumps(translate("gemini", model, endpoint, request))
    except Inexpressible as error:
        # Intake has refused such requests: this one came in by another way.
        raise _invalid(str(error)) from error


def render(wire_id: str, endpoint: str, body: bytes) -> bytes:
    """One line, newline included. `{}` is what planning asks for: how much is added to a body."""
    request = body if body == b"{}" else native_request(endpoint, body)[2]
    return b'{"key":"%b","request":%b}\n' % (wire_id.encode(), request)


def model_path(model: str) -> str:
    """`models/gemini-2.5-flash`; a tuned model comes with its own `tunedModels/`."""
    return quote(model if "/" in model else f"models/{model}", safe="/")


def _invalid(detail: str) -> ProviderError:
    return ProviderError(f"gemini: {detail}", error_class=ErrorClass.invalid, code="inexpressible")
