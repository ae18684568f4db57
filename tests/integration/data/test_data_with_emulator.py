"""Whole jobs, activity by activity, against the emulator: its ledger is the judge of what was paid."""

from decimal import Decimal

import pytest
from emulated_job import EmulatedJob
from groupage.schemas import BatchPhase, ErrorClass, FailureAction, JobState, Outcome, Route

OK = Outcome.succeeded


def paid_once(job: EmulatedJob) -> dict:
    ledger = job.emulator.ledger()
    assert ledger["questions_paid_more_than_once"] == 0
    assert all(len(batches) == 1 for tag, batches in ledger["tags"].items() if "-r" in tag)
    return ledger


async def test_a_healthy_job_costs_what_the_provider_bills(emulated):
    await emulated.prepare(300)
    plan = await emulated.plan(max_shard_requests=200)
    assert plan.batch_shards == 2
    for shard in range(2):
        report = await emulated.run_batch(0, shard)
        assert report.count_mismatch == ""
        assert report.quarantined == 0
    summary = await emulated.finalize(1)
    assert (summary.state, summary.outcomes) == (JobState.completed, {OK: 300})
    assert emulated.check_answers() == {"succeeded": 300}
    ledger = paid_once(emulated)
    assert summary.usage.input_tokens == ledger["batch"]["input_tokens"]
    assert summary.usage.output_tokens == ledger["batch"]["output_tokens"]
    assert summary.waste_usd == 0
    assert not summary.cost_estimated


async def test_RP_all_kinds_of_bad_lines_end_in_one_outcome_each_and_are_made_good_in_the_next_round(emulated):
    kinds = ("http", "status_zero", "missing", "duplicate", "unknown_id", "truncated", "refused", "empty_body",
             "invalid_utf8", "malformed", "not_an_object")  # fmt: skip
    rules = [{"kind": kind, "lines": [10 * at, 10 * at + 1], "times": 1} for at, kind in enumerate(kinds, 1)]
    emulated.emulator.faults(requests=rules)
    await emulated.prepare(200)
    await emulated.plan()
    report = await emulated.run_batch()
    assert sum(report.outcomes.values()) == 200
    # A duplicate and a line of somebody else's come beside the good line, all other kinds instead of it.
    assert report.outcomes[OK] == 200 - 2 * 9
    assert (report.outcomes[Outcome.truncated], report.outcomes[Outcome.refused]) == (2, 2)
    assert report.quarantined >= 4
    assert report.count_mismatch
    emulated.emulator.faults()
    plan = await emulated.plan(1)
    assert plan.requests == 200 - report.answered
    await emulated.run_batch(1)
    summary = await emulated.finalize(2)
    counts = emulated.check_answers()
    assert counts == {"succeeded": 196, "truncated": 2, "refused": 2}
    assert summary.waste_usd > 0


async def test_RP_04_a_download_that_is_cut_is_fetched_again(emulated):
    emulated.emulator.faults(calls=[{"call": "files.content", "action": "cut", "times": 1}])
    await emulated.prepare(100)
    await emulated.plan()
    assert (await emulated.run_batch()).outcomes == {OK: 100}


@pytest.mark.parametrize("line_end", [True, False])
async def test_RP_05_a_download_that_ends_early_without_an_error_is_fetched_again(emulated, line_end):
    emulated.emulator.faults(calls=[{"call": "files.content", "action": "cut_clean", "line_end": line_end, "times": 1}])
    await emulated.prepare(100)
    await emulated.plan()
    report = await emulated.run_batch()
    assert (report.outcomes, report.quarantined) == ({OK: 100}, 0)


async def test_RP_20_a_wrong_charset_changes_nothing(emulated):
    emulated.emulator.faults(calls=[{"call": "files.content", "action": "content_type"}])
    await emulated.prepare(20)
    await emulated.plan()
    await emulated.run_batch()
    await emulated.finalize(1)
    assert emulated.check_answers() == {"succeeded": 20}


async def test_EX_01_an_expired_batch_is_harvested_and_only_the_rest_goes_again(emulated):
    emulated.emulator.faults(batches=[{"effect": "expire", "at": 0.6, "times": 1}])
    await emulated.prepare(100)
    await emulated.plan()
    report = await emulated.run_batch()
    assert report.phase is BatchPhase.expired
    assert 0 < report.answered < 100
    assert report.unanswered == {ErrorClass.expired: 100 - report.answered}
    plan = await emulated.plan(1)
    assert plan.requests == 100 - report.answered
    await emulated.run_batch(1)
    summary = await emulated.finalize(2)
    assert emulated.check_answers() == {"succeeded": 100}
    ledger = paid_once(emulated)
    assert summary.usage.output_tokens == ledger["batch"]["output_tokens"]


async def test_PF_13_PF_14_a_cancelled_batch_keeps_what_was_done_and_the_rest_goes_by_sync(emulated):
    emulated.emulator.faults(batches=[{"effect": "turnaround", "seconds": 600}])
    await emulated.prepare(100)
    await emulated.plan()
    report = await emulated.run_batch(cancel_at=5)
    assert report.phase is BatchPhase.cancelled
    assert 0 < report.answered < 100
    plan = await emulated.plan(1, FailureAction.sync, sync_shard_requests=40)
    assert (plan.batch_shards, plan.requests) == (0, 100 - report.answered)
    for shard in range(plan.sync_shards):
        sync = await emulated.run_sync(1, shard)
        assert sync.answered == sync.requests
    summary = await emulated.finalize(2)
    assert emulated.check_answers() == {"succeeded": 100}
    assert summary.routes == {Route.batch: report.answered, Route.sync: 100 - report.answered}
    ledger = paid_once(emulated)
    assert ledger["sync"]["billed"] == 100 - report.answered
    assert summary.cost_usd > report.cost_usd


async def test_PF_01_a_batch_of_errors_alone_is_no_success(emulated):
    emulated.emulator.faults(batches=[{"effect": "only_errors", "status": 400}])
    await emulated.prepare(9)
    await emulated.plan()
    report = await emulated.run_batch()
    assert report.outcomes == {Outcome.failed: 9}
    assert report.cost_usd == 0
    summary = await emulated.finalize(1)
    assert summary.state is JobState.failed
    assert summary.top_errors[0][1] == 9


@pytest.mark.parametrize("counts", ["null", "zero", "optimistic"])
async def test_PO_10_PF_07_counts_decide_nothing(emulated, counts):
    emulated.emulator.faults(
        batches=[{"effect": "counts", "counts": counts}],
        requests=[{"kind": "http", "status": 400, "lines": [3, 4]}],
    )
    await emulated.prepare(10)
    await emulated.plan()
    report = await emulated.run_batch()
    assert report.outcomes == {OK: 8, Outcome.failed: 2}
    assert bool(report.count_mismatch) == (counts == "optimistic")


async def test_QU_01_a_batch_refused_for_its_quota_marks_each_request_so(emulated):
    emulated.emulator.faults(batches=[{"effect": "token_limit", "times": 1}])
    await emulated.prepare(10)
    await emulated.plan()
    report = await emulated.run_batch()
    assert report.phase is BatchPhase.failed
    assert report.unanswered == {ErrorClass.quota: 10}


async def test_QU_06_credit_errors_are_told_as_the_accounts(emulated):
    emulated.emulator.faults(requests=[{"kind": "credit", "share": 0.6}])
    await emulated.prepare(100)
    await emulated.plan()
    report = await emulated.run_batch()
    assert set(report.unanswered) == {ErrorClass.account}
    assert 30 < report.unanswered[ErrorClass.account] < 90


async def test_a_sync_shard_lives_through_throttling_and_errors_without_paying_twice(emulated):
    emulated.emulator.faults(
        calls=[{"call": "sync", "action": "error", "status": 429, "retry_after": 0.2, "nth": [5, 6, 7]}],
        requests=[
            {"kind": "http", "status": 503, "share": 0.1, "times": 1, "routes": ["sync"]},
            {"kind": "http", "status": 400, "match": "number 11 ", "routes": ["sync"]},
        ],
    )
    await emulated.prepare(80)
    await emulated.plan(first_route=Route.sync)
    report = await emulated.run_sync(0)
    assert report.outcomes == {OK: 79, Outcome.failed: 1}
    assert report.unanswered == {ErrorClass.invalid: 1}
    summary = await emulated.finalize(1)
    assert emulated.check_answers() == {"succeeded": 79, "failed": 1}
    assert summary.sync_cost_usd == summary.cost_usd > Decimal(0)
    assert paid_once(emulated)["sync"]["billed"] == 79


async def test_a_lost_sync_reply_may_be_paid_twice_and_is_told(emulated):
    emulated.emulator.faults(calls=[{"call": "sync", "action": "drop_after", "nth": [3]}])
    await emulated.prepare(10)
    await emulated.plan(first_route=Route.sync)
    report = await emulated.run_sync(0)
    assert (report.outcomes, report.maybe_paid_twice) == ({OK: 10}, 1)
    assert emulated.emulator.ledger()["questions_paid_more_than_once"] == 1


async def test_MS_05_each_step_may_start_on_an_empty_disk_in_a_new_process(emulated):
    emulated.emulator.faults(batches=[{"effect": "expire", "at": 0.5, "times": 1}])
    await emulated.prepare(60)
    await emulated.move()
    await emulated.plan()
    await emulated.move()
    report = await emulated.run_batch()
    await emulated.move()
    await emulated.plan(1, FailureAction.sync)
    await emulated.move()
    await emulated.run_sync(1)
    await emulated.move()
    summary = await emulated.finalize(2)
    assert summary.outcomes == {OK: 60}
    assert emulated.check_answers() == {"succeeded": 60}
    assert paid_once(emulated)["sync"]["billed"] == 60 - report.answered
