"""What is left: all that we made is deleted, found by its tag where nobody needs it, and nothing else is touched."""

from everywhere import everywhere
from groupage.schemas import BatchPhase


def objects(record):
    return record.store


@everywhere()
async def test_CL_what_is_gone_is_deleted_without_an_error(world, record):
    file, batch = record.gone
    await world.adapter.delete("file", file)
    await world.adapter.delete("batch", batch)


@everywhere(objects)
async def test_CL_what_a_live_batch_needs_is_not_touched(world):
    submitted = await world.submit(await world.planned())
    await world.adapter.delete("batch", submitted.batch_id)
    assert len(world.left()) == 1
    assert not (await world.adapter.status(submitted.batch_id)).phase.ended


@everywhere(objects)
async def test_CL_clean_up_finds_outputs_that_no_status_named(world):
    ref = await world.planned()
    submitted, status = await world.finished(ref)
    folder = status.output_files[-1].rpartition("/")[0]
    world.put(f"{folder}/more", b"")
    await world.clean_up(ref, submitted, status)
    assert world.left() == []


@everywhere(lambda record: record.tagged)
async def test_what_is_ours_is_listed_batches_and_files(world, record):
    ref = await world.planned()
    submitted = await world.submit(ref)
    owner = ref.tag[1:7]
    input_ended, files = record.listed
    live = await world.ours(owner)
    assert [(one.kind, one.tag, one.ended) for one in live] == [
        ("batch", ref.tag, False),
        ("file", ref.tag, input_ended),
    ]
    assert all(one.created_at for one in live)
    world.emulator.finish()
    await world.ended(ref, submitted)
    ended = await world.ours(owner)
    assert [(one.kind, one.tag, one.ended) for one in ended] == [
        ("batch", ref.tag, True),
        *[("file", ref.tag, True)] * files,
    ]
    assert await world.ours("zzzzzz") == []


@everywhere(lambda record: record.tagged)
async def test_the_sweep_ends_what_belongs_to_no_job_and_touches_nothing_else(world, emulator):
    submitted = await world.submit(await world.planned())
    (ours,) = world.left()
    theirs = await world.stranger()
    world.store.delete([key for key in world.store.list("") if "deployment" not in key])
    first = await world.sweep(delete_files=True)
    assert (first.batches, first.files, first.failed) == (1, 1, [])
    assert [told.split(" ")[0] for told in first.cancelled] == [submitted.batch_id]
    emulator.finish()
    assert (await world.adapter.status(submitted.batch_id)).phase is BatchPhase.cancelled
    assert sum(batch["status"] == "cancelled" for batch in emulator.state()["batches"]) == 1
    second = await world.sweep(delete_files=True)
    assert (second.cancelled, second.failed) == ([], [])
    left = world.left()
    assert ours not in left
    assert all(name.startswith(tuple(theirs)) for name in left), left
    assert all(any(name.startswith(their) for name in left) for their in theirs), left
