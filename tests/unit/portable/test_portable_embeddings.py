"""OpenAI's embeddings body elsewhere."""

from typing import Any

import pytest
from google.genai import types
from groupage.schemas.portable import Inexpressible, target_endpoint, translate

EMBEDDINGS = "/v1/embeddings"
GEMINI, TITAN, TITAN_1, COHERE = (
    "gemini-embedding-001",
    "amazon.titan-embed-text-v2:0",
    "amazon.titan-embed-text-v1",
    "cohere.embed-v4:0",
)


def said(provider: str, model: str, **fields: Any) -> dict[str, Any]:
    return translate(provider, model, EMBEDDINGS, {"model": model, **fields})


def refused(provider: str, model: str, **fields: Any) -> str:
    with pytest.raises(Inexpressible) as error:
        said(provider, model, **fields)
    return error.value.field


def test_one_text_is_said_to_each() -> None:
    body = said("gemini", GEMINI, input=["hello"], dimensions=256, encoding_format="float")
    types.Content.model_validate(body["content"])
    assert body == {"content": {"parts": [{"text": "hello"}]}, "outputDimensionality": 256}
    assert said("bedrock", TITAN, input="hello", dimensions=256) == {"inputText": "hello", "dimensions": 256}
    assert said("bedrock", TITAN_1, input="hello") == {"inputText": "hello"}
    cohere = {"texts": ["a", "b"], "input_type": "search_document", "output_dimension": 512}
    assert said("bedrock", COHERE, input=["a", "b"], dimensions=512) == cohere


@pytest.mark.parametrize(
    ("provider", "model", "fields", "field"),
    [
        ("gemini", GEMINI, {"input": ["a", "b"]}, "input"),
        ("bedrock", TITAN, {"input": ["a", "b"]}, "input"),
        ("bedrock", COHERE, {"input": ["a"] * 97}, "input"),
        ("bedrock", COHERE, {"input": [[1, 2]]}, "input"),
        ("bedrock", COHERE, {"input": []}, "input"),
        ("bedrock", COHERE, {"input": "a", "encoding_format": "base64"}, "encoding_format"),
        ("bedrock", TITAN_1, {"input": "a", "dimensions": 5}, "dimensions"),
        ("bedrock", "cohere.embed-english-v3", {"input": "a", "dimensions": 5}, "dimensions"),
        ("bedrock", COHERE, {"input": "a", "user": "u"}, "user"),
        ("bedrock", COHERE, {"input": "a", "input_type": "x"}, "input_type"),
        ("bedrock", "meta.llama3-3-70b-instruct-v1:0", {"input": "a"}, "model"),
        ("anthropic", "claude-sonnet-5", {"input": "a"}, "endpoint"),
    ],
)
def test_what_cannot_be_said_is_named(provider: str, model: str, fields: dict[str, Any], field: str) -> None:
    assert refused(provider, model, **fields) == field


def test_a_model_that_only_embeds_answers_no_chat() -> None:
    with pytest.raises(Inexpressible, match="model"):
        translate("bedrock", TITAN, "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert target_endpoint("gemini", GEMINI, EMBEDDINGS) == "/embedContent"
    assert target_endpoint("bedrock", TITAN, EMBEDDINGS) == "/invoke"
