"""From a request of ours to a body in the provider's own words, where the model stands outside of it."""

from typing import Any

from groupage.activities.providers.exact_json import loads
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.portable import Inexpressible, target_endpoint, translate


def native_body(provider: str, endpoint: str, body: bytes) -> tuple[str, str, dict[str, Any]]:
    """(model, the provider's endpoint for it, its body). Raises ProviderError(invalid)."""
    request = loads(body)
    if not isinstance(request, dict):
        raise inexpressible(provider, "the body is not an object")
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise inexpressible(provider, "the body has no model")
    try:
        return model, target_endpoint(provider, model, endpoint), translate(provider, model, endpoint, request)
    except Inexpressible as error:
        # Intake has refused such requests: this one came in by another way.
        raise inexpressible(provider, str(error)) from error


def native_endpoint(provider: str, endpoint: str, model: str) -> str:
    """Where a batch of such requests goes: it has one endpoint and one model. Raises ProviderError(invalid)."""
    try:
        return target_endpoint(provider, model, endpoint)
    except Inexpressible as error:
        raise inexpressible(provider, f"{endpoint} for {model}: {error}") from error


def inexpressible(provider: str, detail: str) -> ProviderError:
    return ProviderError(f"{provider}: {detail}", error_class=ErrorClass.invalid, code="inexpressible")
