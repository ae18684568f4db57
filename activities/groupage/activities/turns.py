"""Creates of one account, one after the other: for providers whose batches carry nothing to find them by.

There a create call without an answer is told from others by its time and its number of requests alone. If
only one of ours is under way or in doubt at a time, what can be mixed up with it is somebody else's. Turns
lie in the store, so they hold for all workers::

    accounts/{provider}/{profile}/creates/00000012.json       put on condition that there is none
    accounts/{provider}/{profile}/creates/00000012.end.json   what it made

A turn without an end lasts until its doubt is over (`until`): whoever holds it may be dead. Turns only make
mix-ups rare, custom ids decide (promise 5): so a lease that is overtaken by a suspended process does no harm.
"""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

from groupage.activities.failures import waiting
from groupage.schemas import JobRef, Message
from groupage.store.objects import Store

KEPT = 500
"""Turns that are kept: more creates than any doubt lasts, and still one page of a listing."""

PAUSE_S = 0.5
"""Between two tries to take the turn."""

WAIT_S = 120.0
"""How long a rendered shard waits for its account's turn before it is rendered again another time."""


class Turn(Message):
    """`creates/{number}.json`."""

    number: int
    nonce: str
    tag: str
    at: datetime
    until: datetime


class TurnEnd(Message):
    """`creates/{number}.end.json`. No batch id: nothing was made."""

    tag: str
    at: datetime
    batch_id: str = ""


def account_of(job: JobRef) -> str:
    """The account's prefix in the store: one credential profile at one provider."""
    return f"accounts/{job.provider}/{job.profile}/creates"


def busy_until(store: Store, account: str, at: datetime) -> datetime | None:
    """Until when the turn that is taken now lasts at most; None: it is free. Raises StoreError."""
    numbers = _numbers(store, account)
    return _busy(store, account, max(numbers), at) if numbers else None


def take_turn(store: Store, account: str, tag: str, at: datetime, hold: timedelta) -> Turn | datetime:
    """The turn, or until when another one lasts at most. Raises StoreError."""
    numbers = _numbers(store, account)
    last = max(numbers, default=0)
    if last and (busy := _busy(store, account, last, at)) is not None:
        return busy
    turn = Turn(number=last + 1, nonce=uuid.uuid4().hex, tag=tag, at=at, until=at + hold)
    key = _turn_key(account, turn.number)
    # A put whose answer was lost meets itself when it is tried again: hence the nonce.
    if not store.put_new_message(key, turn) and store.get_message(key, Turn).nonce != turn.nonce:
        return at + hold
    if max(_numbers(store, account)) > turn.number:
        # It filled a gap far behind, long after others had gone on.
        return at + hold
    _forget(store, account, [number for number in numbers if number <= turn.number - KEPT])
    return turn


async def wait_for_turn(store: Store, account: str, tag: str, hold: timedelta) -> Turn:
    """Wait until no other create of the account is under way or in doubt, and take the turn for `hold` at most.

    Raises StoreError, and `waiting` where that lasts too long.
    """
    give_up_at = datetime.now(UTC) + timedelta(seconds=WAIT_S)
    while True:
        turn = await asyncio.to_thread(take_turn, store, account, tag, datetime.now(UTC), hold)
        if isinstance(turn, Turn):
            return turn
        if datetime.now(UTC) > give_up_at:
            raise not_our_turn(tag, turn)
        await asyncio.sleep(PAUSE_S)


def not_our_turn(tag: str, busy: datetime) -> Exception:
    """What is raised while another holds the turn, until `busy` at most: come back in a moment."""
    left_s = max(0.0, (busy - datetime.now(UTC)).total_seconds())
    message = f"another create of the account is under way, or in doubt until {busy:%H:%M:%S} UTC"
    return waiting(f"{tag} waits: {message}", delay_s=min(left_s + 0.1, 5.0))


def end_turn(store: Store, account: str, turn: Turn, at: datetime, batch_id: str) -> None:
    """The next one may go; `batch_id` is what the call made, "" for nothing."""
    store.put_message(_end_key(account, turn.number), TurnEnd(tag=turn.tag, at=at, batch_id=batch_id))


def keep_turn_until(store: Store, account: str, turn: Turn, until: datetime) -> None:
    """The call has ended in doubt, and when the doubt ends is known better now. Only the turn's holder may say so."""
    store.put_message(_turn_key(account, turn.number), turn.model_copy(update={"until": min(turn.until, until)}))


def made_by_others(store: Store, account: str, tag: str) -> set[str]:
    """Ids of the account's batches that are known to be ours and of another tag."""
    ends = (store.get_message_or_none(_end_key(account, number), TurnEnd) for number in _numbers(store, account))
    return {end.batch_id for end in ends if end is not None and end.batch_id and end.tag != tag}


def _busy(store: Store, account: str, number: int, at: datetime) -> datetime | None:
    turn = store.get_message_or_none(_turn_key(account, number), Turn)
    if turn is None or at >= turn.until or store.exists(_end_key(account, number)):
        return None
    return turn.until


def _forget(store: Store, account: str, numbers: list[int]) -> None:
    store.delete([key for number in numbers for key in (_turn_key(account, number), _end_key(account, number))])


def _numbers(store: Store, account: str) -> list[int]:
    """Numbers of the turns that are there, in no order."""
    names = (key.rpartition("/")[2].removesuffix(".json") for key in store.list(account))
    return [int(name) for name in names if name.isdigit()]


def _turn_key(account: str, number: int) -> str:
    return f"{account}/{number:08d}.json"


def _end_key(account: str, number: int) -> str:
    return f"{account}/{number:08d}.end.json"
