"""Where everything lies in the store: pure functions of tenant, key, round, shard and part.

::

    deployment.json                                       who this store belongs to
    _providers/{provider}                                 its workers know it (known.py)
    {tenant}/jobs/{job}/requests/manifest.json            put once: makes the job accepted
                                /{segment}.jsonl.zst      canonical requests
                                /{segment}.idx            one 16-byte row a request
                                /rejected.jsonl.zst       input lines that cannot be sent
                       /rounds/{round}.json               RoundPlan
                              /{round}.answered.u32       its members that were answered before it was taken up again
                       /shards/{round}-{shard}/plan.json  ShardPlan
                                /members.u32              sorted indices
                                /{name}                   as received, intents, reports
                                /results.json             put last: names the two objects below
                                /results-{name}.jsonl.zst, results-{name}.idx
                                /parts/{part}.zst         flushed sync answers, until compacted
                                /sends/{number}.json      sync calls about to be made, until the shard is done
                       /results/{part}.jsonl.zst, {part}.idx
                       /ledger.parquet
                       /summary.json                      put last: the job is finished
                       /late/{round}-{shard}.json         what a shard cost that came home after that
                       /claims/{reader}.json              who has fetched the results

Keys are deterministic, so a repeated write goes to the same place.
"""

from groupage.schemas.ids import check_key, check_tenant

DEPLOYMENT = "deployment.json"


def job(tenant: str, key: str) -> str:
    """Prefix of everything of one job, without a slash at the end."""
    return f"{check_tenant(tenant)}/jobs/{check_key(key)}"


def requests(tenant: str, key: str) -> str:
    return f"{job(tenant, key)}/requests"


def manifest(tenant: str, key: str) -> str:
    return f"{requests(tenant, key)}/manifest.json"


def segment_data(tenant: str, key: str, segment: int) -> str:
    return f"{requests(tenant, key)}/{segment:05d}.jsonl.zst"


def segment_index(tenant: str, key: str, segment: int) -> str:
    return f"{requests(tenant, key)}/{segment:05d}.idx"


def rejected(tenant: str, key: str) -> str:
    return f"{requests(tenant, key)}/rejected.jsonl.zst"


def round_plan(tenant: str, key: str, round_: int) -> str:
    return f"{job(tenant, key)}/rounds/{round_}.json"


def round_answered(tenant: str, key: str, round_: int) -> str:
    return f"{job(tenant, key)}/rounds/{round_}.answered.u32"


def shard(tenant: str, key: str, round_: int, shard_: int) -> str:
    """Prefix of everything of one shard."""
    return f"{job(tenant, key)}/shards/{round_}-{shard_}"


def shard_object(tenant: str, key: str, round_: int, shard_: int, name: str) -> str:
    """Any other object of a shard: output.jsonl.zst, errors.jsonl.zst, intent.json, report.json ..."""
    return f"{shard(tenant, key, round_, shard_)}/{name}"


def shard_plan(tenant: str, key: str, round_: int, shard_: int) -> str:
    return f"{shard(tenant, key, round_, shard_)}/plan.json"


def shard_members(tenant: str, key: str, round_: int, shard_: int) -> str:
    return f"{shard(tenant, key, round_, shard_)}/members.u32"


def shard_results(tenant: str, key: str, round_: int, shard_: int) -> str:
    """The message that makes a shard's results complete."""
    return f"{shard(tenant, key, round_, shard_)}/results.json"


def shard_results_data(tenant: str, key: str, round_: int, shard_: int, name: str) -> str:
    return f"{shard(tenant, key, round_, shard_)}/results-{name}.jsonl.zst"


def shard_results_index(tenant: str, key: str, round_: int, shard_: int, name: str) -> str:
    return f"{shard(tenant, key, round_, shard_)}/results-{name}.idx"


def shard_parts(tenant: str, key: str, round_: int, shard_: int) -> str:
    """Prefix of the flushed parts of a sync shard."""
    return f"{shard(tenant, key, round_, shard_)}/parts"


def shard_part(tenant: str, key: str, round_: int, shard_: int, part: int) -> str:
    return f"{shard_parts(tenant, key, round_, shard_)}/{part:05d}.zst"


def shard_sends(tenant: str, key: str, round_: int, shard_: int) -> str:
    """Prefix of the log of sync calls (send_log.py)."""
    return f"{shard(tenant, key, round_, shard_)}/sends"


def shard_send(tenant: str, key: str, round_: int, shard_: int, number: int) -> str:
    return f"{shard_sends(tenant, key, round_, shard_)}/{number:05d}.json"


def result_part(tenant: str, key: str, part: int) -> str:
    return f"{job(tenant, key)}/results/{part:05d}.jsonl.zst"


def result_part_index(tenant: str, key: str, part: int) -> str:
    return f"{job(tenant, key)}/results/{part:05d}.idx"


def ledger(tenant: str, key: str) -> str:
    return f"{job(tenant, key)}/ledger.parquet"


def summary(tenant: str, key: str) -> str:
    return f"{job(tenant, key)}/summary.json"


def late(tenant: str, key: str) -> str:
    """Prefix of the reports of shards that came home after the merge."""
    return f"{job(tenant, key)}/late"


def late_report(tenant: str, key: str, round_: int, shard_: int, double: str = "") -> str:
    """`double` tells another batch of the shard from its own."""
    return f"{late(tenant, key)}/{round_}-{shard_}{double and '-'}{double}.json"


def claims(tenant: str, key: str) -> str:
    return f"{job(tenant, key)}/claims"


def claim(tenant: str, key: str, reader: str) -> str:
    return f"{claims(tenant, key)}/{check_key(reader)}.json"
