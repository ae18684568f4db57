"""`groupage sweep`: end what carries our tag at a provider and is needed by no job; once, or by a schedule."""

from groupage.cli.console import Console
from groupage.cli.options import positive_duration
from groupage.cli.process import run_until_signal
from groupage.cli.settings import command_settings
from groupage.schemas.activity_calls import SweepOrphans, Swept
from groupage.schemas.errors import UsageError
from groupage.schemas.signals import SWEEP
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleSpec,
)
from temporalio.common import WorkflowIDConflictPolicy


def sweep(request: SweepOrphans, *, every: str | None, worker: bool, as_json: bool) -> int:
    """Exit code 0 also where something was found; 3 where something could not be ended."""
    console = Console(as_json=as_json)
    settings = command_settings()
    interval = positive_duration("--every", every) if every is not None else None
    workflow_id = f"sweep/{request.provider}/{request.profile}"

    async def schedule(stack: Stack) -> None:
        assert interval is not None
        action = ScheduleActionStartWorkflow(SWEEP, request, id=workflow_id, task_queue=stack.connection.task_queue)
        spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)])
        try:
            await stack.connection.temporal.create_schedule(workflow_id, Schedule(action=action, spec=spec))
        except ScheduleAlreadyRunningError as error:
            raise UsageError(
                f"the schedule {workflow_id} exists already",
                hint=f"change it with `temporal schedule update --schedule-id {workflow_id} ...`, or delete it first",
            ) from error

    async def once(stack: Stack) -> Swept:
        swept: Swept = await stack.connection.temporal.execute_workflow(
            SWEEP,
            request,
            id=workflow_id,
            task_queue=stack.connection.task_queue,
            result_type=Swept,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        return swept

    async def work() -> int:
        if interval is not None:
            await run_with_stack(settings, schedule, workers=None)
            console.say(f"{workflow_id} runs every {every}; see it with `temporal schedule list`")
            return 0
        swept = await run_with_stack(settings, once, workers=WorkerPlan() if worker else None)
        if as_json:
            console.data(swept)
        else:
            _tell(console, swept, dry_run=request.dry_run)
        return 3 if swept.failed else 0

    return run_until_signal(work, say=console.say, on_stop=lambda: f"stopped; {workflow_id} goes on with a worker")


def _tell(console: Console, swept: Swept, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    console.say(f"{swept.batches} batches and {swept.files} files carry this store's tags")
    console.say(f"{len(swept.cancelled)} batches {would}cancelled, {swept.deleted} files {would}deleted")
    for line in swept.cancelled:
        console.hint(line)
    for line in swept.deleted_files:
        console.hint(f"file {line}")
    if swept.deleted > len(swept.deleted_files):
        console.hint(f"and {swept.deleted - len(swept.deleted_files)} more files")
    for line in swept.stranded:
        console.say(f"stranded: {line}")
    if swept.stranded:
        console.hint("start their jobs again (the same `groupage run`): they adopt these batches")
    for line in swept.failed:
        console.say(f"could not be ended: {line}")
