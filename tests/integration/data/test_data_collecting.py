"""collect_batch: the lines decide, each is joined by its id alone, nothing is lost or counted twice."""

import asyncio
import random
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pytest
import zstandard
from data_world import NOW, World, answer_body, bad, http, lines, ok
from groupage.schemas import BatchError, BatchPhase, BatchStatus, ErrorClass, JobState, Outcome, Summary
from groupage.schemas.activity_calls import CollectBatch
from groupage.schemas.errors import ProviderError
from groupage.store import keys

OK, FAILED, EXPIRED = Outcome.succeeded, Outcome.failed, Outcome.expired
UNREADABLE, CANCELLED = Outcome.unreadable, Outcome.cancelled


def planned(world: World, count: int) -> World:
    world.requests(count)
    assert world.plan().batch_shards == 1
    return world


def received(world: World, name: str) -> bytes:
    packed = world.store.get(keys.shard_object(world.job.tenant, world.job.key, 0, 0, name))
    return zstandard.ZstdDecompressor().decompressobj().decompress(packed)


def quarantine(world: World) -> list[dict]:
    return [orjson.loads(line) for line in received(world, "quarantine.jsonl.zst").splitlines()]


async def test_good_lines_are_answers_with_usage_and_cost(world):
    planned(world, 3)
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


async def test_files_are_stored_as_received_byte_for_byte(world):
    planned(world, 2)
    output = lines([ok(world.wire(1)), b"  ", ok(world.wire(0), "\u2028 é")]) + b"\r\n"
    await world.collect((output,), [b"garbage"])
    assert received(world, "output.jsonl.zst") == output
    assert received(world, "errors.jsonl.zst") == b"garbage\n"


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e"])
async def test_RP_01_line_separators_inside_an_answer_do_not_cut_it(world, char):
    planned(world, 1)
    raw = ok(world.wire(0), f"a{char}b")
    report = await world.collect([raw])
    assert report.outcomes == {OK: 1}


async def test_RP_04_a_file_cut_in_the_middle_of_a_line_is_downloaded_again(world):
    planned(world, 10)
    whole = lines(ok(world.wire(n)) for n in range(10))
    report = await world.collect((whole[: int(len(whole) * 0.6)], whole))
    assert report.outcomes == {OK: 10}
    assert world.provider.downloads["file-out"] == 2
    assert report.quarantined == 0
    assert received(world, "output.jsonl.zst") == whole


async def test_RP_05_missing_lines_are_downloaded_again(world):
    planned(world, 10)
    rows = [ok(world.wire(n)) for n in range(10)]
    report = await world.collect((lines(rows[:7]), lines(rows)))
    assert report.outcomes == {OK: 10}
    assert world.provider.downloads["file-out"] == 2
    assert report.count_mismatch == ""


@pytest.mark.parametrize("phase", [BatchPhase.expired, BatchPhase.cancelled])
async def test_RP_05_an_output_cut_at_a_line_s_end_is_seen_beside_lines_of_requests_that_never_ran(world, phase):
    planned(world, 10)
    rows = [ok(world.wire(n)) for n in range(5)]
    errors = lines(bad(world.wire(n), f"batch_{phase}") for n in range(5, 10))
    # The counts speak of fewer requests than both files have lines.
    told = {"total": 10, "completed": 5, "failed": 0}
    report = await world.collect((lines(rows[:3]), lines(rows)), (errors,), phase=phase, **told)
    assert report.outcomes == {OK: 5, Outcome(phase.value): 5}


async def test_RP_05_a_count_that_promises_more_is_believed_for_one_download_more(world):
    planned(world, 10)
    rows = [ok(world.wire(n)) for n in range(10)]
    report = await world.collect((lines(rows[:7]), lines(rows[:7]), lines(rows)), completed=10, failed=0, total=10)
    assert report.outcomes == {OK: 10}


async def test_PF_08_a_member_in_no_file_is_missing_and_named(world):
    planned(world, 10)
    report = await world.collect([ok(world.wire(n)) for n in range(9)], completed=10, failed=0, total=10)
    assert report.outcomes == {OK: 9, FAILED: 1}
    assert report.unanswered == {ErrorClass.missing: 1}
    assert world.outcomes()[9] is FAILED
    assert "1 of 10 requests are in no result file" in report.count_mismatch


async def test_RP_07_order_plays_no_part(world):
    planned(world, 50)
    rows = [ok(world.wire(n), f"answer {n}") for n in range(50)]
    random.Random(7).shuffle(rows)
    report = await world.collect(rows)
    assert report.outcomes == {OK: 50}
    assert world.rows().rows["index"].tolist() == list(range(50))


async def test_RP_07_a_line_without_an_id_is_quarantined_and_never_guessed(world):
    planned(world, 3)
    nameless = orjson.dumps({"response": {"status_code": 200, "body": answer_body("whose?")}})
    report = await world.collect([ok(world.wire(0)), nameless, ok(world.wire(2))])
    assert world.outcomes() == {0: OK, 1: FAILED, 2: OK}
    assert report.quarantined == 1
    assert [row["reason"] for row in quarantine(world)] == ["no_id"]
    assert orjson.loads(quarantine(world)[0]["raw"]) == orjson.loads(nameless)
    assert report.waste_usd > 0, "it was billed all the same"


async def test_promise_5_ids_of_others_are_quarantined(world):
    planned(world, 2)
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
    planned(world, 2)
    error = {"error": {"message": "bad schema", "type": "invalid_request_error", "param": None, "code": None}}
    vllm = orjson.dumps({"custom_id": world.wire(1), "response": {"status_code": 400}, "error": {"message": "no"}})
    report = await world.collect([http(world.wire(0), 400, error), vllm])
    assert report.outcomes == {FAILED: 2}
    assert report.unanswered == {ErrorClass.invalid: 2}


async def test_RP_11_status_zero_lines_in_the_error_file_are_read_although_the_counts_deny_them(world):
    planned(world, 100)
    report = await world.collect(
        [ok(world.wire(n)) for n in range(90)],
        [http(world.wire(n), 0, {}) for n in range(90, 100)],
        total=100, completed=100, failed=0,
    )  # fmt: skip
    assert report.outcomes == {OK: 90, FAILED: 10}
    assert report.unanswered == {ErrorClass.unknown: 10}
    assert "100 completed and 0 failed, its lines say 90 and 10" in report.count_mismatch


async def test_RP_12_CO_05_four_kinds_of_unreadable_lines_do_not_sink_ten_good_ones(world):
    planned(world, 14)
    wires = [world.wire(n) for n in range(14)]
    rows = [ok(wire) for wire in wires[:10]]
    rows[3:3] = [http(wires[10], 200, {}), ok(wires[11]).replace(b"fine", b"f\xffne"), b'{"custom_id', b"[1]"]
    report = await world.collect(rows)
    assert report.outcomes == {OK: 10, UNREADABLE: 4}
    assert report.unanswered == {ErrorClass.unreadable: 4}
    assert report.quarantined == 2
    assert report.cost_usd == 10 * Decimal("0.0000105")
    assert b"f\xffne" in received(world, "output.jsonl.zst")


async def test_RP_14_RP_16_truncated_and_refused_are_answers_that_were_paid(world):
    planned(world, 2)
    report = await world.collect([ok(world.wire(0), finish="length"), ok(world.wire(1), finish="content_filter")])
    assert report.outcomes == {Outcome.truncated: 1, Outcome.refused: 1}
    assert report.cost_usd > 0
    assert report.unanswered == {}


async def test_PF_01_completed_with_an_error_file_alone_is_no_success(world):
    planned(world, 9)
    errors = [http(world.wire(n), 400, {"error": {"code": "bad_param", "message": "m"}}) for n in range(9)]
    report = await world.collect(None, errors, total=9, completed=0, failed=9)
    assert report.outcomes == {FAILED: 9}
    assert report.top_errors == [("invalid/bad_param", 9)]
    assert report.count_mismatch == ""


async def test_PF_07_counts_that_disagree_with_the_lines_are_reported(world):
    planned(world, 10)
    rows = [ok(world.wire(n)) for n in range(6)] + [http(world.wire(n), 500, None) for n in range(6, 10)]
    report = await world.collect(rows, total=10, completed=10, failed=0)
    assert report.outcomes == {OK: 6, FAILED: 4}
    assert "10 completed and 0 failed, its lines say 6 and 4" in report.count_mismatch


async def test_PO_10_counts_of_zero_do_not_mean_nothing_to_fetch(world):
    planned(world, 3)
    report = await world.collect([ok(world.wire(n)) for n in range(3)], total=0, completed=0, failed=0)
    assert report.outcomes == {OK: 3}
    assert report.count_mismatch == ""


async def test_PF_03_a_success_count_of_zero_against_good_lines_is_an_alarm(world):
    planned(world, 3)
    report = await world.collect([ok(world.wire(n)) for n in range(3)], total=3, completed=0, failed=3)
    assert report.outcomes == {OK: 3}
    assert "0 completed and 3 failed, its lines say 3 and 0" in report.count_mismatch


async def test_PF_04_a_partly_successful_batch_is_harvested(world):
    planned(world, 10)
    report = await world.collect([ok(world.wire(n)) for n in range(6)], phase=BatchPhase.expired)
    assert report.outcomes == {OK: 6, EXPIRED: 4}


async def test_EX_01_what_an_expired_batch_answered_is_kept(world):
    planned(world, 10)
    report = await world.collect(
        [ok(world.wire(0))], [bad(world.wire(n)) for n in range(1, 10)], phase=BatchPhase.expired
    )
    assert report.outcomes == {OK: 1, EXPIRED: 9}
    assert report.unanswered == {ErrorClass.expired: 9}
    assert report.cost_usd > 0


async def test_EX_02_counts_need_not_add_up_the_remainder_is_expired(world):
    planned(world, 10)
    report = await world.collect([ok(world.wire(0))], phase=BatchPhase.expired, total=10, completed=1, failed=0)
    assert report.outcomes == {OK: 1, EXPIRED: 9}
    assert report.count_mismatch == ""


async def test_PF_13_CO_04_after_a_cancel_what_was_done_stays_done_and_is_costed(world):
    planned(world, 25)
    report = await world.collect(
        [ok(world.wire(n)) for n in range(5)],
        [bad(world.wire(n), "batch_cancelled") for n in range(5, 25)],
        phase=BatchPhase.cancelled,
    )
    assert report.outcomes == {OK: 5, CANCELLED: 20}
    assert report.cost_usd == 5 * Decimal("0.0000105")


async def test_PF_14_an_answer_beats_a_cancelled_line_and_missing_ids_are_cancelled(world):
    planned(world, 25)
    wires = [world.wire(n) for n in range(25)]
    output = [ok(wire) for wire in wires[:10]] + [bad(wire, "batch_cancelled") for wire in wires[10:20]]
    errors = [bad(wire, "batch_cancelled") for wire in wires[:20]]
    report = await world.collect(output, errors, phase=BatchPhase.cancelled, total=25, completed=15, failed=0)
    assert report.outcomes == {OK: 10, CANCELLED: 15}
    assert set(world.outcomes()) == set(range(25))
    assert "15 completed" in report.count_mismatch
    assert "20 lines answer a request that has a line already" in report.count_mismatch


async def test_a_second_answer_is_waste_and_the_first_one_stays(world):
    planned(world, 1)
    report = await world.collect([ok(world.wire(0), "first"), ok(world.wire(0), "second", completion=20)])
    assert report.outcomes == {OK: 1}
    assert report.cost_usd == Decimal("0.0000105")
    assert report.waste_usd == Decimal("0.0000135")


async def test_RP_20_bytes_are_utf8_whatever_the_server_says(world):
    planned(world, 1)
    report = await world.collect([ok(world.wire(0), "é—日")])
    assert report.outcomes == {OK: 1}


async def test_a_batch_that_failed_as_a_whole_gives_its_reason_to_each_request(world):
    planned(world, 4)
    error = BatchError(error_class=ErrorClass.quota, code="token_limit_exceeded", message="too many")
    report = await world.collect(phase=BatchPhase.failed, error=error)
    assert report.outcomes == {FAILED: 4}
    assert report.unanswered == {ErrorClass.quota: 4}
    assert report.top_errors == [("quota/token_limit_exceeded", 4)]
    assert report.error == error


async def test_a_shard_that_was_never_submitted_is_not_sent(world):
    planned(world, 4)
    report = await world.collect(batch_id="", phase=BatchPhase.cancelled)
    assert report.outcomes == {CANCELLED: 4}
    assert report.unanswered == {ErrorClass.not_sent: 4}


async def test_CO_01_CO_03_collecting_again_changes_nothing_and_costs_nothing(world):
    planned(world, 3)
    first = await world.collect([ok(world.wire(n)) for n in range(3)])
    again = await world.collect([ok(world.wire(n), completion=10_000) for n in range(3)])
    assert again == first
    assert world.provider.downloads["file-out"] == 1


async def test_CO_03_a_crash_before_the_report_is_mended_by_doing_it_again(world):
    planned(world, 3)
    first = await world.collect([ok(world.wire(n)) for n in range(3)])
    world.store.delete([keys.shard_object(world.job.tenant, world.job.key, 0, 0, "report.json")])
    assert await world.collect([ok(world.wire(n)) for n in range(3)]) == first


async def test_PO_01_a_result_file_that_is_not_found_yet_is_asked_for_again(world):
    planned(world, 1)
    gone = ProviderError("no such file", error_class=ErrorClass.missing, code="not_found", status=404)
    with pytest.raises(ProviderError) as raised:
        await world.collect((gone,), ended_at=datetime.now(UTC))
    assert raised.value.error_class is ErrorClass.transient


async def test_a_result_file_that_was_replaced_is_fetched_under_its_new_name(world):
    planned(world, 3)
    gone = ProviderError("no such file", error_class=ErrorClass.missing, code="not_found", status=404)
    world.provider.files["file-new"] = [lines(ok(world.wire(n)) for n in range(3))]
    fields = {"batch_id": "batch_1", "phase": BatchPhase.completed, "raw_state": "completed"}
    world.provider.now = BatchStatus(**fields, output_files=["file-new"])
    report = await world.collect((gone,), ended_at=datetime.now(UTC))
    assert report.outcomes == {OK: 3}
    kept = world.store.get_message(
        keys.shard_object(world.job.tenant, world.job.key, 0, 0, "replaced.json"), BatchStatus
    )
    assert kept.output_files == ["file-new"]


async def test_a_result_file_that_is_gone_for_good_leaves_its_requests_missing(world):
    planned(world, 2)
    gone = ProviderError("no such file", error_class=ErrorClass.missing, code="not_found", status=404)
    report = await world.collect(
        (gone,), [bad(world.wire(0), "server_error")], ended_at=datetime.now(UTC) - timedelta(hours=1)
    )
    assert report.unanswered == {ErrorClass.transient: 1, ErrorClass.missing: 1}
    assert "file-out (output) is gone" in report.count_mismatch


async def test_PF_08_a_batch_that_is_gone_may_have_been_paid_and_its_requests_are_asked_once_more(world):
    planned(world, 3)
    error = BatchError(error_class=ErrorClass.missing, code="not_found", message="batch batch_1 is gone")
    report = await world.collect(phase=BatchPhase.failed, error=error)
    assert report.unanswered == {ErrorClass.missing: 3}
    assert report.maybe_paid_twice == 3
    assert "batch_1 is gone" in report.count_mismatch
    assert report.left_behind == ["result files of batch_1, if it has any"]


async def test_results_after_the_jobs_end_are_waste(world):
    planned(world, 2)
    summary = Summary(
        tenant=world.job.tenant, key=world.job.key, fingerprint="f", state=JobState.completed_with_failures,
        provider="openai", requests=2, outcomes={EXPIRED: 2},
    )  # fmt: skip
    world.store.put_message(keys.summary(world.job.tenant, world.job.key), summary)
    report = await world.collect([ok(world.wire(n)) for n in range(2)])
    assert (report.cost_usd, report.waste_usd) == (0, Decimal("0.000021"))
    assert world.store.exists(keys.late_report(world.job.tenant, world.job.key, 0, 0))


async def test_TE_06_a_cancelled_collect_stops_in_moments_and_leaves_nothing(world):
    planned(world, 20_000)
    wires = [world.wire(n) for n in range(20_000)]
    task = asyncio.create_task(world.collect([ok(wire, "x" * 2000) for wire in wires]))
    await asyncio.sleep(0.3)
    assert not task.done()
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() - began < 2.0


async def test_a_broken_price_or_model_is_marked_as_a_guess(world):
    world.prepare([world.request(0, model="my-own-model")])
    world.plan()
    raw = ok(world.wire(0)).replace(b"gpt-4o-mini-2024-07-18", b"my-own-model")
    report = await world.collect([raw])
    assert (report.outcomes, report.cost_usd, report.cost_estimated) == ({OK: 1}, 0, True)


async def test_a_deployments_own_name_is_priced_as_the_model_that_was_asked_for(world):
    planned(world, 1)
    report = await world.collect([ok(world.wire(0)).replace(b"gpt-4o-mini-2024-07-18", b"prod-eu-7")])
    assert report.cost_usd == Decimal("0.0000105")


async def test_MS_02_memory_does_not_grow_with_the_size_of_the_answers(world, tmp_path):
    count, size = 4_000, 16_000
    planned(world, count)
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        for n in range(count):
            file.write(ok(world.wire(n), "y" * size) + b"\n")

    async def download(_file, target):
        return await asyncio.to_thread(lambda: target.write_bytes(b"") or target.unlink() or target.hardlink_to(path))

    world.provider.download = download
    status = BatchStatus(
        batch_id="b", phase=BatchPhase.completed, raw_state="completed", output_files=["f"], ended_at=NOW
    )
    from groupage.activities.collecting import Limits, collect_batch

    call = CollectBatch(shard=world.shard(), status=status, submitted_at=NOW)
    tracemalloc.start()
    try:
        report = await collect_batch(world.store, world.provider, call, Limits(world.spool))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.outcomes == {OK: count}
    assert path.stat().st_size > 60_000_000
    assert peak < 24_000_000
