"""The write-ahead record of create calls: who may send one, and what became of those that were sent.

Beside a shard's plan lies a chain of intents, each put on condition that there is none at its number::

    shards/0-7/intents/0000.json       before the call: nonce, moment, input files
    shards/0-7/intents/0000.end.json   after it: created | refused | not_sent | unknown
    shards/0-7/intents/0001.json       the next one, only after 0000 is known to have made no batch

Whoever puts number n may send one create call, once, and only while there is no number n+1. An intent
without an end is one whose process was killed or is still at it: like `unknown` it is settled only when
its window has passed, because nothing is sent later than a quarter of the window after the intent and no
call lasts longer than half of it. The kind `closed` ends a chain: nothing may be sent for the shard again.

What this cannot exclude is a process that is suspended between its last check and its first byte for
longer than the whole window. Such a batch carries the tag like any other: it is found, reported and
cancelled at the next look, at clean-up or by the sweep.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from groupage.schemas import Message, ShardRef
from groupage.store import keys
from groupage.store.objects import Store
from pydantic import Field

POST_WITHIN_MIN_S = 1.0
CREATE_TIMEOUT_MIN_S = 5.0
"""Windows of a few seconds are for tests; the call is given this long all the same."""


class Intent(Message):
    """`intents/{number}.json`."""

    number: int
    kind: Literal["create", "closed"] = "create"
    nonce: str
    at: datetime
    first_at: datetime
    """When the first intent of the chain was put: no batch of the shard is older."""
    attempt: int = 1
    files: list[str] = Field(default_factory=list)


class IntentEnd(Message):
    """`intents/{number}.end.json`."""

    outcome: Literal["created", "refused", "not_sent", "unknown"]
    at: datetime
    batch_id: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """How long what may take; all seconds, made from the one settle window."""

    window_s: float
    call_timeout_s: float
    inline: bool = False
    """The call carries the input and may outlast the window: the doubt then lasts as long as the call could."""

    @property
    def post_within_s(self) -> float:
        return max(POST_WITHIN_MIN_S, self.window_s / 4)

    @property
    def create_timeout_s(self) -> float:
        if self.inline:
            return self.call_timeout_s
        return min(self.call_timeout_s, max(CREATE_TIMEOUT_MIN_S, self.window_s / 2))

    @property
    def visible_s(self) -> float:
        """From a call's end until what it made shows in listings."""
        return self.window_s / 4

    @property
    def longest_s(self) -> float:
        """From an intent until whatever it led to is visible, whoever died on the way."""
        return max(self.window_s, self.post_within_s + self.create_timeout_s + self.visible_s)


@dataclass(frozen=True, slots=True)
class IntentLog:
    """What a chain says now. `last` is None for a shard of which nothing was ever sent."""

    last: Intent | None = None
    end: IntentEnd | None = None

    @property
    def next_number(self) -> int:
        return self.last.number + 1 if self.last else 0

    @property
    def closed(self) -> bool:
        return self.last is not None and self.last.kind == "closed"

    @property
    def created_id(self) -> str:
        return self.end.batch_id if self.end and self.end.outcome == "created" else ""

    @property
    def doubtful(self) -> bool:
        """True where more than one create call may have reached the provider, or nobody knows."""
        return self.last is not None and (self.last.number > 0 or not self.created_id)


def settled_at(log: IntentLog, window: Window) -> datetime | None:
    """From when on a look that finds nothing proves that the last intent made no batch; None: it is settled.

    A batch that was created is settled too: it is known.
    """
    if log.last is None or log.closed or (log.end is not None and log.end.outcome != "unknown"):
        return None
    if log.end is not None:
        visible_at = log.end.at + timedelta(seconds=window.visible_s)
        return max(log.last.at + timedelta(seconds=window.window_s), visible_at)
    return log.last.at + timedelta(seconds=window.longest_s)


def read_log(store: Store, shard: ShardRef) -> IntentLog:
    """The end of the shard's chain. Raises StoreError."""
    prefix = _key(shard, "intents")
    numbers = [_number(key) for key in store.list(prefix)]
    known = [number for number in numbers if number is not None]
    if not known:
        return IntentLog()
    number = max(known)
    return IntentLog(
        store.get_message(_intent_key(shard, number), Intent),
        store.get_message_or_none(_end_key(shard, number), IntentEnd),
    )


def new_intent(
    log: IntentLog, at: datetime, *, attempt: int, files: list[str], kind: Literal["create", "closed"] = "create"
) -> Intent:
    first_at = log.last.first_at if log.last else at
    return Intent(
        number=log.next_number,
        kind=kind,
        nonce=uuid.uuid4().hex,
        at=at,
        first_at=first_at,
        attempt=attempt,
        files=files,
    )


def claim(store: Store, shard: ShardRef, intent: Intent) -> bool:
    """Put the intent; True if it is ours. False: another attempt was faster."""
    key = _intent_key(shard, intent.number)
    # A put whose answer was lost is tried again by the store and then meets itself: hence the nonce.
    return store.put_new_message(key, intent) or store.get_message(key, Intent).nonce == intent.nonce


def superseded(store: Store, shard: ShardRef, intent: Intent) -> bool:
    """True if another attempt has gone on after this intent: then nothing may be sent for it."""
    return store.exists(_intent_key(shard, intent.number + 1))


def put_end(store: Store, shard: ShardRef, number: int, end: IntentEnd) -> None:
    store.put_message(_end_key(shard, number), end)


def _key(shard: ShardRef, name: str) -> str:
    job = shard.job
    return keys.shard_object(job.tenant, job.key, shard.round, shard.shard, name)


def _intent_key(shard: ShardRef, number: int) -> str:
    return _key(shard, f"intents/{number:04d}.json")


def _end_key(shard: ShardRef, number: int) -> str:
    return _key(shard, f"intents/{number:04d}.end.json")


def _number(key: str) -> int | None:
    """The number in an intent's key; None for its end and for what does not belong there."""
    name = key.rpartition("/")[2].removesuffix(".json")
    return int(name) if name.isdigit() else None
