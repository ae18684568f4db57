"""What came home after a job had been merged, or from a second batch of a shard: paid for, not delivered. The job's
summary stays as it was put, once; whoever reads it gets this added.
"""

from groupage.schemas import ShardReport, Summary
from groupage.store import keys
from groupage.store.objects import Store


def read_late(store: Store, tenant: str, key: str) -> list[ShardReport]:
    """One report a shard that ended too late; its `waste_usd` is all that it cost."""
    names = sorted(store.list(keys.late(tenant, key)))
    return [store.get_message(name, ShardReport) for name in names]


def with_late(summary: Summary, late: list[ShardReport]) -> Summary:
    """The summary as it is to be read now: what was only feared of those shards (`unsettled`) is known."""
    if not late:
        return summary
    shards = {f"{report.round}-{report.shard}": report for report in late if not report.duplicate}
    endings = tuple(f" of shard {name} had not ended" for name in shards)
    return summary.model_copy(
        update={
            "waste_usd": summary.waste_usd + sum(report.waste_usd for report in late),
            "maybe_paid_twice": summary.maybe_paid_twice - sum(summary.unsettled.get(name, 0) for name in shards),
            "unsettled": {name: n for name, n in summary.unsettled.items() if name not in shards},
            "left_behind": [text for text in summary.left_behind if not text.endswith(endings)],
        }
    )
