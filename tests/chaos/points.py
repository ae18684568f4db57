"""Recognising the moment for a kill, from outside: by files in the store and by what the provider has.

Nothing in the product helps. A moment is looked for every few milliseconds; when it is seen the victim
is stopped (SIGSTOP), the moment is looked for once more, and only then is the victim killed: so that
what is counted as a hit was one.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.scenario import Point
from tests.side_by_side.providers import tag_of

LOOK_EVERY_S, LOOK_OFTEN_S = 0.003, 0.0005
_EMPTY: frozenset[str] = frozenset()


def _names(path: Path) -> frozenset[str]:
    try:
        return frozenset(entry.name for entry in os.scandir(path))
    except (FileNotFoundError, NotADirectoryError):
        return _EMPTY


@dataclass(slots=True)
class JobFiles:
    """The job's part of the store, a local directory, as it is now (docs/how-it-works.md has the layout)."""

    root: Path
    _routes: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return (self.root / "requests" / "manifest.json").exists()

    @property
    def planned(self) -> frozenset[int]:
        """Rounds whose plan is complete."""
        return frozenset(int(name[:-5]) for name in _names(self.root / "rounds") if name.endswith(".json"))

    @property
    def finished(self) -> bool:
        return (self.root / "summary.json").exists()

    @property
    def merging(self) -> bool:
        return bool(_names(self.root / "results")) or (self.root / "ledger.parquet").exists()

    def shards(self) -> dict[str, frozenset[str]]:
        """Names of the objects of each shard, by "{round}-{shard}"."""
        return {name: _names(self.root / "shards" / name) for name in _names(self.root / "shards")}

    def intents(self, shard: str) -> frozenset[str]:
        return _names(self.root / "shards" / shard / "intents")

    def is_sync(self, shard: str) -> bool:
        if shard not in self._routes:
            try:
                self._routes[shard] = json.loads((self.root / "shards" / shard / "plan.json").read_bytes())["route"]
            except (OSError, ValueError):
                return False
        return self._routes[shard] == "sync"


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known at one look. `provider` is the emulator's state; {} where the point does not ask for it."""

    files: JobFiles
    provider: dict[str, Any]

    def tags(self, *, live: bool = False) -> frozenset[str]:
        """ "{round}-{shard}" of the provider's batches."""
        batches = [batch for batch in self.provider.get("batches", ()) if not (live and batch["ended"])]
        return frozenset(shard for batch in batches if (shard := shard_of(tag_of(batch))))


def shard_of(tag: str) -> str:
    """`g…-r0-s3` to `0-3`, the name in the store; "" for what is no tag."""
    head, _, shard = tag.rpartition("-s")
    round_ = head.rpartition("-r")[2]
    return f"{int(round_)}-{int(shard)}" if round_.isdigit() and shard.isdigit() else ""


def _accepting(at: Moment) -> bool:
    return at.files.accepted and not at.files.shards()


def _planning(at: Moment) -> bool:
    planned = at.files.planned
    return any(int(name.partition("-")[0]) not in planned for name in at.files.shards())


def _uploading(at: Moment) -> bool:
    """A file is at the provider, and no call to create a batch of it has been prepared."""
    names = [file["filename"] for file in at.provider["files"] if file["purpose"] == "input"]
    return any(
        not at.files.intents(shard)
        for shard in at.files.shards()
        if any(re.search(rf"-r{shard.replace('-', '-s')}(?!\d)", name) for name in names)
    )


def _uploaded(at: Moment) -> bool:
    """The intent is written, and the provider has no batch yet."""
    tags = at.tags()
    return any(
        len(intents) == 1 and shard not in tags for shard in at.files.shards() if (intents := at.files.intents(shard))
    )


def _created(at: Moment) -> bool:
    """The provider has accepted the batch, and nobody on our side knows its id."""
    shards = at.files.shards()
    return any("batch.json" not in shards.get(shard, _EMPTY) for shard in at.tags())


def _waiting(at: Moment) -> bool:
    shards = at.files.shards()
    return any("batch.json" in shards.get(shard, _EMPTY) for shard in at.tags(live=True))


def _downloading(at: Moment) -> bool:
    """More downloads were begun than files are in the store."""
    stored = sum(("output.jsonl.zst" in names) + ("errors.jsonl.zst" in names) for names in at.files.shards().values())
    return int(at.provider["calls"].get("files.content", 0)) > stored and not at.files.merging


def _storing_results(at: Moment) -> bool:
    return any(
        ("output.jsonl.zst" in names or "errors.jsonl.zst" in names) and "results.json" not in names
        for names in at.files.shards().values()
    )


def _cancelling(at: Moment) -> bool:
    return any(batch["status"] == "cancelling" for batch in at.provider["batches"])


def _syncing(at: Moment) -> bool:
    """Calls go out, and a sync shard is not finished: with slow replies there are always some in flight."""
    return int(at.provider["calls"].get("sync", 0)) >= 4 and any(
        at.files.is_sync(shard) and "results.json" not in names for shard, names in at.files.shards().items()
    )


def _finalizing(at: Moment) -> bool:
    return at.files.merging and not at.files.finished


REACHED: dict[Point, Callable[[Moment], bool]] = {
    Point.accepting: _accepting,
    Point.preparing: _accepting,
    Point.planning: _planning,
    Point.uploading: _uploading,
    Point.uploaded: _uploaded,
    Point.created: _created,
    Point.waiting: _waiting,
    Point.downloading: _downloading,
    Point.storing_results: _storing_results,
    Point.cancelling: _cancelling,
    Point.syncing: _syncing,
    Point.finalizing: _finalizing,
    Point.writing_output: lambda at: at.files.finished,
    Point.random: lambda _at: True,
}
ASKS_PROVIDER = frozenset(
    {
        Point.uploading,
        Point.uploaded,
        Point.created,
        Point.waiting,
        Point.downloading,
        Point.cancelling,
        Point.syncing,
    }
)


PASSES_QUICKLY = frozenset({Point.planning, Point.storing_results, Point.finalizing})


def worth_asking(point: Point, files: JobFiles) -> bool:
    """Whether the store says that the provider may have something to tell: its admin API is not asked before."""
    if point is Point.uploaded:
        return any(len(files.intents(shard)) == 1 for shard in files.shards())
    if point in (Point.downloading, Point.waiting):
        return any("batch.json" in names for names in files.shards().values())
    if point is Point.syncing:
        return any(files.is_sync(shard) for shard in files.shards())
    return bool(files.shards())
