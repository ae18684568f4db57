"""Every state in every spelling that the samples have, and the codes of validation."""

from groupage.schemas import BatchPhase, ErrorClass


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
