"""Promise 2 where a batch shows nothing of ours: a create call without an answer, among batches of others."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from anthropic_world import ask, state_of, stranger
from groupage.activities.intents import read_log
from groupage.activities.providers.anthropic import AnthropicProvider
from groupage.activities.turns import account_of, busy_until, end_turn, made_by_others, take_turn
from groupage.schemas import BatchPhase, ErrorClass
from groupage.schemas.activity_calls import CancelBatch, CleanUpBatch, SweepOrphans
from provider_world import attempt_of, attempts_of, benign
from temporalio.exceptions import ApplicationError
from worlds import DOUBT_S, KilledError, submitted_in_the_end

LOST = {"call": "batches.create", "times": 1}


class DiesAfterCreate(AnthropicProvider):
    async def create(self, submission, files):
        await super().create(submission, files)
        raise KilledError


async def lost_create(world, emulator, shard, **fault):
    """Submit once; the call is accepted and its answer lost."""
    emulator.faults(calls=[{**LOST, "action": "drop_after", **fault}])
    with pytest.raises(ApplicationError) as failure:
        await world.submit(shard)
    assert failure.value.type == "provider.transient"
    assert read_log(world.store, shard).end.outcome == "unknown"
    emulator.faults()


def ours(emulator, shard):
    """Ids of the shard's batches, by what the emulator saw inside them."""
    return [
        one["id"] for one in emulator.state()["batches"] if (one["metadata"] or {}).get("groupage_tag") == shard.tag
    ]


@pytest.mark.parametrize(
    "fault",
    [{"action": "drop_after"}, {"action": "error_after", "status": 500}, {"action": "error_after", "status": 529}],
    ids=["reset", "500", "529"],
)
async def test_SU_02_SU_04_a_lost_answer_makes_no_second_batch(make_anthropic, emulator, fault):
    world = make_anthropic(create_visibility_s=DOUBT_S)
    shard = world.shard(6)
    await lost_create(world, emulator, shard, **fault)
    with pytest.raises(ApplicationError) as soon:
        await world.submit(shard, attempt=2)
    assert benign(soon.value), "while it may not be visible yet, nothing is adopted"

    done, _ = await submitted_in_the_end(world, shard)
    assert done.adopted
    assert emulator.creates() == 1
    status = await world.adapter.status(done.batch_id)
    assert (status.phase, status.raw_state) == (BatchPhase.in_progress, "unproven")
    emulator.finish()
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, done.batch_id))
    assert [status.batch_id] == ours(emulator, shard)
    assert status.phase is BatchPhase.completed


async def test_SU_01_a_worker_killed_after_create_leaves_a_batch_that_the_retry_finds(make_anthropic, emulator):
    world = make_anthropic(provider={"inline_create_timeout_s": 2.0})
    shard = world.shard(6)
    world.use(DiesAfterCreate("anthropic", world.settings.providers["anthropic"]))
    with pytest.raises(KilledError):
        await world.submit(shard)
    retry = world.again()
    done, failures = await submitted_in_the_end(retry, shard)
    assert failures
    assert all(benign(failure) for failure in failures)
    assert ours(emulator, shard)[0] in done.batch_id
    assert emulator.creates() == 1
    emulator.finish()
    status = await retry.context.provider("anthropic").status(done.batch_id)
    assert [status.batch_id] == ours(emulator, shard)


async def test_two_equal_batches_of_somebody_else_are_told_apart_and_left_alone(anthropic_world, emulator):
    world = anthropic_world
    shard = world.shard(5)
    theirs = [stranger(emulator, 5, name="before")]
    await lost_create(world, emulator, shard)
    theirs.append(stranger(emulator, 5, name="after"))
    other_size = stranger(emulator, 4, name="smaller")
    done, _ = await submitted_in_the_end(world, shard)
    (mine,) = ours(emulator, shard)
    assert done.adopted
    assert all(one in done.batch_id for one in [*theirs, mine])
    assert other_size not in done.batch_id

    # Told to stop, it must not stop what may be somebody else's.
    status = await attempt_of(world.activities.cancel_batch, CancelBatch(shard=shard, batch_id=done.batch_id))
    assert not status.phase.ended
    assert {state_of(emulator, one) for one in [*theirs, mine]} == {"in_progress"}

    emulator.finish()
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, done.batch_id))
    assert (status.batch_id, status.tag, status.completed) == (mine, shard.tag, 5)
    cleaning = CleanUpBatch(shard=shard, batch_id=done.batch_id, files=status.output_files)
    assert (await attempt_of(world.activities.clean_up_batch, cleaning)).left_behind == []
    left = [one["id"] for one in ask(emulator, "GET", "/messages/batches")["data"]]
    assert set(left) == {*theirs, other_size}


async def test_a_batch_that_is_not_ours_is_given_up_loudly(anthropic_world, emulator):
    """Nothing was created, and somebody else made one of the same size at the same moment."""
    world = anthropic_world
    shard = world.shard(5)
    emulator.faults(calls=[{**LOST, "action": "drop_before"}])
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    theirs = stranger(emulator, 5)
    done, _ = await submitted_in_the_end(world, shard)
    assert theirs in done.batch_id
    emulator.finish()
    status, _ = await attempts_of(world.activities.await_batch, world.awaiting(shard, done.batch_id))
    assert status.phase is BatchPhase.failed
    assert (status.error.error_class, status.error.code) == (ErrorClass.transient, "not_ours")
    assert theirs in status.error.message
    assert status.output_files == []
    await world.adapter.delete("batch", done.batch_id)
    assert state_of(emulator, theirs) == "ended", "it is still there"


async def test_absence_is_proven_and_then_it_is_sent_again(anthropic_world, emulator):
    world = anthropic_world
    shard = world.shard(5)
    emulator.faults(calls=[{**LOST, "action": "drop_before"}])
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    done, _ = await submitted_in_the_end(world, shard)
    assert not done.adopted
    assert [done.batch_id] == ours(emulator, shard)
    assert emulator.creates() == 2


async def test_a_strangers_batch_that_has_ended_is_no_candidate(anthropic_world, emulator):
    world = anthropic_world
    shard = world.shard(5)
    theirs = stranger(emulator, 5)
    emulator.finish()
    emulator.faults(calls=[{**LOST, "action": "drop_before"}])
    with pytest.raises(ApplicationError):
        await world.submit(shard)
    done, _ = await submitted_in_the_end(world, shard)
    assert not done.adopted
    assert done.batch_id != theirs


async def test_creates_of_one_account_take_turns(make_anthropic, emulator):
    """Two shards at once: the second is sent only when the first one's call has ended."""
    world = make_anthropic(provider={"inline_create_timeout_s": 100.0})
    emulator.faults(calls=[{"call": "batches.create", "action": "slow", "seconds": "1h", "times": 1}])
    shards = [world.shard(4), world.shard(4)]
    first = asyncio.create_task(world.submit(shards[0]))
    await emulator.called("batches.create")
    with pytest.raises(ApplicationError) as busy:
        await world.submit(shards[1])
    assert benign(busy.value)
    assert "another create of the account" in str(busy.value)
    assert emulator.creates() == 1
    emulator.advance_at_once("2h")
    done = [await first, (await submitted_in_the_end(world, shards[1]))[0]]
    assert [one.batch_id for one in done] == [ours(emulator, shard)[0] for shard in shards]


async def test_a_doubt_holds_the_turn_and_ours_are_never_mixed_up(make_anthropic, emulator):
    world = make_anthropic(create_visibility_s=DOUBT_S)
    doubtful, clear = world.shard(5), world.shard(5)
    await lost_create(world, emulator, doubtful)
    with pytest.raises(ApplicationError) as busy:
        await world.submit(clear)
    assert benign(busy.value)
    known, _ = await submitted_in_the_end(world, clear)
    assert [known.batch_id] == ours(emulator, clear)
    found, _ = await submitted_in_the_end(world, doubtful)
    assert known.batch_id not in found.batch_id, "a batch that is known to be another shard's is no candidate"
    assert ours(emulator, doubtful)[0] in found.batch_id
    assert emulator.creates() == 2


async def test_the_sweep_deletes_results_of_ours_that_nobody_needs_and_nothing_else(anthropic_world, emulator):
    world = anthropic_world
    shard = world.shard(3)
    done = await world.submit(shard)
    theirs = stranger(emulator, 3)
    emulator.finish()
    world.store.delete(list(world.store.list("tokens")))
    request = SweepOrphans(provider="anthropic", grace_s=0)
    swept = await attempt_of(world.activities.sweep_orphans, request)
    assert swept.deleted == 1
    left = [one["id"] for one in ask(emulator, "GET", "/messages/batches")["data"]]
    assert left == [theirs]
    assert done.batch_id not in left


def test_turns_are_numbered_and_expire(anthropic_world):
    store, account = anthropic_world.store, account_of(anthropic_world.shard(1).job)

    now, hold = datetime.now(UTC), timedelta(seconds=30)
    assert busy_until(store, account, now) is None
    first = take_turn(store, account, "a", now, hold)
    assert first.number == 1
    assert take_turn(store, account, "b", now, hold) == now + hold
    assert busy_until(store, account, now) == now + hold
    late = take_turn(store, account, "b", now + hold, hold)
    assert late.number == 2, "whoever held the first is taken for dead"
    end_turn(store, account, late, now, "msgbatch_b")
    assert busy_until(store, account, now) is None
    assert made_by_others(store, account, "a") == {"msgbatch_b"}
    assert made_by_others(store, account, "b") == set()


def test_old_turns_are_forgotten(anthropic_world, monkeypatch):

    monkeypatch.setattr("groupage.activities.turns.KEPT", 3)
    store, account = anthropic_world.store, account_of(anthropic_world.shard(1).job)
    now = datetime.now(UTC)
    for number in range(1, 8):
        turn = take_turn(store, account, "a", now, timedelta(seconds=30))
        assert turn.number == number
        end_turn(store, account, turn, now, f"b{number}")
    assert made_by_others(store, account, "x") == {"b5", "b6", "b7"}
