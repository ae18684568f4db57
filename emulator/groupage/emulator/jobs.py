"""What services of jobs do alike: input that is read when a job is made, results that are put into a place of the caller's.

Results are delivered when somebody looks at a job that has ended: clients learn of the end by looking.
"""

from dataclasses import replace

from groupage.emulator.core import Emulator
from groupage.emulator.life import Batch, view
from groupage.emulator.shown import held_back


def live_jobs(core: Emulator, account: str, dialect: str) -> list[Batch]:
    """Those that have not ended: what quotas count."""
    now = core.clock.now()
    return [
        batch
        for batch in core.state.batches.values()
        if batch.account == account and batch.dialect == dialect and not view(batch, now).ended
    ]


def with_window(core: Emulator, batch: Batch, window_s: float, problem: str, code: str) -> Batch:
    """A batch just made, with a window of its own; a `problem` of its input makes it fail with this code.

    No task has run since the batch was made: nothing was decided without these.
    """
    failed = [{"effect": "fail", "code": code, "message": problem}] if problem else []
    batch = replace(batch, window_s=window_s, effects=[*failed, *batch.effects])
    with core.state.commit():
        core.state.put_batch(batch)
    return batch


def to_deliver(core: Emulator, batch: Batch) -> bool:
    """Whether it has ended and its results are still to be put into their place. `late_output` holds them back."""
    now = core.clock.now()
    ended_at = view(batch, now).ended_at
    if ended_at is None or batch.done is None or "delivered" in (batch.metadata or {}):
        return False
    return not held_back(batch, ended_at, now)


def delivered(core: Emulator, batch: Batch) -> None:
    """Remember it, and drop the results kept here."""
    with core.state.commit():
        current = core.state.batches[batch.id]
        core.state.put_batch(replace(current, metadata=(batch.metadata or {}) | {"delivered": "yes"}))
        if batch.done is not None and batch.done.output_file_id:
            core.state.drop_file(batch.done.output_file_id)
