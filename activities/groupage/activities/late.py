"""Answers that came home after the job had been merged: paid for, never delivered, and said so.

A cancelled batch may end while its job is being finalized. Whether its results were merged is told by
`unmerged.json`, which is put before the summary. Both sides look after they have written: collecting
puts report.json and then looks for the summary, finalizing puts the summary and then looks for
reports of shards that it had to leave out. So one of the two sees the other, and writes a late report, which is
added to the summary whenever that is read (store/late.py).
"""

from decimal import Decimal

from groupage.schemas import JobRef, Message, ShardRef, ShardReport
from groupage.store import keys
from groupage.store.objects import Store
from pydantic import Field

REPORT = "report.json"


class Unmerged(Message):
    """`unmerged.json`: shards, each "round-shard", that had no results when the job was merged."""

    shards: list[str] = Field(default_factory=list)


def unmerged_key(job: JobRef) -> str:
    return f"{keys.job(job.tenant, job.key)}/unmerged.json"


def read_report(store: Store, shard: ShardRef) -> ShardReport | None:
    """`report.json` of a shard: it was collected, whatever the provider still knows of its batch."""
    job = shard.job
    return store.get_message_or_none(
        keys.shard_object(job.tenant, job.key, shard.round, shard.shard, REPORT), ShardReport
    )


def note_if_late(store: Store, job: JobRef, report: ShardReport) -> ShardReport:
    """The report as it is to be counted. `report` is in the store. All that a late shard cost is waste."""
    if not store.exists(keys.summary(job.tenant, job.key)):
        return report
    unmerged = store.get_message_or_none(unmerged_key(job), Unmerged)
    if unmerged is not None and f"{report.round}-{report.shard}" not in unmerged.shards:
        return report
    at = (job.tenant, job.key, report.round, report.shard)
    late = store.get_message_or_none(keys.late_report(*at), ShardReport)
    if late is None:
        late = report.model_copy(update={"cost_usd": Decimal(0), "waste_usd": report.cost_usd + report.waste_usd})
        store.put_message(keys.late_report(*at), late)
    return late


def note_late_shards(store: Store, job: JobRef) -> None:
    """After the summary was put: take note of what came home since the merge."""
    unmerged = store.get_message_or_none(unmerged_key(job), Unmerged)
    for name in unmerged.shards if unmerged is not None else []:
        round_, _, shard = name.partition("-")
        key = keys.shard_object(job.tenant, job.key, int(round_), int(shard), REPORT)
        report = store.get_message_or_none(key, ShardReport)
        if report is not None:
            note_if_late(store, job, report)
