"""Every documented state, and words that nobody knows; failed looks; stopping."""

import pytest


@pytest.mark.parametrize(("hours", "gone", "word"), [("24", "25h", "PartiallyCompleted"), ("72", "25h", "InProgress")])
async def test_the_time_that_a_job_may_take_is_the_one_asked_for(make_world, emulator, hours, gone, word):
    emulator.faults(batches=[{"effect": "turnaround", "seconds": "100h"}])
    world = make_world(provider={"options": {"timeout_hours": hours}})
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance(gone)
    await world.adapter.find(ref.tag, since=None, not_ids=[])
    if word == "PartiallyCompleted":
        status = await world.ended(ref, submitted)
        assert 0 < status.completed < 20
    else:
        status = await world.adapter.status(submitted.batch_id)
    assert status.raw_state == word
    assert (status.expires_at - status.created_at).total_seconds() == int(hours) * 3600
