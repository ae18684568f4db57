"""PF-08: planning counts, request by request, how often nobody could explain how it ended."""

import random

import pytest
from data_world import World, bad, ok
from groupage.schemas import BatchPhase, ErrorClass, FailureAction
from groupage.schemas.states import UNEXPLAINED

RESUBMIT = dict.fromkeys(ErrorClass, FailureAction.resubmit)
ONCE_MORE = sorted(UNEXPLAINED)
ENDINGS = {
    ErrorClass.expired: "batch_expired",
    ErrorClass.unknown: "never_heard_of",
    ErrorClass.transient: "server_error",
}
"""Besides missing, which takes no line."""


async def end(world: World, round_: int, endings: dict[int, ErrorClass | None]) -> None:
    """Let the batch of a round end, its requests as said (None: with an answer)."""
    wires = {index: world.wire(index, round_) for index in endings}
    good = [ok(wires[index]) for index, ending in endings.items() if ending is None]
    failed = [bad(wires[index], ENDINGS[ending]) for index, ending in endings.items() if ending in ENDINGS]
    report = await world.collect(good, failed, round_=round_, phase=BatchPhase.completed)
    assert report.unanswered == {c: list(endings.values()).count(c) for c in endings.values() if c is not None}


@pytest.mark.parametrize("seed", range(12))
async def test_PF_08_whatever_came_before_the_first_unexplained_end_gets_one_more_try(world, seed):
    draw = random.Random(seed)
    world.one_shard(12)
    going, unexplained = list(range(12)), dict.fromkeys(range(12), 0)
    for round_ in range(5):
        endings = {i: draw.choice([*ENDINGS, ErrorClass.missing, ErrorClass.missing, None]) for i in going}
        await end(world, round_, endings)
        left = [i for i in going if endings[i] is not None]
        again = [i for i in left if endings[i] in UNEXPLAINED and unexplained[i]]
        for i in left:
            unexplained[i] += endings[i] in UNEXPLAINED
        going = [i for i in left if i not in again]
        plan = world.plan(round_ + 1, actions=RESUBMIT, once_more=ONCE_MORE)
        assert (plan.requests, plan.given_up, plan.ended_again) == (len(going), len(again), len(again))
        if not going:
            return
        assert world.members(round_ + 1) == going


async def test_PF_08_a_class_that_is_given_up_anyway_is_counted_by_the_job(world):
    world.one_shard(2)
    await end(world, 0, dict.fromkeys(range(2), ErrorClass.missing))
    world.plan(1, actions=RESUBMIT, once_more=ONCE_MORE)
    await end(world, 1, {0: ErrorClass.missing, 1: ErrorClass.unknown})
    actions = RESUBMIT | {ErrorClass.missing: FailureAction.give_up}
    plan = world.plan(2, actions=actions, once_more=ONCE_MORE)
    assert (plan.requests, plan.given_up, plan.ended_again) == (0, 2, 1)


async def test_PF_08_what_a_person_insists_on_goes_again(world):
    world.one_shard(2)
    await end(world, 0, dict.fromkeys(range(2), ErrorClass.missing))
    world.plan(1, actions=RESUBMIT)
    await end(world, 1, {0: ErrorClass.missing, 1: ErrorClass.unknown})
    world.plan(2, actions=RESUBMIT, once_more=[ErrorClass.missing])
    assert world.members(2) == [1]


async def test_PF_08_an_answer_that_came_late_is_no_second_end(world):
    """Round 0 settles after round 1 was planned of all its requests, with an answer of one of them."""
    world.one_shard(3)
    world.plan(1, actions={ErrorClass.not_sent: FailureAction.resubmit})
    await end(world, 0, {0: None, 1: ErrorClass.missing, 2: ErrorClass.expired})
    await end(world, 1, dict.fromkeys(range(3), ErrorClass.missing))
    plan = world.plan(2, actions=RESUBMIT, once_more=ONCE_MORE)
    assert (plan.given_up, plan.ended_again, world.members(2)) == (1, 1, [2])
