"""Who a store belongs to: one code for all batches and files that are made from it."""

import uuid
from datetime import UTC, datetime

from groupage.schemas import Message
from groupage.schemas.ids import owner_code
from groupage.store import keys
from groupage.store.objects import Store


class Deployment(Message):
    """`deployment.json`. The id is random, drawn by whoever uses the store first."""

    version: int = 1
    id: str
    created_at: datetime


def deployment_owner(store: Store) -> str:
    """The six-character owner code of this store; created once, the first writer wins."""
    found = store.get_message_or_none(keys.DEPLOYMENT, Deployment)
    if found is None:
        drawn = Deployment(id=uuid.uuid4().hex, created_at=datetime.now(UTC))
        store.put_new_message(keys.DEPLOYMENT, drawn)
        found = store.get_message(keys.DEPLOYMENT, Deployment)
    return owner_code(found.id)
