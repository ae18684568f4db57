"""Batches that are refused as a whole: the lines at fault have their outcome, their neighbours go again."""

import pytest
from data_world import World, ok
from groupage.activities.refusals import keep_refusal
from groupage.schemas import BadLines, BatchError, BatchPhase, BatchStatus, ErrorClass, FailureAction, Outcome, ShardRef
from test_data_finalizing import finalize, results

RESUBMIT = {ErrorClass.not_sent: FailureAction.resubmit}


def refused(*lines: BadLines, code: str = "invalid_json_line", message: str = "not parseable") -> dict:
    error = BatchError(error_class=ErrorClass.invalid, code=code, message=message, bad_lines=list(lines))
    return {"phase": BatchPhase.failed, "raw_state": "failed", "error": error}


def keep(world: World, error_class: ErrorClass, message: str = "no", shard: int = 0) -> None:
    """As waiting does with a batch that failed as a whole."""
    error = BatchError(error_class=error_class, code="refused", message=message)
    status = BatchStatus(batch_id="batch_1", phase=BatchPhase.failed, raw_state="failed", error=error)
    keep_refusal(world.store, ShardRef(job=world.job, round=0, shard=shard), status)


async def test_promise_10_only_the_lines_that_the_provider_names_are_at_fault(world):
    world.prepare([world.request(0), b"", *(world.request(n) for n in range(1, 10))])
    world.plan()
    named = [
        BadLines(lines=[3, 10], code="invalid_json_line", message="not parseable"),
        BadLines(lines=[5], message="x"),
    ]
    report = await world.collect(**refused(*named))
    assert report.unanswered == {ErrorClass.invalid: 3, ErrorClass.not_sent: 7}
    assert report.outcomes == {Outcome.failed: 10}
    assert report.error is not None
    assert report.error.bad_lines == []
    assert world.plan(1, actions=RESUBMIT).requests == 7
    assert world.members(1, 0) == [0, 1, 3, 5, 6, 7, 8]
    await world.collect([ok(world.wire(n, 1)) for n in (0, 1, 3, 5, 6, 7, 8)], round_=1, batch_id="batch_2")
    assert finalize(world, rounds=2).outcomes == {Outcome.succeeded: 7, Outcome.failed: 3}
    errors = {row["id"]: row["error"] for row in results(world) if row["error"]}
    # The input's own lines: there is a blank one before them.
    assert errors["id-2"] == {"class": "invalid", "code": "invalid_json_line", "message": "input line 4: not parseable"}
    assert errors["id-4"]["message"] == "input line 6: x"
    assert errors["id-9"]["message"] == "input line 11: not parseable"


async def test_lines_that_the_batch_does_not_have_blame_nobody(world):
    world.requests(4)
    world.plan()
    report = await world.collect(**refused(BadLines(lines=[5, 99])))
    assert report.unanswered == {ErrorClass.not_sent: 4}


async def test_a_request_that_is_refused_alone_is_at_fault_without_being_named(world):
    world.requests(1)
    world.plan()
    report = await world.collect(**refused())
    assert report.unanswered == {ErrorClass.invalid: 1}
    finalize(world)
    assert results(world)[0]["error"]["message"] == "input line 1: not parseable"


def test_promise_10_a_batch_that_is_refused_for_a_line_that_nobody_names_goes_again_in_halves(world):
    world.requests(10)
    world.plan(max_shard_requests=5)
    keep(world, ErrorClass.invalid)
    plan = world.plan(1, actions=RESUBMIT, limits_factor=0.5)
    assert [world.members(1, n) for n in range(plan.batch_shards)] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert plan.given_up == 0


def test_shards_that_were_refused_for_other_reasons_are_not_cut_with_them(world):
    """A shard of one request that waits for quota is not too large for being in a round that was cut."""
    world.requests(3)
    world.plan(max_shard_requests=1)
    keep(world, ErrorClass.too_large, shard=0)
    keep(world, ErrorClass.quota, shard=1)
    actions = RESUBMIT | {ErrorClass.quota: FailureAction.resubmit, ErrorClass.too_large: FailureAction.resubmit}
    plan = world.plan(1, actions=actions, limits_factor=0.5)
    assert [world.members(1, n) for n in range(plan.batch_shards)] == [[1], [2]]


@pytest.mark.parametrize("error_class", [ErrorClass.quota, ErrorClass.invalid, ErrorClass.transient])
async def test_what_a_provider_said_of_a_whole_batch_is_what_its_requests_say(world, error_class):
    world.requests(6)
    world.plan(max_shard_requests=3)
    keep(world, error_class, "too few records", shard=1)
    await world.collect([ok(world.wire(n)) for n in range(3)])
    summary = finalize(world)
    assert summary.outcomes == {Outcome.succeeded: 3, Outcome.failed: 3}
    assert summary.error_classes == {error_class: 3}
    assert results(world)[5]["error"] == {"class": error_class.value, "code": "refused", "message": "too few records"}


async def test_what_was_refused_and_answered_later_is_answered(world):
    world.requests(3)
    world.plan()
    keep(world, ErrorClass.quota)
    world.plan(1, actions={ErrorClass.quota: FailureAction.resubmit})
    await world.collect([ok(world.wire(n, 1)) for n in range(3)], round_=1)
    assert finalize(world, rounds=2).outcomes == {Outcome.succeeded: 3}


async def test_a_shard_that_may_still_settle_keeps_its_results_open(world):
    """It may have been sent again after it was refused: what it brings late is waste, and must be seen as such."""
    world.requests(3)
    world.plan()
    keep(world, ErrorClass.quota)
    assert finalize(world, unsettled=["0-0"]).outcomes == {Outcome.expired: 3}
    late = await world.collect([ok(world.wire(n)) for n in range(3)])
    assert late.waste_usd > 0


def test_what_was_refused_in_a_cancelled_job_is_cancelled(world):
    world.requests(3)
    world.plan()
    keep(world, ErrorClass.quota)
    assert finalize(world, cancelled=True).outcomes == {Outcome.cancelled: 3}
