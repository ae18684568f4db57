"""Portable requests: OpenAI's chat and embeddings bodies, in the words of other providers.

Portable are the endpoints /v1/chat/completions and /v1/embeddings. Everything that a body says is said in
the provider's own body, or the request is refused with the field's name (`Inexpressible`): nothing is
dropped. What says nothing (null, or a default that is the provider's default as well) may be left out.
Native endpoints pass through. docs/portable-requests.md has the table.

    translate("anthropic", "claude-sonnet-5", "/v1/chat/completions", body)

Each dialect is imported at its first use; all are pure functions, about 10 µs for a plain request.
"""

from collections.abc import Callable
from typing import Any

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.families import bedrock_family, target_endpoint
from groupage.schemas.requests import EMBEDDINGS, NATIVE_ENDPOINTS

Checker = Callable[[str, dict[str, Any], str], None]
"""Takes (endpoint, body, model); raises Inexpressible."""

VERTEX_LABEL = "groupage_id"
"""The label in Gemini's requests on Vertex by which their results are told. Labels are at most 63 of [a-z0-9_-]."""

Translation = Callable[[str, dict[str, Any]], dict[str, Any]]

__all__ = ["VERTEX_LABEL", "Checker", "Inexpressible", "bedrock_family", "checker", "target_endpoint", "translate"]


def translate(provider: str, model: str, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    """The provider's own body for a request; `body` is not changed, but parts of it are shared.

    The model is in the result where the provider wants it in the body (Anthropic; OpenAI and its relatives,
    whose bodies are returned as they are), and nowhere else. Raises Inexpressible.
    """
    natives = NATIVE_ENDPOINTS.get(provider)
    if natives is None or endpoint == "/v1/messages":
        return body
    if endpoint in natives:
        return {name: value for name, value in body.items() if name != "model"}
    target = target_endpoint(provider, model, endpoint)
    return _translation(provider, model, endpoint, target)(model, body)


def checker(provider: str) -> Checker | None:
    """What intake calls for each request, or None where nothing is translated and all is taken."""
    natives = NATIVE_ENDPOINTS.get(provider)
    if natives is None:
        return None

    def check(endpoint: str, body: dict[str, Any], model: str) -> None:
        if endpoint not in natives:
            translate(provider, model, endpoint, body)
        elif endpoint == "/converse" and body.get("toolConfig"):
            # Each record would end with a 400: better told before anything is sent.
            raise Inexpressible("toolConfig", "a Converse batch takes no tools; send the model's own body to /invoke")
        elif provider == "vertex" and endpoint == "/generateContent":
            _check_labels(body.get("labels"))

    return check


def _check_labels(labels: Any) -> None:
    """A result is told by a label of ours, which stands beside the request's own."""
    if isinstance(labels, dict) and VERTEX_LABEL in labels:
        raise Inexpressible(
            f"labels.{VERTEX_LABEL}", "this label is ours: results are told by it; give it another name"
        )


def _translation(provider: str, model: str, endpoint: str, target: str) -> Translation:
    if endpoint == EMBEDDINGS:
        from groupage.schemas.portable import embeddings

        return embeddings.of(provider, model)
    if target == "/generateContent":
        from groupage.schemas.portable import gemini

        return gemini.translate_gemini if provider == "gemini" else gemini.translate_vertex
    if target == "/converse":
        from groupage.schemas.portable import converse

        return converse.translate
    if provider == "anthropic" or target == "/rawPredict" or bedrock_family(model) == "claude":
        from groupage.schemas.portable import claude

        return claude.of(provider)
    if bedrock_family(model) == "nova":
        from groupage.schemas.portable import converse

        return converse.translate_nova
    from groupage.schemas.portable import openai_on_bedrock

    return openai_on_bedrock.translate
