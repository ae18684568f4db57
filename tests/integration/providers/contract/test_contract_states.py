"""What a look says: every documented state, words that nobody knows, counts that lie; failed looks; cancelling."""

from everywhere import rows
from groupage.schemas import BatchPhase, Outcome


@rows("word raw phase warned", lambda record: record.states)
async def test_PO_05_every_documented_state_has_its_phase_and_others_are_no_end(
    world, emulator, record, word, raw, phase, warned
):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    ref = await world.planned(5)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state, bool(status.warning)) == (phase, raw, warned)
    if phase.ended or record.store:
        assert phase.ended == bool(status.output_files), "objects are looked for at the end only"
    if not phase.ended:
        await world.goes_on(ref, submitted)


@rows("counts told", lambda record: record.counts)
async def test_PO_10_counts_that_are_missing_or_zero_decide_nothing(world, emulator, counts, told):
    emulator.faults(batches=[{"effect": "counts", "counts": counts}])
    status, report = await world.harvested(await world.planned())
    assert (status.total, status.completed, status.failed) == told
    assert (report.outcomes, report.count_mismatch) == ({Outcome.succeeded: 10}, "")


@rows("fault found code", lambda record: record.failures)
async def test_a_batch_that_failed_says_why(world, emulator, fault, found, code):
    emulator.faults(batches=[{"effect": "fail", **fault}])
    ref = await world.planned(5)
    submitted = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, submitted)
    assert (status.phase, status.error.error_class) == (BatchPhase.failed, found)
    assert fault["message"] in status.error.message
    assert code in {None, status.error.code}
