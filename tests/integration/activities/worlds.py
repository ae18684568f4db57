"""Worlds of a test, what kills a process in them, and what a submission comes to."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from groupage.schemas import ShardRef
from groupage.schemas.activity_calls import SubmitBatch
from provider_world import World, attempts_of

DOUBT_S = 3.0
"""A doubt that is still there at the next attempt, on a busy machine too: for tests that say what comes of it then."""


class KilledError(BaseException):
    """Stands for a process that is gone: nothing of ours catches it."""


@asynccontextmanager
async def worlds(folder: Path, make: Callable[..., Any]) -> AsyncIterator[Callable[..., Any]]:
    """What makes worlds, each in a folder of its own (`make(folder, ...)`).

    In the end they are closed, and have left no spool file.
    """
    made: list[Any] = []

    def made_by(*given: Any, **settings: Any) -> Any:
        own = folder / f"world-{len(made)}"
        own.mkdir()
        made.append(make(own, *given, **settings))
        return made[-1]

    yield made_by
    for world in made:
        await world.close()
        assert not list(world.spool.iterdir()), "spool files were left behind"


async def submitted_in_the_end(world: World, shard: ShardRef, **fields: Any) -> Any:
    """(What was submitted, the failures before it.)"""
    return await attempts_of(world.activities.submit_batch, SubmitBatch(shard=shard, **fields), most=60)
