"""An answer as a generateContent or embedContent response, and what the faults make of it."""

import base64
from typing import Any

import orjson
from groupage.emulator.answers import Answer
from groupage.emulator.gemini.questions import EMBEDDINGS, Question

THOUGHT = "**Weighing the question** What is asked here has been asked before."
THOUGHT_TOKENS = len(THOUGHT) // 4


def native(asked: Question, made: Answer, *, cached: bool) -> dict[str, Any]:
    """OpenAI's reply, as `answers.py` made it, as Gemini's. `made` counts no thoughts; the reply does."""
    reply = orjson.loads(made.body)
    if asked.endpoint == EMBEDDINGS:
        usage = {"promptTokenCount": made.input_tokens}
        return {"embedding": {"values": reply["data"][0]["embedding"]}, "usageMetadata": usage}
    message = reply["choices"][0]["message"]
    parts: list[dict[str, Any]] = [{"text": THOUGHT, "thought": True}] if asked.shown else []
    parts += [{"text": message["content"]}] if message["content"] is not None else []
    signature = base64.b64encode(b"signature of %016x" % made.question).decode()
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        native_call = {"id": call["id"], "name": function["name"], "args": orjson.loads(function["arguments"])}
        # Gemini signs the first of several calls side by side.
        parts.append({"functionCall": native_call} | ({"thoughtSignature": signature} if at == 0 else {}))
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": _usage(made, thoughts=THOUGHT_TOKENS if asked.thinking else 0, cached=cached),
        "modelVersion": str(reply["model"]),
        "responseId": f"{made.question:016x}",
    }


def _usage(made: Answer, *, thoughts: int, cached: bool) -> dict[str, Any]:
    """Thoughts beside the candidates' tokens, cached tokens inside the prompt's, as Google counts."""
    used, produced = made.input_tokens, made.output_tokens
    usage: dict[str, Any] = {
        "promptTokenCount": used,
        "candidatesTokenCount": produced,
        "totalTokenCount": used + produced + thoughts,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": used}],
    }
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if cached:
        usage["cachedContentTokenCount"] = used // 2
    return usage


def truncate(reply: dict[str, Any]) -> None:
    """Cut the text in half, as a token limit would; embeddings stay as they are."""
    for candidate in reply.get("candidates", ()):
        candidate["finishReason"] = "MAX_TOKENS"
        for part in candidate["content"]["parts"]:
            if isinstance(part.get("text"), str) and not part.get("thought"):
                part["text"] = part["text"][: len(part["text"]) // 2]


def refuse(reply: dict[str, Any]) -> None:
    """Nothing is said (RP-16): half of them a candidate without parts, half no candidates and a reason."""
    if "candidates" not in reply:
        return
    if int(str(reply["responseId"])[-1], 16) % 2:
        reply["candidates"] = [{"finishReason": "SAFETY", "index": 0, "safetyRatings": [_RATING]}]
    else:
        del reply["candidates"]
        reply["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}


_RATING = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
