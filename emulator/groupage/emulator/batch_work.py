"""What the worker process is asked to do for a batch: check its input and answer it, later write its results."""

from groupage.emulator.dialects import dialect_of
from groupage.emulator.faults import FaultPlan
from groupage.emulator.finish import FinishJob
from groupage.emulator.life import Batch, course_of, finished_count
from groupage.emulator.settings import Settings
from groupage.emulator.state import State
from groupage.emulator.work import CheckJob


def check_job(state: State, settings: Settings, batch: Batch) -> CheckJob:
    work = state.work_path
    return CheckJob(
        code=batch.id.rpartition("_")[2],
        dialect=batch.dialect,
        endpoint=batch.endpoint,
        source=work(f"{batch.id}.input"),
        lines=work(f"{batch.id}.lines"),
        rows=work(f"{batch.id}.rows"),
        ids=state.ledger_path(f"{batch.id}.ids"),
        created=int(batch.created_at),
        answer_bytes=settings.answer_bytes,
        max_requests=settings.max_requests or dialect_of(batch.dialect).max_requests,
        max_batch_bytes=settings.max_batch_bytes,
        max_embedding_inputs=settings.max_embedding_inputs,
    )


def finish_job(state: State, settings: Settings, plan: FaultPlan, batch: Batch) -> FinishJob:
    """Needs `checked`."""
    assert batch.checked is not None
    course = course_of(batch)
    finished = finished_count(batch.checked.total, course)
    if course.ending == "expired" and dialect_of(batch.dialect).expiry_loses_all:
        finished = 0
    loses = batch.effect("cancel_loses") if course.ending == "cancelled" else None
    only_errors = batch.effect("only_errors")
    work = state.work_path
    return FinishJob(
        number=batch.number,
        seed=settings.seed,
        order=settings.order,
        dialect=batch.dialect,
        ending=course.ending,
        finished=finished,
        only_errors=only_errors["status"] if only_errors else None,
        lost=int(finished * loses["at"]) if loses else 0,
        source=work(f"{batch.id}.input"),
        lines=work(f"{batch.id}.lines"),
        rows=work(f"{batch.id}.rows"),
        database=state.path.absolute(),
        plan=plan,
        output=work(f"{batch.id}.output"),
        errors=work(f"{batch.id}.errors"),
        page=work(f"{batch.id}.page"),
        struck=work(f"{batch.id}.struck"),
    )
