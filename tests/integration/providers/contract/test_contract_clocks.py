"""Find or create with clocks that disagree: time only saves pages, the tag decides (promise 2)."""

from datetime import UTC, datetime, timedelta

import pytest
from everywhere import everywhere


def tagged(record):
    return record.tagged


@pytest.mark.parametrize("ahead", [timedelta(minutes=7), timedelta(hours=12)], ids=["7 minutes", "12 hours"])
@everywhere(tagged)
async def test_promise_2_a_worker_whose_clock_is_ahead_finds_what_it_created_in_doubt(
    world, emulator, monkeypatch, ahead
):
    monkeypatch.setattr("groupage.activities.submission._now", lambda: datetime.now(UTC) + ahead)
    emulator.faults(calls=[{"call": "batches.create", "nth": [1], "action": "drop_after"}])
    submitted, failures = await world.submitted(await world.planned())
    assert failures, "the trial shows nothing"
    assert submitted.adopted
    assert len(emulator.state()["batches"]) == 1
