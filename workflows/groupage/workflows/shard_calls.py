"""What a ProviderBatch asks of others that may not answer: the call that cancels, the clean-up, its job.

None of these failures is the shard's: each ends as a value that the caller goes on with, and a line in the log.
"""

from datetime import timedelta

from groupage.schemas import BatchStatus, Message
from groupage.schemas.activity_calls import CANCEL_BATCH, CLEAN_UP_BATCH, CancelBatch, CleanUpBatch
from groupage.schemas.batches import ShardRef
from groupage.schemas.ids import job_workflow_id
from groupage.workflows.calls import failure_of, start
from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError


async def cancel_batch(shard: ShardRef, batch_id: str, within: timedelta) -> BatchStatus | None:
    """What the provider says after it was told to cancel; None if it did not answer in time.

    `batch_id` is empty where none is known: the batch is looked for by the shard's tag.
    """
    argument = CancelBatch(shard=shard, batch_id=batch_id)
    try:
        return await start(CANCEL_BATCH, argument, summary=f"cancel {batch_id or shard.tag}", schedule_to_close=within)
    except ActivityError as error:
        workflow.logger.warning("%s could not be cancelled: %s", shard.tag, failure_of(error).message)
        return None


async def clean_up_batch(shard: ShardRef, batch_id: str, files: list[str]) -> list[str]:
    """Delete the files at the provider; returns those that are left behind there."""
    argument = CleanUpBatch(shard=shard, batch_id=batch_id, files=files)
    try:
        cleaned = await start(CLEAN_UP_BATCH, argument, summary=f"delete {len(files)} files")
    except ActivityError as error:
        workflow.logger.warning("%s was not cleaned up: %s", shard.tag, failure_of(error).message)
        return files
    return cleaned.left_behind


async def tell_job(shard: ShardRef, signal: str, message: Message) -> None:
    """Signal the job, whichever run of it is alive. One that has ended needs no message."""
    job = shard.job
    handle = workflow.get_external_workflow_handle(job_workflow_id(job.tenant, job.key))
    try:
        await handle.signal(signal, message)
    except FailureError as error:
        workflow.logger.info("%s: the job did not take %s: %s", shard.tag, signal, error.message)
