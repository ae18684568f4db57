"""Answers that are a function of the question, so that a wrong join shows.

The question is what is asked (messages, input, prompt), without model or limits. An answer quotes
its first words and carries its fingerprint::

    Re: "Translate 17 into French" [9f86d081884c7d65] Considered and answered ...

One answer in 32 holds U+2028, U+2029 and U+0085 raw and characters of other scripts: legal inside a
JSON string, and cut by whoever splits lines with str.splitlines (docs/cases.md RP-01).
"""

import hashlib
import importlib
from binascii import hexlify
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import orjson
from groupage.emulator import structured
from groupage.emulator.openai_replies import Made, chat, completion, embeddings, moderation, response

ANSWER_BYTES = 320
EXCERPT_CHARS = 48
EMBEDDING_DIMENSIONS = 8
EMBEDDING_DIMENSIONS_MAX = 3072
_VARIANTS = 32
_TEXT = (
    "considered and answered with care the sources agree on the main point while the details differ between "
    "authors and years so the summary keeps to what all of them state and names the open questions at the end "
    "further reading is listed under the usual headings and figures are rounded to the nearest sensible unit "
    "as always the reader is invited to check the numbers against the original tables before using them"
)
_WORDS = _TEXT.split()
_ODD = "line\u2028paragraph\u2029next\u0085é—日本語 "


class BadBody(ValueError):
    """The body cannot be answered: HTTP 400 in a sync call, an error line in a batch."""

    def __init__(self, message: str, param: str | None) -> None:
        super().__init__(message)
        self.param = param


class BadRecord(BadBody):
    """A BadBody in a batch whose lines repeat the request; `echo` is what comes back beside the error."""

    def __init__(self, error: BadBody, echo: bytes) -> None:
        super().__init__(str(error), error.param)
        self.echo = echo


class Answer(NamedTuple):
    """`question` is the 64-bit fingerprint, `body` the provider's reply as JSON."""

    question: int
    input_tokens: int
    output_tokens: int
    body: bytes


class Filler(NamedTuple):
    text: str
    escaped: bytes


def _fillers(size: int) -> list[Filler]:
    made = []
    for variant in range(_VARIANTS):
        words, length, at = [], 0, variant
        while length < size - EXCERPT_CHARS // 2 - 24 + variant:
            words.append(_WORDS[at % len(_WORDS)])
            length += len(words[-1]) + 1
            at += 1
        text = (_ODD if variant == 0 else "") + " ".join(words).capitalize() + "."
        made.append(Filler(text, orjson.dumps(text)[1:-1]))
    return made


_FILLERS: dict[int, list[Filler]] = {}


def _fillers_of(size: int) -> list[Filler]:
    if size not in _FILLERS:
        _FILLERS[size] = _fillers(size)
    return _FILLERS[size]


def fingerprint(endpoint: str) -> Callable[[bytes], Any]:
    base = hashlib.blake2b(endpoint.encode() + b"\0", digest_size=8)

    def of(prompt: bytes) -> Any:
        digest = base.copy()
        digest.update(prompt)
        return digest

    return of


_FINGERPRINTS = {
    endpoint: fingerprint(endpoint)
    for endpoint in (
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/completions",
        "/v1/moderations",
    )
}


_FOREIGN = {
    "/v1/messages": "groupage.emulator.anthropic.answers",
    "bedrock": "groupage.emulator.bedrock.answers",
    "gemini": "groupage.emulator.gemini.answers",
    "vertex": "groupage.emulator.vertex.answers",
}


def _prompt(endpoint: str, body: dict[str, Any]) -> Any:
    """The part of a body that is the question. Raises BadBody where it is missing."""
    key = {"/v1/chat/completions": "messages", "/v1/completions": "prompt"}.get(endpoint, "input")
    prompt = body.get(key)
    if not prompt:
        raise BadBody(f"Missing required parameter: '{key}'.", key)
    if key == "messages" and not (isinstance(prompt, list) and all(isinstance(one, dict) for one in prompt)):
        raise BadBody("Invalid type for 'messages': expected an array of objects.", "messages")
    if endpoint == "/v1/responses" and body.get("instructions"):
        return [body["instructions"], prompt]
    return prompt


def words_of(prompt: Any) -> str:
    """The last text in a prompt: a string, a message, or a list that ends with one."""
    while isinstance(prompt, (list, dict)) and prompt:
        prompt = prompt[-1] if isinstance(prompt, list) else prompt.get("content") or prompt.get("text") or ""
    return prompt if isinstance(prompt, str) else str(prompt)


def question_of(endpoint: str, body: dict[str, Any]) -> str:
    """The question's fingerprint, 16 hex digits: what the ledger counts payments by."""
    if endpoint not in _FINGERPRINTS:
        return _foreign(endpoint).question_of(body)
    prompt = orjson.dumps(_prompt(endpoint, body), option=orjson.OPT_SORT_KEYS)
    return str(_FINGERPRINTS[endpoint](prompt).hexdigest())


class _Foreign(Protocol):
    """A module that answers for another provider than OpenAI."""

    def question_of(self, body: dict[str, Any]) -> str: ...

    def expected_text(self, body: dict[str, Any], size: int) -> str: ...

    def answerer(self, size: int) -> "Callable[[dict[str, Any], int], Answer]": ...


def _foreign(endpoint: str) -> _Foreign:
    return cast("_Foreign", importlib.import_module(_FOREIGN[endpoint]))


def _cap(body: dict[str, Any]) -> int | None:
    for key in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(body.get(key), int) and body[key]:
            return max(1, int(body[key]))
    return None


def plain_text(question: str, excerpt: str, body: dict[str, Any], size: int) -> str:
    filler = _fillers_of(size)[int(question, 16) % _VARIANTS]
    text = f'Re: "{excerpt}" [{question}] {filler.text}'
    cap = _cap(body)
    # A model that is told to be brief is brief; being cut off in mid-sentence is a fault of the plan.
    return text if cap is None else text[: cap * 4]


def expected_text(endpoint: str, body: dict[str, Any], size: int = ANSWER_BYTES) -> str:
    """What a healthy answer says. For chat, responses and completions; structured output is JSON text."""
    if endpoint not in _FINGERPRINTS:
        return _foreign(endpoint).expected_text(body, size)
    question = question_of(endpoint, body)
    text = plain_text(question, words_of(_prompt(endpoint, body))[:EXCERPT_CHARS], body, size)
    schema = structured.wanted(endpoint, body)
    return text if schema is None else structured.json_text(schema, text, int(question, 16))


def expected_embeddings(body: dict[str, Any]) -> list[list[float]]:
    """One vector of length 1 per input, `dimensions` long."""
    given = body.get("input")
    inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    size = body.get("dimensions") or EMBEDDING_DIMENSIONS
    if not isinstance(size, int) or not 1 <= size <= EMBEDDING_DIMENSIONS_MAX:
        raise BadBody(f"Invalid 'dimensions': expected 1 to {EMBEDDING_DIMENSIONS_MAX}.", "dimensions")
    vectors = []
    for one in inputs:
        raw = hashlib.shake_128(orjson.dumps(one)).digest(2 * size)
        values = [int.from_bytes(raw[at : at + 2], "big") - 32768 for at in range(0, 2 * size, 2)]
        norm = sum(value * value for value in values) ** 0.5 or 1.0
        vectors.append([round(value / norm, 6) for value in values])
    return vectors


_CHAT = (
    b'{"id":"chatcmpl-%b","object":"chat.completion","created":%d,"model":%b,"choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Re: \\"%b\\" [%b] %b","refusal":null,"annotations":[]},"logprobs":null,'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,'
    b'"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},'
    b'"service_tier":"default","system_fingerprint":null}'
)
_PLAIN_KEYS = frozenset(
    [
        "model",
        "messages",
        "temperature",
        "top_p",
        "seed",
        "user",
        "metadata",
        "stop",
        "reasoning_effort",
        "store",
        "max_tokens",
        "max_completion_tokens",
    ]
)


def answerer(endpoint: str, size: int = ANSWER_BYTES) -> Callable[[dict[str, Any], int], Answer]:
    """A function of (body, created) that answers. It raises BadBody."""
    if endpoint == "/v1/chat/completions":
        return _chat_answerer(size)
    if endpoint not in _FINGERPRINTS:
        return _foreign(endpoint).answerer(size)

    def answer(body: dict[str, Any], created: int) -> Answer:
        return _answer_slowly(endpoint, body, created, size)

    return answer


def _chat_answerer(size: int) -> Callable[[dict[str, Any], int], Answer]:
    """Plain chat bodies take a template: this is what batches of a million lines go through."""
    dumps, sort = orjson.dumps, orjson.OPT_SORT_KEYS
    from_bytes, new = int.from_bytes, tuple.__new__
    base = hashlib.blake2b(b"/v1/chat/completions\0", digest_size=8)
    fillers = _fillers_of(size)
    escaped = [filler.escaped for filler in fillers]
    # Escaping ASCII text changes its length only by backslashes; odd variants are counted as characters.
    lengths = [len(filler.text) for filler in fillers]
    plain_keys = _PLAIN_KEYS
    models: dict[str, bytes] = {}

    def answer(body: dict[str, Any], created: int) -> Answer:
        messages = body.get("messages")
        last = messages[-1] if messages.__class__ is list and messages else None
        content = last.get("content") if last.__class__ is dict else None
        if content.__class__ is not str or not content or not plain_keys.issuperset(body):
            return _answer_slowly("/v1/chat/completions", body, created, size)
        model = body.get("model")
        if model.__class__ is not str:
            return _answer_slowly("/v1/chat/completions", body, created, size)
        prompt = dumps(messages, option=sort)
        hasher = base.copy()
        hasher.update(prompt)
        digest = hasher.digest()
        question, text = from_bytes(digest, "big"), hexlify(digest)
        variant = question % _VARIANTS
        excerpt = content[:EXCERPT_CHARS]
        used = (len(prompt) + 3) // 4
        length = len(excerpt) + 26 + lengths[variant]
        cap = body.get("max_tokens") or body.get("max_completion_tokens")
        if cap and (cap.__class__ is not int or length > 4 * cap):
            return _answer_slowly("/v1/chat/completions", body, created, size)
        made = (length + 3) // 4
        name = models.get(model)
        if name is None:
            name = models[model] = dumps(model)
        words = (text, created, name, dumps(excerpt)[1:-1], text, escaped[variant], used, made, used + made)
        # As Answer(...), which goes through a Python function.
        return new(Answer, (question, used, made, _CHAT % words))

    return answer


def _answer_slowly(endpoint: str, body: dict[str, Any], created: int, size: int) -> Answer:
    try:
        return _answer_anything(endpoint, body, created, size)
    except (TypeError, AttributeError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
        # Whatever a body holds, it is the caller's mistake and no reason to stop.
        raise BadBody(f"Invalid request body: {error}", None) from error


def _answer_anything(endpoint: str, body: dict[str, Any], created: int, size: int) -> Answer:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadBody("you must provide a model parameter", "model")
    prompt = orjson.dumps(_prompt(endpoint, body), option=orjson.OPT_SORT_KEYS)
    question = str(_FINGERPRINTS[endpoint](prompt).hexdigest())
    used = (len(prompt) + 3) // 4
    if endpoint == "/v1/embeddings":
        return Answer(int(question, 16), used, 0, orjson.dumps(embeddings(body, expected_embeddings(body), used)))
    if endpoint == "/v1/moderations":
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        reply = moderation(body["model"], question, [words_of(one) for one in inputs])
        return Answer(int(question, 16), used, 0, orjson.dumps(reply))
    text = expected_text(endpoint, body, size)
    calls = structured.tool_calls(endpoint, body, text, int(question, 16))
    made = Made(body["model"], question, created, text, calls, used, (len(text) + 3) // 4)
    build = {"/v1/chat/completions": chat, "/v1/responses": response, "/v1/completions": completion}[endpoint]
    return Answer(int(question, 16), used, made.produced, orjson.dumps(build(made)))
