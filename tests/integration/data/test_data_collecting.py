"""collect_batch: the lines decide, each is joined by its id alone, nothing is lost or counted twice."""

import random
from decimal import Decimal

import orjson
import pytest
from data_world import World, answer_body, bad, http, ok
from groupage.schemas import BatchError, BatchPhase, ErrorClass, JobState, Outcome, Summary
from groupage.store import keys

OK, FAILED, EXPIRED = Outcome.succeeded, Outcome.failed, Outcome.expired
UNREADABLE, CANCELLED = Outcome.unreadable, Outcome.cancelled


def quarantine(world: World) -> list[dict]:
    return [orjson.loads(line) for line in world.received("quarantine.jsonl.zst").splitlines()]


async def test_good_lines_are_answers_with_usage_and_cost(world):
    world.one_shard(3)
    report = await world.collect([ok(world.wire(n), f"t{n}") for n in range(3)], completed=3, failed=0, total=3)
    assert report.outcomes == {OK: 3}
    assert (report.requests, report.answered, report.unanswered, report.count_mismatch) == (3, 3, {}, "")
    # 100 in at $0.075 and 10 out at $0.30 a million, three times.
    assert report.cost_usd == Decimal("0.0000315")
    assert report.waste_usd == 0
    assert report.latency_s == 3600.0
    rows = world.rows().rows
    assert rows["sync_cost"].tolist() == [21000] * 3
    assert rows["input"].tolist() == [100] * 3


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e"])
async def test_RP_01_line_separators_inside_an_answer_do_not_cut_it(world, char):
    world.one_shard(1)
    raw = ok(world.wire(0), f"a{char}b")
    report = await world.collect([raw])
    assert report.outcomes == {OK: 1}


async def test_PF_08_a_member_in_no_file_is_missing_and_named(world):
    world.one_shard(10)
    report = await world.collect([ok(world.wire(n)) for n in range(9)], completed=10, failed=0, total=10)
    assert report.outcomes == {OK: 9, FAILED: 1}
    assert report.unanswered == {ErrorClass.missing: 1}
    assert world.outcomes()[9] is FAILED
    assert "1 of 10 requests are in no result file" in report.count_mismatch


async def test_RP_07_order_plays_no_part(world):
    world.one_shard(50)
    rows = [ok(world.wire(n), f"answer {n}") for n in range(50)]
    random.Random(7).shuffle(rows)
    report = await world.collect(rows)
    assert report.outcomes == {OK: 50}
    assert world.rows().rows["index"].tolist() == list(range(50))


async def test_RP_07_a_line_without_an_id_is_quarantined_and_never_guessed(world):
    world.one_shard(3)
    nameless = orjson.dumps({"response": {"status_code": 200, "body": answer_body("whose?")}})
    report = await world.collect([ok(world.wire(0)), nameless, ok(world.wire(2))])
    assert world.outcomes() == {0: OK, 1: FAILED, 2: OK}
    assert report.quarantined == 1
    assert [row["reason"] for row in quarantine(world)] == ["no_id"]
    assert orjson.loads(quarantine(world)[0]["raw"]) == orjson.loads(nameless)
    assert report.waste_usd > 0, "it was billed all the same"


async def test_promise_5_ids_of_others_are_quarantined(world):
    world.one_shard(2)
    own = world.wire(0)
    foreign = [
        own.replace("-s0-", "-s1-"),
        own.replace("-r0-", "-r1-"),
        "g" + ("a" if own[1] != "a" else "b") + own[2:],
        world.wire(7),
        f"{world.shard().tag}-00",
        f" {own}",
        "id-0",
        "",
    ]
    report = await world.collect([ok(own), *(ok(wire, "not ours") for wire in foreign), ok(world.wire(1))])
    assert report.outcomes == {OK: 2}
    assert report.quarantined == len(foreign)
    reasons = [row["reason"] for row in quarantine(world)]
    assert reasons[3] == "not_a_member"
    assert reasons[0].startswith("id_of_")
    assert reasons[6] == "foreign_id"


async def test_RP_10_failed_lines_in_both_shapes_fail(world):
    world.one_shard(2)
    error = {"error": {"message": "bad schema", "type": "invalid_request_error", "param": None, "code": None}}
    vllm = orjson.dumps({"custom_id": world.wire(1), "response": {"status_code": 400}, "error": {"message": "no"}})
    report = await world.collect([http(world.wire(0), 400, error), vllm])
    assert report.outcomes == {FAILED: 2}
    assert report.unanswered == {ErrorClass.invalid: 2}


async def test_RP_11_status_zero_lines_in_the_error_file_are_read_although_the_counts_deny_them(world):
    world.one_shard(100)
    report = await world.collect(
        [ok(world.wire(n)) for n in range(90)],
        [http(world.wire(n), 0, {}) for n in range(90, 100)],
        total=100, completed=100, failed=0,
    )  # fmt: skip
    assert report.outcomes == {OK: 90, FAILED: 10}
    assert report.unanswered == {ErrorClass.unknown: 10}
    assert "100 completed and 0 failed, its lines say 90 and 10" in report.count_mismatch


async def test_RP_12_CO_05_four_kinds_of_unreadable_lines_do_not_sink_ten_good_ones(world):
    world.one_shard(14)
    wires = [world.wire(n) for n in range(14)]
    rows = [ok(wire) for wire in wires[:10]]
    rows[3:3] = [http(wires[10], 200, {}), ok(wires[11]).replace(b"fine", b"f\xffne"), b'{"custom_id', b"[1]"]
    report = await world.collect(rows)
    assert report.outcomes == {OK: 10, UNREADABLE: 4}
    assert report.unanswered == {ErrorClass.unreadable: 4}
    assert report.quarantined == 2
    assert report.cost_usd == 10 * Decimal("0.0000105")
    assert b"f\xffne" in world.received("output.jsonl.zst")


async def test_RP_14_RP_16_truncated_and_refused_are_answers_that_were_paid(world):
    world.one_shard(2)
    report = await world.collect([ok(world.wire(0), finish="length"), ok(world.wire(1), finish="content_filter")])
    assert report.outcomes == {Outcome.truncated: 1, Outcome.refused: 1}
    assert report.cost_usd > 0
    assert report.unanswered == {}


async def test_PF_01_completed_with_an_error_file_alone_is_no_success(world):
    world.one_shard(9)
    errors = [http(world.wire(n), 400, {"error": {"code": "bad_param", "message": "m"}}) for n in range(9)]
    report = await world.collect(None, errors, total=9, completed=0, failed=9)
    assert report.outcomes == {FAILED: 9}
    assert report.top_errors == [("invalid/bad_param", 9)]
    assert report.count_mismatch == ""


async def test_PF_07_counts_that_disagree_with_the_lines_are_reported(world):
    world.one_shard(10)
    rows = [ok(world.wire(n)) for n in range(6)] + [http(world.wire(n), 500, None) for n in range(6, 10)]
    report = await world.collect(rows, total=10, completed=10, failed=0)
    assert report.outcomes == {OK: 6, FAILED: 4}
    assert "10 completed and 0 failed, its lines say 6 and 4" in report.count_mismatch


async def test_PO_10_counts_of_zero_do_not_mean_nothing_to_fetch(world):
    world.one_shard(3)
    report = await world.collect([ok(world.wire(n)) for n in range(3)], total=0, completed=0, failed=0)
    assert report.outcomes == {OK: 3}
    assert report.count_mismatch == ""


async def test_PF_03_a_success_count_of_zero_against_good_lines_is_an_alarm(world):
    world.one_shard(3)
    report = await world.collect([ok(world.wire(n)) for n in range(3)], total=3, completed=0, failed=3)
    assert report.outcomes == {OK: 3}
    assert "0 completed and 3 failed, its lines say 3 and 0" in report.count_mismatch


async def test_PF_04_a_partly_successful_batch_is_harvested(world):
    world.one_shard(10)
    report = await world.collect([ok(world.wire(n)) for n in range(6)], phase=BatchPhase.expired)
    assert report.outcomes == {OK: 6, EXPIRED: 4}


async def test_EX_01_what_an_expired_batch_answered_is_kept(world):
    world.one_shard(10)
    report = await world.collect(
        [ok(world.wire(0))], [bad(world.wire(n)) for n in range(1, 10)], phase=BatchPhase.expired
    )
    assert report.outcomes == {OK: 1, EXPIRED: 9}
    assert report.unanswered == {ErrorClass.expired: 9}
    assert report.cost_usd > 0


async def test_EX_02_counts_need_not_add_up_the_remainder_is_expired(world):
    world.one_shard(10)
    report = await world.collect([ok(world.wire(0))], phase=BatchPhase.expired, total=10, completed=1, failed=0)
    assert report.outcomes == {OK: 1, EXPIRED: 9}
    assert report.count_mismatch == ""


async def test_PF_13_CO_04_after_a_cancel_what_was_done_stays_done_and_is_costed(world):
    world.one_shard(25)
    report = await world.collect(
        [ok(world.wire(n)) for n in range(5)],
        [bad(world.wire(n), "batch_cancelled") for n in range(5, 25)],
        phase=BatchPhase.cancelled,
    )
    assert report.outcomes == {OK: 5, CANCELLED: 20}
    assert report.cost_usd == 5 * Decimal("0.0000105")


async def test_PF_14_an_answer_beats_a_cancelled_line_and_missing_ids_are_cancelled(world):
    world.one_shard(25)
    wires = [world.wire(n) for n in range(25)]
    output = [ok(wire) for wire in wires[:10]] + [bad(wire, "batch_cancelled") for wire in wires[10:20]]
    errors = [bad(wire, "batch_cancelled") for wire in wires[:20]]
    report = await world.collect(output, errors, phase=BatchPhase.cancelled, total=25, completed=15, failed=0)
    assert report.outcomes == {OK: 10, CANCELLED: 15}
    assert set(world.outcomes()) == set(range(25))
    assert "15 completed" in report.count_mismatch
    assert "20 lines answer a request that has a line already" in report.count_mismatch


async def test_a_second_answer_is_waste_and_the_first_one_stays(world):
    world.one_shard(1)
    report = await world.collect([ok(world.wire(0), "first"), ok(world.wire(0), "second", completion=20)])
    assert report.outcomes == {OK: 1}
    assert report.cost_usd == Decimal("0.0000105")
    assert report.waste_usd == Decimal("0.0000135")


async def test_of_two_answers_the_whole_one_stays_and_a_line_that_came_twice_is_no_waste(world):
    world.one_shard(2)
    cut, again = ok(world.wire(0), "cut", finish="length"), ok(world.wire(1), "same")
    report = await world.collect([cut, ok(world.wire(0), "whole"), again, again])
    assert report.outcomes == {OK: 2}
    assert (report.cost_usd, report.waste_usd) == (Decimal("0.000021"), Decimal("0.0000105"))
    assert "2 lines answer a request that has a line already" in report.count_mismatch


async def test_RP_20_bytes_are_utf8_whatever_the_server_says(world):
    world.one_shard(1)
    report = await world.collect([ok(world.wire(0), "é—日")])
    assert report.outcomes == {OK: 1}


async def test_a_batch_that_failed_as_a_whole_gives_its_reason_to_each_request(world):
    world.one_shard(4)
    error = BatchError(error_class=ErrorClass.quota, code="token_limit_exceeded", message="too many")
    report = await world.collect(phase=BatchPhase.failed, error=error)
    assert report.outcomes == {FAILED: 4}
    assert report.unanswered == {ErrorClass.quota: 4}
    assert report.top_errors == [("quota/token_limit_exceeded", 4)]
    assert report.error == error


async def test_a_shard_that_was_never_submitted_is_not_sent(world):
    world.one_shard(4)
    report = await world.collect(batch_id="", phase=BatchPhase.cancelled)
    assert report.outcomes == {CANCELLED: 4}
    assert report.unanswered == {ErrorClass.not_sent: 4}


async def test_PF_08_a_batch_that_is_gone_may_have_been_paid_and_its_requests_are_asked_once_more(world):
    world.one_shard(3)
    error = BatchError(error_class=ErrorClass.missing, code="not_found", message="batch batch_1 is gone")
    report = await world.collect(phase=BatchPhase.failed, error=error)
    assert report.unanswered == {ErrorClass.missing: 3}
    assert report.maybe_paid_twice == 3
    assert "batch_1 is gone" in report.count_mismatch
    assert report.left_behind == ["result files of batch_1, if it has any"]


async def test_results_after_the_jobs_end_are_waste(world):
    world.one_shard(2)
    summary = Summary(
        tenant=world.job.tenant, key=world.job.key, fingerprint="f", state=JobState.completed_with_failures,
        provider="openai", requests=2, outcomes={EXPIRED: 2},
    )  # fmt: skip
    world.store.put_message(keys.summary(world.job.tenant, world.job.key), summary)
    report = await world.collect([ok(world.wire(n)) for n in range(2)])
    assert (report.cost_usd, report.waste_usd) == (0, Decimal("0.000021"))
    assert world.store.exists(keys.late_report(world.job.tenant, world.job.key, 0, 0))


async def test_a_broken_price_or_model_is_marked_as_a_guess(world):
    world.prepare([world.request(0, model="my-own-model")])
    world.plan()
    raw = ok(world.wire(0)).replace(b"gpt-4o-mini-2024-07-18", b"my-own-model")
    report = await world.collect([raw])
    assert (report.outcomes, report.cost_usd, report.cost_estimated) == ({OK: 1}, 0, True)


async def test_a_deployments_own_name_is_priced_as_the_model_that_was_asked_for(world):
    world.one_shard(1)
    report = await world.collect([ok(world.wire(0)).replace(b"gpt-4o-mini-2024-07-18", b"prod-eu-7")])
    assert report.cost_usd == Decimal("0.0000105")
