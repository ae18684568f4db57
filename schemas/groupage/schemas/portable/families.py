"""Which dialect a provider speaks for a model. One job's requests of one model speak one dialect."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.requests import CHAT, EMBEDDINGS, NATIVE_ENDPOINTS

Family = Literal["claude", "nova", "openai", "titan-embed", "cohere-embed", "other"]

_GENERATION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_OLD = re.compile(r"claude-(?:v|instant)")
_NO_TEXT = re.compile(r"amazon\.(nova-(canvas|reel|sonic)|titan-image)|stability\.")
_GEMINI = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?(?!\d)")
NEWEST = (99, 0)


@lru_cache(256)
def bedrock_family(model: str) -> Family:
    """By the model's id, with or without a region's prefix: `us.anthropic.claude-…`, `amazon.nova-lite-v1:0`.

    The id of an application inference profile tells nothing: "other", which is Converse.
    """
    name = model.lower()
    if "anthropic." in name:
        return "claude"
    if "amazon.nova-" in name and "embed" not in name and not _NO_TEXT.search(name):
        return "nova"
    if "openai." in name:
        return "openai"
    if "amazon.titan-embed" in name:
        return "titan-embed"
    if "cohere.embed" in name:
        return "cohere-embed"
    return "other"


def model_name(model: str) -> str:
    """The model's own name where it is given as a path of Google's or an ARN: what is before it names places."""
    if model.startswith("arn:"):
        # Of a custom model: the model that it was made of, and its id.
        return model.split(":", 5)[-1].partition("/")[2]
    return model.rpartition("/")[2]


@lru_cache(256)
def claude_generation(model: str) -> tuple[int, int]:
    """(4, 5) of `claude-sonnet-4-5-20250929`; (2, 0) before names had numbers of three; NEWEST for one that tells none."""
    name = model_name(model).lower()
    if _OLD.search(name):
        return 2, 0
    found = _GENERATION.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else NEWEST


@lru_cache(256)
def gemini_generation(model: str) -> tuple[int, int] | None:
    """(2, 5) of `gemini-2.5-flash`; None for an alias or a tuned model."""
    found = _GEMINI.search(model_name(model).lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def is_claude(model: str) -> bool:
    """Whether Vertex has it of Anthropic: by the publisher in a path, or by the bare name.

    A path without a publisher is a model of the user's own.
    """
    path = model.lower().split("/")
    if len(path) == 1:
        return "claude" in path[0]
    return any(name == "publishers" and of == "anthropic" for name, of in pairwise(path))


def _bedrock_chat(model: str) -> str:
    if bedrock_family(model) in {"titan-embed", "cohere-embed"}:
        raise Inexpressible("model", f"{model} makes embeddings: it answers no chat")
    if _NO_TEXT.search(model.lower()):
        raise Inexpressible("model", f"{model} makes pictures, films or speech: it answers no chat")
    return "/converse" if bedrock_family(model) == "other" else "/invoke"


@lru_cache(1024)
def target_endpoint(provider: str, model: str, endpoint: str) -> str:
    """The provider's own endpoint for a request: itself where nothing is translated.

    Raises Inexpressible("endpoint") where the provider has none for it.

    Bedrock: Claude, Nova, OpenAI's models and all embeddings take their native body (`/invoke`), because a
    Converse batch refuses tools; all other models take Converse.
    """
    natives = NATIVE_ENDPOINTS.get(provider)
    if natives is None or endpoint in natives:
        return endpoint
    if endpoint == CHAT:
        if provider == "bedrock":
            return _bedrock_chat(model)
        if provider == "vertex" and is_claude(model):
            return "/rawPredict"
        return natives[0]
    if endpoint == EMBEDDINGS:
        if provider == "gemini":
            return "/embedContent"
        if provider == "bedrock":
            if bedrock_family(model) not in {"titan-embed", "cohere-embed"}:
                raise Inexpressible("model", f"{model} makes no embeddings, or its body is not known")
            return "/invoke"
    raise Inexpressible("endpoint", f"{provider} has nothing for {endpoint}; it takes {CHAT} and {', '.join(natives)}")
