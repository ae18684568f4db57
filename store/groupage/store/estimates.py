"""Guesses at a request's size in tokens, for quotas and cost estimates; never a bill."""

from typing import Any

BYTES_PER_TOKEN = 4
"""The usual rule of thumb for English; UTF-8 bytes rather than characters, so that CJK is not
underestimated threefold."""

ATTACHMENT_TOKENS = 1000
"""One image, file or sound: its bytes say nothing about its tokens (a large image: some 765 to 1,100)."""

PLAIN_BODY_FIELDS_MAX = 6
"""A body of messages with at most so many fields is looked at for its messages alone, unless it has tools or a format."""

DEFAULT_OUTPUT_TOKENS = 1024
"""Output limit that is assumed where a body states none."""

_LIMIT_NAMES = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_ATTACHMENTS = frozenset({"image_url", "input_audio", "file", "file_data", "file_url", "audio_url", "video_url"})
_NO_TEXT = frozenset({"type", "role", "id", "call_id", "detail", "cache_control"})
_PROMPT_FIELDS = ("messages", "input", "prompt", "instructions", "tools", "response_format", "text", "functions")
_NATIVE_PROMPT = ("messages", "system", "contents", "systemInstruction", "system_instruction", "tools", "toolConfig")
_NATIVE_EMBEDDINGS = ("content", "inputText", "texts")
_NATIVE_ATTACHMENTS = frozenset({"source", "inlineData", "inline_data", "fileData", "file_data"})
"""Where a native body holds an image or file: an object with base64 or an address in it."""
_NATIVE_LIMITS = ("max_tokens", "max_completion_tokens", "max_gen_len", "maxTokens", "maxOutputTokens", "maxTokenCount")
_NATIVE_CONFIGS = ("inferenceConfig", "generationConfig", "generation_config", "textGenerationConfig")
_WITHOUT_OUTPUT = frozenset({"/v1/embeddings", "/v1/moderations"})


def prompt_tokens(body: dict[str, Any]) -> int:
    """At least 1. Text of the prompt's fields in UTF-8 bytes / 4; attachments at a flat rate."""
    total = 0
    messages = body.get("messages")
    if (
        type(messages) is list
        and len(body) <= PLAIN_BODY_FIELDS_MAX
        and "tools" not in body
        and "response_format" not in body
    ):
        # Most requests are this: a few messages whose content is plain text.
        for message in messages:
            content = message.get("content") if type(message) is dict else message
            if type(content) is not str:
                total += _text_bytes(message)
            elif content.isascii():
                total += len(content)
            else:
                total += len(content.encode("utf-8", "surrogatepass"))
    else:
        for name in _PROMPT_FIELDS:
            if name in body:
                total += _text_bytes(body[name])
    return total // BYTES_PER_TOKEN + 1


def output_tokens(endpoint: str, body: dict[str, Any]) -> int:
    """The body's own output limit, or the default guess; times the number of choices it asks for."""
    if endpoint in _WITHOUT_OUTPUT:
        return 0
    limit = DEFAULT_OUTPUT_TOKENS
    for name in _LIMIT_NAMES:
        stated = body.get(name)
        if type(stated) is int and stated > 0:
            limit = stated
            break
    choices = body.get("n")
    return limit * choices if type(choices) is int and choices > 1 else limit


def native_prompt_tokens(body: dict[str, Any]) -> int:
    """As `prompt_tokens`, for a body in a provider's own words (Anthropic, Bedrock, Gemini)."""
    fields = _NATIVE_PROMPT + _NATIVE_EMBEDDINGS + ("prompt",)
    return sum(_native_bytes(body[name]) for name in fields if name in body) // BYTES_PER_TOKEN + 1


def native_output_tokens(endpoint: str, body: dict[str, Any]) -> int:
    """As `output_tokens`, for a body in a provider's own words."""
    # Titan's chat body has an inputText, too, but a textGenerationConfig with it.
    if endpoint == "/embedContent" or "texts" in body or ("inputText" in body and "textGenerationConfig" not in body):
        return 0
    places = [body, *(body[name] for name in _NATIVE_CONFIGS if type(body.get(name)) is dict)]
    for place in places:
        for name in _NATIVE_LIMITS:
            stated = place.get(name)
            if type(stated) is int and stated > 0:
                return stated
    return DEFAULT_OUTPUT_TOKENS


def _native_bytes(value: Any) -> int:
    if type(value) is str:
        return len(value.encode("utf-8", "surrogatepass"))
    if type(value) is list:
        return sum(map(_native_bytes, value))
    if type(value) is dict:
        total = 0
        for name, inner in value.items():
            if name in _NATIVE_ATTACHMENTS and type(inner) is dict:
                total += ATTACHMENT_TOKENS * BYTES_PER_TOKEN
            elif name not in _NO_TEXT:
                total += _native_bytes(inner)
        return total
    return 0


def _text_bytes(value: Any) -> int:
    if type(value) is str:
        if value.startswith("data:"):
            return ATTACHMENT_TOKENS * BYTES_PER_TOKEN
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if type(value) is list:
        if value and type(value[0]) is int:
            return len(value) * BYTES_PER_TOKEN  # a prompt given as tokens
        return sum(map(_text_bytes, value))
    if type(value) is dict:
        total = 0
        for name, inner in value.items():
            if name in _ATTACHMENTS:
                total += ATTACHMENT_TOKENS * BYTES_PER_TOKEN
            elif name not in _NO_TEXT:
                total += _text_bytes(inner)
        return total
    return 0
