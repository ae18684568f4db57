"""Batches that a provider refuses as a whole: which of their requests are at fault, and what is kept of the reason.

Validation fails a file for one line of it, and nothing of it runs (promise 10: a bad line never sinks its
neighbours). Where the provider names the lines, those requests have their outcome and the others go again; where
it names none, the shard has no results, and the next round cuts it in halves (workflows.policy.failures).
`refused.json` keeps the provider's words for planning and, if nothing came of the requests later, for their outcome.
"""

import threading
from datetime import datetime
from pathlib import Path

from groupage.activities.providers.call_errors import TOO_FEW
from groupage.activities.threads import check
from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass, JobRef, Outcome, ShardRef
from groupage.schemas.errors import ProviderError
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import ResultLine
from groupage.store.rows import Indices
from groupage.store.segments import SegmentReader
from groupage.store.shard_results import ShardResultWriter, read_shard_results
from groupage.store.shards import read_members, read_shard_plan

REFUSED = "refused.json"
NEIGHBOUR = (
    Outcome.failed,
    ErrorClass.not_sent,
    "batch_refused",
    "not run: the provider refused its batch for other lines",
)

REFUSALS = frozenset({ErrorClass.invalid, ErrorClass.too_large, ErrorClass.account})
"""Classes of an error at submission after which the same bytes are not sent again."""
NOT_FOUND_ATTEMPTS = 3
"""A create that is told that its file does not exist uploads again this often; an upload that has nowhere to go, and
a look that has nothing to look at, too."""

Blame = dict[int, tuple[str, str]]
"""Request to (code, message)."""


def is_refusal(error: ProviderError) -> bool:
    """Whether the same shard is not sent again after this."""
    return error.error_class in REFUSALS or error.code == TOO_FEW


def upload_failed(error: ProviderError, attempt: int) -> ProviderError:
    """An upload makes something new. Where that finds nothing, it is the place that is not there (`_nowhere`)."""
    again = attempt < NOT_FOUND_ATTEMPTS
    return _nowhere(
        error, "there is nothing to upload to: look at the provider's base_url, bucket or dataset", again=again
    )


def look_failed(error: ProviderError, attempt: int, *, made: bool) -> ProviderError:
    """A look for a batch names none. Where it finds nothing, not even an empty list, there is nothing to look at.

    `made`: there is a batch of the shard, so that nobody may give it up for this.
    """
    again = made or attempt < NOT_FOUND_ATTEMPTS
    return _nowhere(
        error, "there is nothing to look at: look at the provider's base_url, project or api_version", again=again
    )


def _nowhere(error: ProviderError, hint: str, *, again: bool) -> ProviderError:
    """A 404 for all requests alike: a bucket, an address, an API that the server has not. A person has to set that
    right, if it does not pass; no request is at fault.
    """
    if error.error_class is not ErrorClass.missing:
        return error
    return ProviderError(
        str(error),
        error_class=ErrorClass.transient if again else ErrorClass.account,
        code=error.code,
        status=error.status,
        retry_after_s=error.retry_after_s,
        hint="" if again else hint,
    )


def keep_refusal(store: Store, shard: ShardRef, status: BatchStatus) -> None:
    """Note why a batch failed as a whole, if it did. Writing it again is harmless."""
    if (
        status.phase is BatchPhase.failed
        and status.error is not None
        and not (status.output_files or status.error_files)
    ):
        error = status.error.model_copy(update={"bad_lines": []})
        store.put_message(_key(shard.job, shard.round, shard.shard), error)


def read_refusal(store: Store, job: JobRef, round_: int, shard: int) -> BatchError | None:
    return store.get_message_or_none(_key(job, round_, shard), BatchError)


def blame(status: BatchStatus, members: Indices, reader: SegmentReader) -> Blame:
    """The requests for which the batch was refused; empty where nobody can tell."""
    error = status.error
    if status.phase is not BatchPhase.failed or error is None or error.error_class is not ErrorClass.invalid:
        return {}
    if len(members) == 1:
        named = {int(members[0]): (error.code, error.message)}
    else:
        # Input lines stand in the order of the members (rendering.py).
        named = {
            int(members[line - 1]): (bad.code or error.code, bad.message)
            for bad in error.bad_lines
            for line in bad.lines
            if 1 <= line <= len(members)
        }
    return {
        index: (named[index][0], f"input line {line}: {named[index][1]}")
        for index, line in _lines(reader, sorted(named))
    }


def _lines(reader: SegmentReader, indices: list[int]) -> list[tuple[int, int]]:
    """(index, input line)."""
    found, number, rows = [], -1, None
    for index in indices:
        if reader.segment_of(index) != number or rows is None:
            number = reader.segment_of(index)
            rows = reader.rows(number)
        found.append((index, int(rows[index - reader.starts[number]]["line"])))
    return found


def seal_refused(store: Store, shard: ShardRef, accepted_at: datetime, spool: Path, stop: threading.Event) -> None:
    """Give the requests of a refused shard the provider's words as their outcome, where it has no results.

    A later round's result takes precedence in the merge. The moment is that of acceptance, so that sealing again
    writes the same bytes.
    """
    job, at = shard.job, (shard.job.tenant, shard.job.key, shard.round, shard.shard)
    refusal = read_refusal(store, job, shard.round, shard.shard)
    if refusal is None or read_shard_results(store, *at) is not None:
        return
    plan = read_shard_plan(store, *at)
    with ShardResultWriter(store, *at, directory=spool) as writer:
        for index in read_members(store, *at).tolist():
            check(stop)
            writer.add(
                ResultLine(
                    index,
                    Outcome.failed,
                    job.provider,
                    plan.route,
                    plan.round,
                    accepted_at,
                    error_class=refusal.error_class,
                    code=refusal.code,
                    message=refusal.message,
                    model=plan.model,
                )
            )
        writer.close()


def _key(job: JobRef, round_: int, shard: int) -> str:
    return keys.shard_object(job.tenant, job.key, round_, shard, REFUSED)
