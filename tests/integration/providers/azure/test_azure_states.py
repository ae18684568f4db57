"""Every state in every spelling that the samples have, and the codes of validation."""

import pytest
from groupage.schemas import BatchPhase, ErrorClass
from provider_world import attempt_of, benign
from temporalio.exceptions import ApplicationError

STATES = [
    ("validating", BatchPhase.validating),
    ("Validating", BatchPhase.validating),
    ("in_progress", BatchPhase.in_progress),
    ("InProgress", BatchPhase.in_progress),
    ("finalizing", BatchPhase.finalizing),
    ("Finalizing", BatchPhase.finalizing),
    ("completed", BatchPhase.completed),
    ("Completed", BatchPhase.completed),
    ("failed", BatchPhase.failed),
    ("Failed", BatchPhase.failed),
    ("expired", BatchPhase.expired),
    ("cancelling", BatchPhase.cancelling),
    ("Canceling", BatchPhase.cancelling),
    ("cancelled", BatchPhase.cancelled),
    ("canceled", BatchPhase.cancelled),
    ("Canceled", BatchPhase.cancelled),
    # PO-05: nobody has documented these.
    ("Paused", BatchPhase.unknown),
    ("", BatchPhase.unknown),
    (None, BatchPhase.unknown),
]


@pytest.mark.parametrize(("word", "phase"), STATES, ids=[str(word) for word, _ in STATES])
async def test_PO_05_every_spelling_has_its_phase_and_other_words_are_no_end(world, emulator, word, phase):
    emulator.faults(batches=[{"effect": "status_word", "during": "completed", "word": word}])
    ref = await world.planned(3)
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.adapter.status(submitted.batch_id)
    assert (status.phase, status.raw_state) == (phase, word or "")
    assert bool(status.warning) == (phase is BatchPhase.unknown)
    if not phase.ended:
        with pytest.raises(ApplicationError) as failure:
            await attempt_of(world.activities.await_batch, world.awaiting(ref, submitted.batch_id))
        assert benign(failure.value)


CODES = [
    ("invalid_json_line", ErrorClass.invalid),
    ("too_many_tasks", ErrorClass.too_large),
    ("url_mismatch", ErrorClass.invalid),
    ("model_not_found", ErrorClass.invalid),
    ("duplicate_custom_id", ErrorClass.invalid),
    ("empty_file", ErrorClass.invalid),
    ("model_mismatch", ErrorClass.invalid),
    ("invalid_request", ErrorClass.invalid),
    ("input_modified", ErrorClass.invalid),
    ("input_no_permissions", ErrorClass.invalid),
    ("token_limit_exceeded", ErrorClass.quota),
]


@pytest.mark.parametrize(("code", "error_class"), CODES, ids=[code for code, _ in CODES])
async def test_a_code_of_validation_has_its_class(world, emulator, code, error_class):
    emulator.faults(batches=[{"effect": "fail", "code": code, "message": "see the documentation"}])
    submitted = await world.submit(await world.planned(3))
    emulator.advance_at_once("1h")
    status = await world.adapter.status(submitted.batch_id)
    for _ in range(100):
        if status.phase.ended:
            break
        status = await world.adapter.status(submitted.batch_id)
    assert status.phase is BatchPhase.failed
    assert (status.error.error_class, status.error.code) == (error_class, code)


async def test_QU_01_the_enqueued_tokens_of_the_deployment_are_a_quota(world, emulator):
    emulator.faults(batches=[{"effect": "token_limit", "nth": [1]}])
    ref = await world.planned(3)
    first = await world.submit(ref)
    emulator.advance_at_once("1h")
    status = await world.ended(ref, first)
    assert (status.phase, status.error.error_class) == (BatchPhase.failed, ErrorClass.quota)
    again = await world.submit(ref, not_ids=[first.batch_id])
    assert again.batch_id != first.batch_id
    assert again.input_files == first.input_files, "the same file goes again"


async def test_PO_10_lists_and_looks_agree_in_the_older_spelling(make_world, emulator, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "right")
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-03-01-preview")
    world = make_world()
    refs = [await world.planned(3) for _ in range(3)]
    made = [await world.submit(ref) for ref in refs]
    monkeypatch.setattr("groupage.activities.providers.openai.PAGE", 2)
    listed = [one async for one in world.adapter.list_ours(refs[0].tag[1:7]) if one.kind == "batch"]
    assert {one.id for one in listed} == {one.batch_id for one in made}
    assert all(one.created_at is not None and not one.ended for one in listed)
    found = await world.adapter.find(refs[1].tag, since=world.started_at, not_ids=[])
    assert (found.batch_id, found.raw_state) == (made[1].batch_id, "Validating")
