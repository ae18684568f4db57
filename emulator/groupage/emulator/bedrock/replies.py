"""An answer in the shape of the model's family, and what the faults `truncated` and `refused` make of it."""

from collections.abc import Callable
from typing import Any

import orjson
from groupage.emulator import outcomes
from groupage.emulator.answers import Answer


def native(shape: str, made: Answer) -> dict[str, Any]:
    """OpenAI's reply, as `answers.py` made it, as the family's own."""
    return _SHAPES[shape](orjson.loads(made.body), made)


def _said(reply: dict[str, Any]) -> tuple[str | None, list[dict[str, Any]]]:
    """(text, calls as (id, name, arguments) objects)."""
    message = reply["choices"][0]["message"]
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "input": orjson.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls") or ()
    ]
    return message["content"], calls


def _claude(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    text, calls = _said(reply)
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text is not None else []
    content += [{"type": "tool_use", **call} for call in calls]
    return {
        "model": str(reply["model"]).rpartition("anthropic.")[2],
        "id": f"msg_bdrk_{made.question:016x}",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": made.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": made.output_tokens,
        },
    }


def _message(reply: dict[str, Any]) -> dict[str, Any]:
    text, calls = _said(reply)
    content: list[dict[str, Any]] = [{"text": text}] if text is not None else []
    content += [{"toolUse": {"toolUseId": call["id"], "name": call["name"], "input": call["input"]}} for call in calls]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if calls else "end_turn",
    }


def _converse(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    used, produced = made.input_tokens, made.output_tokens
    usage = {"inputTokens": used, "outputTokens": produced, "totalTokens": used + produced}
    return _message(reply) | {"usage": usage, "metrics": {"latencyMs": 1}}


def _nova(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    used, produced = made.input_tokens, made.output_tokens
    usage = {"inputTokens": used, "outputTokens": produced, "totalTokens": used + produced}
    return _message(reply) | {"usage": usage | {"cacheReadInputTokenCount": 0, "cacheWriteInputTokenCount": 0}}


def _openai(reply: dict[str, Any], _made: Answer) -> dict[str, Any]:
    return reply


def _llama(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    return {
        "generation": _said(reply)[0],
        "prompt_token_count": made.input_tokens,
        "generation_token_count": made.output_tokens,
        "stop_reason": "stop",
    }


def _titan(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    result = {"tokenCount": made.output_tokens, "outputText": _said(reply)[0], "completionReason": "FINISH"}
    return {"inputTextTokenCount": made.input_tokens, "results": [result]}


def _mistral(reply: dict[str, Any], _made: Answer) -> dict[str, Any]:
    return {"outputs": [{"text": _said(reply)[0], "stop_reason": "stop"}]}


def _command(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    return {"response_id": f"{made.question:016x}", "text": _said(reply)[0], "finish_reason": "COMPLETE"}


def _titan_embed(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    vector = reply["data"][0]["embedding"]
    return {"embedding": vector, "embeddingsByType": {"float": vector}, "inputTextTokenCount": made.input_tokens}


def _cohere_embed(reply: dict[str, Any], made: Answer) -> dict[str, Any]:
    vectors = [one["embedding"] for one in reply["data"]]
    return {"id": f"{made.question:016x}", "embeddings": vectors, "response_type": "embeddings_floats"}


_SHAPES: dict[str, Callable[[dict[str, Any], Answer], dict[str, Any]]] = {
    "claude": _claude,
    "converse": _converse,
    "nova": _nova,
    "openai": _openai,
    "llama": _llama,
    "titan": _titan,
    "mistral": _mistral,
    "command": _command,
    "titan-embed": _titan_embed,
    "cohere-embed": _cohere_embed,
}


def _half(texts: list[dict[str, Any]], key: str) -> None:
    for one in texts:
        if isinstance(one.get(key), str):
            one[key] = one[key][: len(one[key]) // 2]


def truncate(reply: dict[str, Any]) -> None:
    """Cut the text in half, as a token limit would; embeddings stay as they are."""
    if "choices" in reply:
        outcomes.truncate(reply)
    elif "content" in reply:
        reply["stop_reason"] = "max_tokens"
        _half(reply["content"], "text")
    elif "output" in reply:
        reply["stopReason"] = "max_tokens"
        _half(reply["output"]["message"]["content"], "text")
    elif "generation" in reply:
        reply["stop_reason"] = "length"
        _half([reply], "generation")
    elif "results" in reply:
        reply["results"][0]["completionReason"] = "LENGTH"
        _half(reply["results"], "outputText")
    elif "outputs" in reply:
        reply["outputs"][0]["stop_reason"] = "length"
        _half(reply["outputs"], "text")
    elif "finish_reason" in reply:
        reply["finish_reason"] = "MAX_TOKENS"
        _half([reply], "text")


def refuse(reply: dict[str, Any]) -> None:
    """Nothing is said, and the reason says why; where a family has no word for it a guardrail steps in."""
    if "choices" in reply:
        outcomes.refuse(reply)
    elif "content" in reply:
        reply |= {"stop_reason": "refusal", "content": []}
    elif "output" in reply:
        reply["stopReason"] = "content_filtered"
        reply["output"]["message"]["content"] = []
    elif "results" in reply:
        reply["results"][0] |= {"completionReason": "CONTENT_FILTERED", "outputText": ""}
    else:
        reply["amazon-bedrock-guardrailAction"] = "INTERVENED"
