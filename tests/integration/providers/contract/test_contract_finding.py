"""Find or create: looked for before each create, one create an attempt, and nothing is made twice in doubt."""

import asyncio

import pytest
from everywhere import everywhere, rows
from groupage.activities.intents import read_log
from groupage.schemas import ErrorClass
from groupage.schemas.errors import AmbiguousCreate, ProviderError
from temporalio.exceptions import ApplicationError

CREATE = "batches.create"
FOR_GOOD = {ErrorClass.invalid, ErrorClass.account, ErrorClass.too_large}
IN_PASSING = {ErrorClass.rate_limit, ErrorClass.transient}


def tagged(record):
    return record.tagged


def batches(emulator):
    return emulator.state()["batches"]


@everywhere(tagged)
async def test_SU_01_a_worker_killed_after_create_adopts_the_batch(world, emulator):
    ref = await world.planned()
    first = await world.submit(ref)
    left = world.left()
    again = await world.killed().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert (emulator.creates(), world.left()) == (1, left)


@everywhere()
async def test_SU_01_a_process_that_is_new_has_the_batch_that_was_written_down(world, emulator):
    """Even if no listing shows it yet."""
    emulator.faults(calls=[{"call": CREATE, "nth": [1], "action": "lag", "seconds": "1h"}])
    ref = await world.planned()
    first = await world.submit(ref)
    again = await world.restarted().submit(ref)
    assert (again.batch_id, again.adopted) == (first.batch_id, True)
    assert emulator.creates() == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "drop_after"},
        {"action": "error_after", "status": 500},
        {"action": "error_after", "status": 503},
        {"action": "slow", "seconds": "30s"},
    ],
    ids=["SU-02 reply lost", "SU-04 500 though accepted", "SU-04 503 though accepted", "timeout"],
)
@everywhere(tagged)
async def test_SU_02_SU_04_an_ambiguous_create_is_looked_for_and_adopted(make_world, emulator, fault):
    world = make_world(provider={"create_timeout_s": 3.0})
    emulator.faults(calls=[{"call": CREATE, "nth": [1], **fault}])
    submitted, failures = await world.submitted(await world.planned())
    assert submitted.adopted
    assert failures[0].type == "provider.transient"
    assert (emulator.creates(), len(batches(emulator))) == (1, 1), "the SDK sent it once"


@pytest.mark.parametrize("action", ["drop_before", "html"])
@everywhere()
async def test_SU_02_PO_22_a_create_that_was_never_done_is_done_after_the_window(world, emulator, action):
    emulator.faults(calls=[{"call": CREATE, "nth": [1], "action": action}])
    submitted, failures = await world.submitted(await world.planned())
    assert not submitted.adopted
    assert failures
    assert (emulator.creates(), len(batches(emulator))) == (2, 1)


@pytest.mark.parametrize("action", ["drop_after", "html"])
@everywhere()
async def test_SU_02_PO_22_a_reply_that_says_nothing_of_a_batch_is_a_doubt(world, emulator, action):
    submission = world.submission(await world.planned(), world.one_line())
    files = await world.adapter.upload(submission)
    emulator.faults(calls=[{"call": CREATE, "action": action}])
    with pytest.raises(AmbiguousCreate):
        await world.adapter.create(submission, files)
    assert emulator.creates() == 1


@everywhere()
async def test_a_server_that_is_not_there_was_sent_nothing(make_world, record, monkeypatch):
    for name, value in record.unplugged.items():
        monkeypatch.setenv(name, value)
    world = make_world()
    with pytest.raises(ProviderError) as error:
        await world.adapter.create(world.submission(await world.planned(), world.one_line()), [record.gone[0]])
    assert not isinstance(error.value, AmbiguousCreate)
    assert (error.value.error_class, error.value.code) == (ErrorClass.transient, "not_connected")


@everywhere(tagged)
async def test_a_look_that_finds_nothing_to_look_at_is_tried_again_and_then_asks(world, emulator):
    """Once it passes; always, it is an address or an API that is not there."""
    gone = {"call": "batches.list", "action": "error", "status": 404}
    emulator.faults(calls=[{**gone, "times": 1}])
    _, failures = await world.submitted(await world.planned())
    assert [failure.type for failure in failures] == ["provider.transient"]
    emulator.faults(calls=[gone])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submitted(ref)
    assert (failure.value.type, failure.value.non_retryable) == ("provider.account", True)
    assert "there is nothing to look at" in failure.value.message
    assert len(batches(emulator)) == 1, "only the first one's"


@rows("fault found", lambda record: record.refusals)
async def test_CL_06_SDK_06_a_create_that_is_refused_says_why_and_leaves_input_only_if_it_goes_again(
    world, emulator, record, fault, found
):
    emulator.faults(calls=[{"call": CREATE, "action": "error", **fault}])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert (failure.value.type, failure.value.non_retryable) == (f"provider.{found}", found not in IN_PASSING)
    if "retry_after" in fault:
        assert failure.value.next_retry_delay.total_seconds() >= fault["retry_after"]
    assert (emulator.creates(), batches(emulator)) == (1, []), "it was sent once"
    if found is not ErrorClass.transient:
        assert read_log(world.store, ref).end.outcome != "unknown", "it is no doubt"
    assert bool(world.left()) == (record.uploads and found not in FOR_GOOD)


@everywhere(lambda record: record.quota)
async def test_QU_02_a_full_queue_is_waited_for_and_the_same_input_goes_again(world, emulator, record):
    emulator.faults(calls=[{"call": CREATE, "action": "error", "times": 1, **record.quota}])
    ref = await world.planned()
    with pytest.raises(ApplicationError) as failure:
        await world.submit(ref)
    assert failure.value.type == "provider.quota"
    left = world.left()
    submitted = await world.restarted().submit(ref)
    assert not submitted.adopted
    assert (len(submitted.input_files), world.left()) == (int(record.uploads), left)
    assert len(batches(emulator)) == 1


@everywhere(tagged)
async def test_two_batches_of_one_tag_are_told_and_dead_ones_left_out(world):
    ref = await world.planned()
    dead = await world.submit(ref)
    submission = world.submission(ref, not_ids=(dead.batch_id,))
    made = await world.adapter.create(submission, dead.input_files)
    assert made.batch_id != dead.batch_id
    one = await world.adapter.find(ref.tag, since=None, not_ids=[dead.batch_id])
    assert (one.batch_id, one.tag, one.warning) == (made.batch_id, ref.tag, "")
    both = await world.adapter.find(ref.tag, since=world.started_at, not_ids=[])
    assert "carry the tag" in both.warning


@everywhere(tagged)
async def test_a_tag_is_found_whole_among_many_and_not_by_a_part(world, record, monkeypatch):
    """Shard 1 is not found for shard 10, and listings are read to their end."""
    monkeypatch.setattr(record.page, 2)
    refs = [await world.planned(5) for _ in range(5)]
    made = [(await world.submit(ref)).batch_id for ref in refs]
    first = refs[0]
    assert first.tag.endswith("-s0")
    assert (await world.adapter.find(first.tag, since=world.started_at, not_ids=[])).batch_id == made[0]
    for other in (first.tag[:-1], f"{first.tag}0"):
        assert await world.adapter.find(other, since=None, not_ids=[]) is None
    listed = [one for one in await world.ours(first.tag[1:7]) if one.kind == "batch"]
    assert {(one.id, one.tag) for one in listed} == {(id_, ref.tag) for id_, ref in zip(made, refs, strict=True)}


@everywhere(lambda record: record.uploads)
async def test_an_input_is_found_and_not_sent_again_and_one_of_another_size_is_replaced(world):
    ref = await world.planned()
    content = world.one_line()
    files = await world.adapter.upload(world.submission(ref, content))
    again = await world.adapter.upload(world.submission(ref, content[::-1], look_since=world.started_at))
    assert again == files
    # Where its name says nothing of what was sent, what is there is still the first one.
    assert world.content(files[0]) in {None, content}
    other = await world.adapter.upload(world.submission(ref, b"{}\n", look_since=world.started_at))
    assert world.content(other[0]) in {None, b"{}\n"}
    assert len(world.left()) == 1


@everywhere(lambda record: record.uploads)
async def test_a_batch_of_an_input_that_is_gone_is_no_doubt(world, emulator, record):
    with pytest.raises(ProviderError) as error:
        await world.adapter.create(world.submission(await world.planned()), [record.gone[0]])
    assert not isinstance(error.value, AmbiguousCreate)
    assert error.value.error_class in {ErrorClass.missing, ErrorClass.invalid}
    assert batches(emulator) == []


@everywhere(lambda record: record.uploads)
async def test_a_cancelled_upload_ends_in_seconds_and_leaves_nothing(world):
    submission = world.submission(await world.planned())
    with submission.path.open("wb") as file:
        file.truncate(200_000_000)
    task = asyncio.create_task(world.adapter.upload(submission))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert world.left() == []
