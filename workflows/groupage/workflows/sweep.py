"""Sweep: one look for what carries our tag at a provider account and is needed by no job.

Limits: one activity, 11 events. Started by `groupage sweep`, once or by a Temporal schedule.
"""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from groupage.schemas.activity_calls import SWEEP_ORPHANS, SweepOrphans, Swept
    from groupage.schemas.signals import SWEEP
    from groupage.schemas.written import NotesUnknown
    from groupage.workflows.calls import start
    from groupage.workflows.door import refuse_unknown


class SweepArgument(SweepOrphans, NotesUnknown):
    """As people and schedules write it."""


@workflow.defn(name=SWEEP)
class Sweep:
    """Cancel orphaned batches, delete orphaned files, name what is stranded. Its result says what was done."""

    @workflow.run
    async def run(self, argument: SweepArgument) -> Swept:
        # Also fields of a newer Groupage: they may say what to leave alone, and a sweep can be done later.
        refuse_unknown(argument.unknown)
        swept = await start(SWEEP_ORPHANS, argument, summary=f"orphans at {argument.provider}/{argument.profile}")
        workflow.set_current_details(
            f"{swept.batches} batches and {swept.files} files carry our tag; cancelled {len(swept.cancelled)}, "
            f"deleted {swept.deleted}, stranded {len(swept.stranded)}, failed {len(swept.failed)}"
        )
        return swept
