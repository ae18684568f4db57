"""OpenAI's embeddings body, as Gemini, Titan and Cohere want it."""

import re
from collections.abc import Callable
from typing import Any

from groupage.schemas.portable.errors import Inexpressible
from groupage.schemas.portable.families import bedrock_family
from groupage.schemas.portable.options import integer

Translation = Callable[[str, dict[str, Any]], dict[str, Any]]

_TITAN_V2 = re.compile(r"titan-embed-text-v2")
_TITAN_IMAGE = re.compile(r"titan-embed-(image|g1-mm)")
_COHERE_V3 = re.compile(r"cohere\.embed-(english|multilingual)-v3")
COHERE_TEXTS_MAX = 96
"""Texts a request; Cohere's Embed on Bedrock."""


def of(provider: str, model: str) -> Translation:
    if provider == "gemini":
        return _gemini
    return _titan if bedrock_family(model) == "titan-embed" else _cohere


def _gemini(_model: str, body: dict[str, Any]) -> dict[str, Any]:
    texts = _texts(body, most=1)
    result: dict[str, Any] = {"content": {"parts": [{"text": texts[0]}]}}
    dimensions = _dimensions(body)
    if dimensions is not None:
        result["outputDimensionality"] = dimensions
    return result


def _titan(model: str, body: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"inputText": _texts(body, most=1)[0]}
    dimensions = _dimensions(body)
    if dimensions is None:
        return result
    if _TITAN_V2.search(model):
        return result | {"dimensions": dimensions}
    if _TITAN_IMAGE.search(model):
        return result | {"embeddingConfig": {"outputEmbeddingLength": dimensions}}
    raise Inexpressible("dimensions", f"{model} has one size only")


def _cohere(model: str, body: dict[str, Any]) -> dict[str, Any]:
    """Cohere wants to know what the vectors are for; they are taken to be of documents that are searched."""
    result: dict[str, Any] = {"texts": _texts(body, most=COHERE_TEXTS_MAX), "input_type": "search_document"}
    dimensions = _dimensions(body)
    if dimensions is not None:
        if _COHERE_V3.search(model):
            raise Inexpressible("dimensions", f"{model} has one size only")
        result["output_dimension"] = dimensions
    return result


def _texts(body: dict[str, Any], *, most: int) -> list[str]:
    for name, value in body.items():
        if name in {"input", "model", "dimensions"} or value is None:
            continue
        if name == "encoding_format" and value == "float":
            continue
        known = name in {"encoding_format", "user"}
        raise Inexpressible(name, "has no counterpart" if known else "is no field of an embeddings request")
    given = body.get("input")
    texts = [given] if type(given) is str else given
    if type(texts) is not list or not texts or not all(type(text) is str and text for text in texts):
        raise Inexpressible("input", "is neither text nor a list of texts; lists of tokens are not taken")
    if len(texts) > most:
        raise Inexpressible("input", f"{len(texts)} texts in one request; {most} can be sent: make a request of each")
    return texts


def _dimensions(body: dict[str, Any]) -> int | None:
    return integer(body, "dimensions", 1, 2**31 - 1)
