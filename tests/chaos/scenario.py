"""What one run is: requests, faults, policy and kills, all drawn from one seed.

The same seed makes the same scenario; when a kill falls is decided by the machine, so a repeated run
is the same in kind, not to the microsecond.
"""

import json
import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from groupage.emulator.dialects import dialect_of
from groupage.schemas import ErrorClass, Outcome

from tests.side_by_side.providers import CHAT, PROVIDERS, Provider

MARKER = "zebra-Ωmega-7319"
"""In every prompt: nothing that Temporal stores may hold it."""
TENANT = "chaos"


class Victim(StrEnum):
    worker = "worker"
    client = "client"
    server = "server"


class Point(StrEnum):
    """A moment that is recognised by what stands in the store and at the provider (points.py)."""

    accepting = "accepting"
    preparing = "preparing"
    planning = "planning"
    uploading = "uploading"
    uploaded = "uploaded"
    created = "created"
    waiting = "waiting"
    downloading = "downloading"
    storing_results = "storing results"
    cancelling = "cancelling"
    syncing = "syncing"
    finalizing = "finalizing"
    writing_output = "writing output"
    random = "random moment"


class Kind(StrEnum):
    """How the job gets its answers."""

    batches = "batches"
    """By batches alone; what fails is sent by batch again."""
    sync_round = "sync round"
    """One batch round, whose expired or cancelled rest is sent by sync."""
    escalation = "escalation"
    """Batches stall and the deadline nears: cancel, harvest, sync."""


@dataclass(frozen=True, slots=True)
class Kill:
    """When the point is reached, wait `delay_s`, kill all victims at once, start them again after `pause_s`."""

    victims: tuple[Victim, ...]
    point: Point
    delay_s: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """One input line. `fault` names the fault that its prompt draws on itself, "" none; `body` is None for a bad line."""

    text: bytes
    id: str | None
    endpoint: str
    body: dict[str, Any] | None
    fault: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run. `policy` are the fields for --policy; `plan` is the emulator's fault plan."""

    seed: int
    number: int
    provider: Provider
    kind: Kind
    lines: list[Line]
    plan: dict[str, Any]
    policy: dict[str, str]
    deadline: str
    kills: list[Kill]
    embedded: bool = False
    """`groupage run` alone, with the server and the worker that it brings; the worker is the client then."""
    cancel_after_s: float | None = None
    """A person cancels a batch in the provider's console so long after it was created."""
    batch_effects: tuple[str, ...] = ()
    call_faults: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"run-{self.seed}-{self.number}"

    @property
    def input(self) -> bytes:
        return b"".join(line.text + b"\n" for line in self.lines)

    def describe(self) -> str:
        kills = ", ".join(f"{'+'.join(kill.victims)} at {kill.point}" for kill in self.kills)
        with_ = ", ".join((*self.batch_effects, *self.call_faults))
        return f"{self.kind}, {sum(1 for line in self.lines if line.text.strip())} lines; kills: {kills}; faults: {with_ or 'in lines only'}"


@dataclass(frozen=True, slots=True)
class LineFault:
    """What befalls a marked request, and how it may end because of it."""

    rule: dict[str, Any]
    outcomes: frozenset[Outcome] = frozenset({Outcome.succeeded})
    classes: frozenset[ErrorClass] = field(default_factory=frozenset)


_ONCE_MORE = frozenset({Outcome.succeeded, Outcome.failed, Outcome.unreadable})
LINE_FAULTS: dict[str, LineFault] = {
    "error500": LineFault({"kind": "http", "status": 500, "times": 2}),
    "error429": LineFault({"kind": "http", "status": 429, "times": 1}),
    "error503": LineFault({"kind": "http", "status": 503, "times": 1}),
    "bad400": LineFault({"kind": "http", "status": 400}, frozenset({Outcome.failed}), frozenset({ErrorClass.invalid})),
    "statuszero": LineFault(
        {"kind": "status_zero", "times": 1}, _ONCE_MORE, frozenset({ErrorClass.unknown, ErrorClass.transient})
    ),
    "missing": LineFault({"kind": "missing", "times": 1}, _ONCE_MORE, frozenset({ErrorClass.missing})),
    "duplicate": LineFault({"kind": "duplicate", "times": 1}),
    "stray": LineFault({"kind": "unknown_id", "times": 1}),
    "truncated": LineFault({"kind": "truncated"}, frozenset({Outcome.truncated})),
    "refused": LineFault({"kind": "refused"}, frozenset({Outcome.refused})),
    # Not billed: a line that is paid for, cannot be read and is sent again is the provider's doing.
    "emptybody": LineFault(
        {"kind": "empty_body", "times": 1, "billed": False}, _ONCE_MORE, frozenset({ErrorClass.unreadable})
    ),
    "badutf8": LineFault(
        {"kind": "invalid_utf8", "times": 1, "billed": False},
        _ONCE_MORE,
        # Where no id can be read the line is quarantined and its request is missing.
        frozenset({ErrorClass.unreadable, ErrorClass.missing}),
    ),
    "malformed": LineFault(
        {"kind": "malformed", "times": 1, "billed": False},
        _ONCE_MORE,
        frozenset({ErrorClass.unreadable, ErrorClass.missing}),
    ),
    "noobject": LineFault(
        {"kind": "not_an_object", "times": 1, "billed": False},
        _ONCE_MORE,
        frozenset({ErrorClass.unreadable, ErrorClass.missing}),
    ),
}
"""By the word that stands in the prompt. Fixed: each run draws some of them."""

_CALL_FAULTS: dict[str, dict[str, Any]] = {
    "create reply lost": {"call": "batches.create", "action": "drop_after", "times": 1},
    "create 500 though accepted": {"call": "batches.create", "action": "error_after", "status": 500, "times": 1},
    "create refused connection": {"call": "batches.create", "action": "drop_before", "times": 1},
    "upload reply lost": {"call": "files.create", "action": "drop_after", "times": 1},
    "download cut": {"call": "files.content", "action": "cut", "times": 2},
    "download cut at a line": {"call": "files.content", "action": "cut_clean", "line_end": True, "times": 1},
    "poll 500": {"call": "batches.retrieve", "action": "error", "status": 500, "times": 2},
    "poll HTML": {"call": "batches.retrieve", "action": "html", "times": 1},
    "poll reset": {"call": "batches.retrieve", "action": "drop_before", "times": 1},
    "batch visible late": {"call": "batches.create", "action": "lag", "seconds": "400ms", "times": 1},
    "sync reply lost": {"call": "sync", "action": "drop_after", "times": 1},
    "delete 500": {"call": "files.delete", "action": "error", "status": 500, "times": 1},
}
_BATCH_FAULTS: dict[str, dict[str, Any]] = {
    "late output": {"effect": "late_output", "seconds": "300ms", "times": 1},
    "null counts": {"effect": "counts", "counts": "null", "times": 1},
    "zero counts": {"effect": "counts", "counts": "zero", "times": 1},
    "optimistic counts": {"effect": "counts", "counts": "optimistic", "times": 1},
    "token limit": {"effect": "token_limit", "times": 1},
    "unknown status": {"effect": "status_word", "during": "in_progress", "word": "paused", "times": 1},
}

_POINTS: dict[Kind, tuple[Point, ...]] = {
    Kind.batches: (
        Point.accepting,
        Point.preparing,
        Point.planning,
        Point.uploading,
        Point.uploaded,
        Point.created,
        Point.waiting,
        Point.downloading,
        Point.storing_results,
        Point.finalizing,
        Point.writing_output,
        Point.random,
    ),
    Kind.sync_round: (Point.created, Point.downloading, Point.syncing, Point.syncing, Point.finalizing, Point.random),
    Kind.escalation: (Point.cancelling, Point.syncing, Point.syncing, Point.storing_results, Point.random),
}
_CLIENT_POINTS = (Point.accepting, Point.writing_output)
"""Where the client is at work: it is the victim there, mostly."""


def make_scenario(seed: int, number: int, provider: Provider = PROVIDERS["openai"]) -> Scenario:
    """Run `number` (from 0) of a series. Kinds and points take turns, so that a short series has all of them."""
    draw = random.Random(f"{seed}/{number}")
    kind = (Kind.batches, Kind.sync_round, Kind.batches, Kind.escalation, Kind.sync_round)[number % 5]
    points = tuple(point for point in _POINTS[kind] if provider.uploads or point is not Point.uploading)
    kills = [_kill(draw, points[(number // 2 + number // 5) % len(points)])]
    if draw.random() < 0.35:
        order = list(Point)
        later = [point for point in points if order.index(point) >= order.index(kills[0].point)]
        kills.append(_kill(draw, draw.choice(later)))
    lines = _lines(draw, seed, number, provider)
    plan, effects, calls = _plan(draw, kind, lines, kills, provider)
    policy, deadline = _policy(kind, len(lines))
    return Scenario(
        seed=seed,
        number=number,
        provider=provider,
        kind=kind,
        lines=lines,
        plan=plan,
        policy=policy,
        deadline=deadline,
        kills=kills,
        embedded=number % 8 == 6,
        cancel_after_s=draw.uniform(0.1, 0.6) if kind is Kind.sync_round and draw.random() < 0.3 else None,
        batch_effects=tuple(effects),
        call_faults=tuple(calls),
    )


def _kill(draw: random.Random, point: Point) -> Kill:
    chance = draw.random()
    if point in _CLIENT_POINTS:
        victims: tuple[Victim, ...] = (Victim.client,) if chance < 0.8 else (Victim.client, Victim.server)
    elif chance < 0.55:
        victims = (Victim.worker,)
    elif chance < 0.70:
        victims = (Victim.server,)
    elif chance < 0.80:
        victims = (Victim.client,)
    elif chance < 0.90:
        victims = (Victim.worker, Victim.server)
    elif chance < 0.95:
        victims = (Victim.worker, Victim.client)
    else:
        victims = (Victim.worker, Victim.client, Victim.server)
    delay_s = draw.uniform(0.05, 4.0) if point is Point.random else draw.choice((0.0, 0.0, draw.uniform(0, 0.02)))
    return Kill(victims, point, delay_s, draw.choice((0.0, draw.uniform(0, 0.5))))


def _lines(draw: random.Random, seed: int, number: int, provider: Provider) -> list[Line]:
    count = draw.randint(100, 160)
    names = draw.sample(sorted(LINE_FAULTS), k=5)
    fault_at = {at: draw.choice(names) for at in draw.sample(range(count), k=count // 8)}
    two_groups = draw.random() < 0.25
    lines: list[Line] = []
    for at in range(count):
        fault = fault_at.get(at, "")
        endpoint = provider.endpoints[-1] if two_groups and at % 3 == 0 else CHAT
        lines.append(_line(seed, number, at, endpoint, fault, provider.model))
    if draw.random() < 0.4:
        bad = (b'{"id": "cut', b"[1, 2]", b'{"prompt": "no id"}', lines[0].text)
        for text in draw.sample(bad, k=2):
            lines.insert(draw.randint(1, len(lines)), Line(text, None, CHAT, None, "invalid"))
    if draw.random() < 0.4:
        lines.insert(draw.randint(0, len(lines)), Line(b"", None, CHAT, None, "blank"))
    return lines


def _line(seed: int, number: int, at: int, endpoint: str, fault: str, model: str) -> Line:
    words = f"\u2028 fault:{fault};" if fault else ""
    prompt = f"{number}.{at} of series {seed}: what does {MARKER} mean?{words}"
    id_ = f"q{at}" if at % 7 else f"q {at}/é\u2028"
    if endpoint == CHAT:
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    else:
        body = {"model": model, "input": prompt}
    if at % 2:
        line = {"custom_id": id_, "method": "POST", "url": endpoint, "body": body}
    else:
        line = {"id": id_, "endpoint": endpoint, "body": body, "labels": {"n": str(at)}}
    return Line(json.dumps(line, ensure_ascii=bool(at % 3)).encode(), id_, endpoint, body, fault)


def _plan(
    draw: random.Random, kind: Kind, lines: list[Line], kills: list[Kill], provider: Provider
) -> tuple[dict[str, Any], list[str], list[str]]:
    used = sorted({line.fault for line in lines if line.fault in LINE_FAULTS})
    requests = [{"match": f"fault:{name};", **LINE_FAULTS[name].rule} for name in used]
    calls: list[dict[str, Any]] = []
    batches: list[dict[str, Any]] = []
    points = {kill.point for kill in kills}
    # Slow where somebody is to be killed: the point lasts long enough to be seen. First match wins.
    if Point.uploading in points:
        calls.append({"call": "files.create", "action": "slow", "seconds": "700ms", "times": 2})
    if Point.uploaded in points:
        # Accepted only when its caller is dead, and after the successor has looked for it.
        calls.append({"call": "batches.create", "action": "late", "seconds": "1200ms", "times": 2})
    if Point.created in points:
        calls.append({"call": "batches.create", "action": "slow", "seconds": "900ms", "times": 2})
    if Point.downloading in points:
        calls.append({"call": "files.content", "action": "trickle", "seconds": "700ms", "times": 2})
    if kind is not Kind.batches:
        calls.append({"call": "sync", "action": "slow", "seconds": "250ms", "share": 0.7})
    known = [name for name, rule in _CALL_FAULTS.items() if rule["call"] in provider.calls]
    call_names = draw.sample(sorted(known), k=draw.choice((0, 1, 1, 2)))
    calls += [_CALL_FAULTS[name] for name in call_names]
    strange = dialect_of(provider.dialect).unknown_effects
    possible = [name for name, rule in _BATCH_FAULTS.items() if rule["effect"] not in strange]
    effects = draw.sample(sorted(possible), k=draw.choice((0, 0, 1, 1)))
    batches += [_BATCH_FAULTS[name] for name in effects]
    if kind is Kind.sync_round:
        share = draw.uniform(0.2, 0.8)
        batches.append({"effect": "expire", "at": round(share, 2), "nth": [1, 2]})
        effects.append("expired")
    elif kind is Kind.escalation:
        batches.append({"effect": "stall", "at": round(draw.uniform(0.1, 0.3), 2), "share": 1})
        effects.append("stalled")
        if draw.random() < 0.3:
            batches.append({"effect": "cancel_loses", "at": 0.3, "nth": [1]})
            effects.append("cancel loses lines")
        elif draw.random() < 0.3:
            batches.append({"effect": "slow_cancel", "seconds": "12s", "nth": [1]})
            effects.append("cancelled too late")
    elif draw.random() < 0.4:
        batches.append({"effect": "expire", "at": round(draw.uniform(0.2, 0.8), 2), "nth": [1]})
        effects.append("expired")
    return (
        {"seed": draw.randint(1, 10**6), "requests": requests, "calls": calls, "batches": batches},
        effects,
        call_names,
    )


ESCALATION_SPAN_S = 54.0
_ESCALATE_AT_S = 19.0
"""With less than 15 s between planning and this moment the policy does not try a batch at all (HOPELESS)."""


def _policy(kind: Kind, count: int) -> tuple[dict[str, str], str]:
    policy = {
        "poll": "200ms",
        "on_invalid": "skip",
        "max_shard_requests": str(-(-count // 4)),
        "sync_concurrency": "12",
        "sync_latency": "300ms",
        "sync_timeout": "5s",
        "sync_rpm": "3000",
    }
    if kind is Kind.batches:
        return policy | {"max_rounds": "4"}, "24h"
    if kind is Kind.sync_round:
        return policy | {"max_rounds": "1"}, "24h"
    # The moment is span * 0.72 - safety_factor * (requests / rate + latency): pace.py, escalation.py.
    rate = 20.0
    factor = (ESCALATION_SPAN_S * 0.72 - _ESCALATE_AT_S) / (count / rate + 0.3)
    return policy | {
        "max_rounds": "1",
        "sync_rpm": str(int(rate * 60)),
        "safety_factor": f"{factor:.2f}",
        "settle": "8s",
    }, f"{ESCALATION_SPAN_S:.0f}s"
