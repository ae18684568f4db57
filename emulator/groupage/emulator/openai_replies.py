"""Replies in OpenAI's shape, key by key; other providers' are made of them. `answers.py` says what is in them."""

import base64
from typing import Any, NamedTuple


class Made(NamedTuple):
    """What is known of an answer before it gets a shape."""

    model: str
    question: str
    created: int
    text: str
    calls: list[Any]
    used: int
    produced: int


def chat(made: Made) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": made.text, "refusal": None, "annotations": []}
    if made.calls:
        message |= {"content": None, "tool_calls": made.calls}
    return {
        "id": f"chatcmpl-{made.question}",
        "object": "chat.completion",
        "created": made.created,
        "model": made.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls" if made.calls else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": made.used,
            "completion_tokens": made.produced,
            "total_tokens": made.used + made.produced,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


def response(made: Made) -> Any:
    message = {
        "id": f"msg_{made.question}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": made.text, "annotations": [], "logprobs": []}],
    }
    return {
        "id": f"resp_{made.question}",
        "object": "response",
        "created_at": made.created,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": made.model,
        "output": made.calls or [message],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": made.used,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": made.produced,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": made.used + made.produced,
        },
    }


def completion(made: Made) -> Any:
    return {
        "id": f"cmpl-{made.question}",
        "object": "text_completion",
        "created": made.created,
        "model": made.model,
        "choices": [{"index": 0, "text": made.text, "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": made.used,
            "completion_tokens": made.produced,
            "total_tokens": made.used + made.produced,
        },
    }


def embeddings(body: dict[str, Any], vectors: list[list[float]], used: int) -> Any:
    written: list[Any] = list(vectors)
    if body.get("encoding_format") == "base64":
        import numpy as np

        written = [base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode() for vector in vectors]
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(written)],
        "model": body["model"],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


_CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)


def moderation(model: str, question: str, texts: list[str]) -> Any:
    results = []
    for text in texts:
        flagged = "violence" in text.lower()
        scores = dict.fromkeys(_CATEGORIES, 0.001) | {"violence": 0.9 if flagged else 0.001}
        results.append(
            {
                "flagged": flagged,
                "categories": {name: score > 0.5 for name, score in scores.items()},
                "category_scores": scores,
                "category_applied_input_types": {name: ["text"] for name in _CATEGORIES},
            }
        )
    return {"id": f"modr-{question}", "model": model, "results": results}
