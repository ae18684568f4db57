"""One thousand portable requests, the faults that befall some of them, and how each has to end, at whatever provider."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from groupage.schemas import ErrorClass, Outcome

from tests.side_by_side.providers import CHAT

REQUESTS = 1000
SHARD = 200
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass(frozen=True, slots=True)
class Ending:
    """How a request ends."""

    outcome: Outcome = Outcome.succeeded
    error: ErrorClass | None = None
    route: str = ""
    """ "" either: what is left may be too little for a batch."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One input line; `body` is None where it is no request. `form` is the kind of question, `fault` the trouble."""

    line: bytes
    id: str | None
    body: dict[str, Any] | None
    form: str
    fault: str
    ending: Ending
    labels: dict[str, str] = field(default_factory=dict)


_INVALID = Ending(Outcome.failed, ErrorClass.invalid)
_FAULTS: dict[str, tuple[dict[str, Any], Ending]] = {
    "never": ({"kind": "http", "status": 400}, _INVALID),
    "once500": ({"kind": "http", "status": 500, "times": 1}, Ending()),
    "once429": ({"kind": "http", "status": 429, "times": 1}, Ending()),
    "nobatch": ({"kind": "http", "status": 500, "routes": ["batch"]}, Ending(route="sync")),
    "missing": ({"kind": "missing", "times": 1}, Ending()),
    "damaged": ({"kind": "malformed", "times": 1}, Ending()),
    "empty": ({"kind": "empty_body"}, Ending(Outcome.unreadable, ErrorClass.unreadable)),
    "twice": ({"kind": "duplicate", "times": 1}, Ending()),
    "stray": ({"kind": "unknown_id", "times": 1}, Ending()),
    "truncated": ({"kind": "truncated"}, Ending(Outcome.truncated)),
    "refused": ({"kind": "refused"}, Ending(Outcome.refused)),
}
"""By the word that stands in the prompt: the emulator's rule, and what has to become of the request."""

FORMS = ("plain", "system", "turns", "tool", "history", "schema", "image", "odd", "limits")
ONCE_MORE = ("missing", "damaged")
"""What nobody can explain is tried in two rounds at most: not where the first round's batch expires."""
EXPIRED = 1
"""The shard that expires."""
EVERY = 9
"""Each ninth request has a fault, the kinds in turn, so that each kind meets each form."""

TOOL = {
    "name": "look_up",
    "description": "Looks a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["label", "sure"],
    "additionalProperties": False,
}

PLAN: dict[str, Any] = {
    "requests": [{"match": f"fault:{name};", **rule} for name, (rule, _) in _FAULTS.items()],
    "calls": [
        {"call": "batches.create", "action": "drop_after", "nth": [5]},
        {"call": "batches.retrieve", "action": "error", "status": 503, "every": 5},
        {"call": "files.content", "action": "cut", "nth": [2]},
    ],
    "batches": [{"effect": "expire", "at": 0.5, "tag": f"-r0-s{EXPIRED}"}],
}

POLICY = {"max_shard_requests": str(SHARD), "max_rounds": "2", "on_invalid": "skip", "poll": "300ms"}


def thousand(model: str) -> list[Asked]:
    """The same questions for each model; the last two lines are no requests."""
    names = list(_FAULTS)
    asked = []
    for n in range(REQUESTS - 2):
        fault = names[n // EVERY % len(names)] if n % EVERY == n // (EVERY * len(names)) % EVERY else ""
        if n // SHARD == EXPIRED and fault in ONCE_MORE:
            fault = ""
        form = "plain" if fault in ("truncated", "refused") else FORMS[n % len(FORMS)]
        body = {"model": model, **_question(n, form, f" fault:{fault};" if fault else "")}
        labels = {"n": str(n)} if n % 3 == 0 else {}
        line: dict[str, Any] = {"custom_id": f"r {n}/\u2028", "method": "POST", "url": CHAT, "body": body}
        if labels:
            line = {"id": f"r {n}/\u2028", "endpoint": CHAT, "body": body, "labels": labels}
        text = json.dumps(line, ensure_ascii=bool(n % 2)).encode()
        ending = _FAULTS[fault][1] if fault else Ending()
        asked.append(Asked(text, f"r {n}/\u2028", body, form, fault, ending, labels))
    asked.append(Asked(b'{"id": "no body"}', "no body", None, "", "", _INVALID))
    asked.append(Asked(b"[1, 2]", None, None, "", "", _INVALID))
    return asked


def _question(n: int, form: str, fault: str) -> dict[str, Any]:
    text = f"Question {n}: what weighs parcel {n * 7919 % 1009}?{fault}"
    user = {"role": "user", "content": text}
    if form == "system":
        return {"messages": [{"role": "system", "content": "Be exact."}, user]}
    if form == "turns":
        said = {"role": "assistant", "content": "Go on."}
        return {"messages": [{"role": "user", "content": "I have a question."}, said, user]}
    if form == "tool":
        return {"messages": [user], "tools": [{"type": "function", "function": TOOL}], "tool_choice": "required"}
    if form == "history":
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "kg"}'}}
        turns = [user, {"role": "assistant", "content": None, "tool_calls": [call]}]
        turns.append({"role": "tool", "tool_call_id": call["id"], "content": "a thousand grams"})
        return {
            "messages": [*turns, {"role": "user", "content": text}],
            "tools": [{"type": "function", "function": TOOL}],
        }
    if form == "schema":
        wanted = {"name": "label", "schema": SCHEMA, "strict": True}
        return {"messages": [user], "response_format": {"type": "json_schema", "json_schema": wanted}}
    if form == "image":
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}}
        return {"messages": [{"role": "user", "content": [image, {"type": "text", "text": text}]}]}
    if form == "odd":
        return {"messages": [{"role": "user", "content": f'{text} \u2028 é日 "quoted" \\ \n end'}]}
    if form == "limits":
        return {"messages": [user], "max_completion_tokens": 30, "stop": ["END"]}
    return {"messages": [user]}


def outcomes(asked: list[Asked]) -> Counter[str]:
    return Counter(one.ending.outcome.value for one in asked)
