"""What comes back: the lines decide and not the status, each is joined by its id, and what is missing goes again."""

from collections import Counter

import pytest
from everywhere import everywhere, rows
from groupage.activities.providers.base import ResultFile
from groupage.schemas import BatchPhase, ErrorClass, Outcome
from groupage.schemas.errors import ProviderError


@rows("rule", lambda _: [({"kind": "credit"},), ({"kind": "http", "status": 403, "message": "Not for you."},)])
async def test_QU_06_a_batch_whose_lines_speak_of_the_account_tells_what_they_say(world, emulator, rule):
    emulator.faults(requests=[{"share": 1, **rule}])
    _, report = await world.harvested(await world.planned())
    assert sum(report.unanswered.get(found, 0) for found in (ErrorClass.account, ErrorClass.forbidden)) == 10
    assert report.account_said
    assert rule.get("message", "") in report.account_said


def right(world, count, model=""):
    """Each result is the answer to its own request."""
    rows = world.results()
    assert [row["id"] for row in rows] == [f"id {n}" for n in range(count)]
    assert [row["text"] for row in rows] == [world.answer(n, model) for n in range(count)]
    return rows


@rows("model", lambda record: [(model,) for model in record.models])
async def test_RP_07_a_portable_job_is_answered_joined_by_id_and_leaves_nothing(world, emulator, record, model):
    ref = await world.planned(30, model)
    submitted, status = await world.finished(ref)
    assert (status.phase, status.raw_state) == (BatchPhase.completed, record.completed)
    assert (status.total, status.completed, status.failed) == (30, 30, 0)
    report = await world.collect(ref, status, submitted)
    assert (report.outcomes, report.count_mismatch, report.quarantined) == ({Outcome.succeeded: 30}, "", 0)
    assert report.cost_usd > 0 or not record.priced
    assert (await world.clean_up(ref, submitted, status)).left_behind == []
    assert world.left() == []
    await world.finalize(1)
    for row in right(world, 30, model):
        assert (row["outcome"], row["provider"], row["model"]) == ("succeeded", world.name, model)
        assert row["usage"]["input_tokens"] > 0
    assert emulator.creates() == 1


@everywhere()
async def test_RP_01_RP_07_odd_characters_and_another_order_change_no_answer(world):
    """One answer in 32 holds U+2028, U+2029 and U+0085 raw; lines come shuffled."""
    _, report = await world.harvested(await world.planned(64))
    assert report.outcomes == {Outcome.succeeded: 64}
    await world.finalize(1)
    assert any("\u2028" in row["text"] for row in right(world, 64))


def told(record):
    """A batch of errors alone tells so in its counts, or the opposite."""
    yield ("honest", [], "")
    if record.mismatch:
        yield ("lying", [{"effect": "counts", "counts": "optimistic"}], record.mismatch)


@rows("counts effects said", told)
async def test_PF_01_PF_02_PF_03_a_batch_of_errors_alone_is_told_by_its_lines(
    world, emulator, record, counts, effects, said
):
    emulator.faults(batches=[{"effect": "only_errors", "status": 400}, *effects])
    status, report = await world.harvested(await world.planned())
    assert (status.phase, status.raw_state) == (BatchPhase.completed, record.completed)
    assert (report.outcomes, report.unanswered) == ({Outcome.failed: 10}, {ErrorClass.invalid: 10})
    assert report.top_errors == [(record.top_error, 10)]
    assert said in report.count_mismatch
    assert bool(report.count_mismatch) == (counts == "lying")


@everywhere()
async def test_PF_07_counts_that_disagree_with_the_lines_are_reported(world, emulator):
    emulator.faults(
        batches=[{"effect": "counts", "counts": "optimistic"}],
        requests=[{"lines": [1, 2], "kind": "http", "status": 500}],
    )
    _, report = await world.harvested(await world.planned())
    assert report.unanswered == {ErrorClass.transient: 2}
    assert "8 and 2" in report.count_mismatch


@rows("effects", lambda record: [(effects,) for effects in record.partial])
async def test_PF_04_EX_01_what_was_done_when_a_batch_expired_is_kept_and_the_rest_goes_again(world, emulator, effects):
    emulator.faults(batches=[{"effect": "expire", "at": 0.6, "nth": [1]}, *effects])
    status, report = await world.harvested(await world.planned(20))
    assert status.phase is BatchPhase.expired
    assert report.outcomes == {Outcome.succeeded: 12, Outcome.expired: 8}
    assert (report.quarantined, report.count_mismatch) == (0, "")
    plan = await world.plan(1)
    assert (plan.requests, plan.batch_shards) == (8, 1)
    assert (await world.run_batch(1)).outcomes == {Outcome.succeeded: 8}
    await world.finalize(2)
    right(world, 20)
    assert emulator.ledger()["questions_answered_more_than_once"] == 0


@everywhere(lambda record: record.partial)
async def test_EX_01_of_a_batch_that_expired_before_it_began_all_requests_have_expired(world, emulator):
    emulator.faults(batches=[{"effect": "expire", "at": 0.0}])
    status, report = await world.harvested(await world.planned())
    assert status.phase is BatchPhase.expired
    assert report.outcomes == {Outcome.expired: 10}


@everywhere()
async def test_PF_13_CO_04_what_was_answered_before_a_cancel_is_kept_and_paid(world, emulator, record):
    emulator.faults(batches=[effect for effects in record.partial[:1] for effect in effects])
    ref = await world.planned(20)
    submitted = await world.submit(ref)
    emulator.advance("6m")
    await world.stop(ref, submitted)
    emulator.finish()
    status = await world.ended(ref, submitted)
    report = await world.collect(ref, status, submitted)
    assert status.phase is BatchPhase.cancelled
    assert 0 < report.outcomes[Outcome.succeeded] < 20
    assert report.outcomes[Outcome.succeeded] + report.outcomes[Outcome.cancelled] == 20
    assert report.cost_usd > 0 or not record.priced


DAMAGE = [
    {"kind": "empty_body"},
    {"kind": "invalid_utf8"},
    {"kind": "malformed"},
    {"kind": "http", "status": 429},
    {"kind": "http", "status": 503},
    {"kind": "truncated"},
    {"kind": "refused"},
    {"kind": "duplicate"},
    {"kind": "unknown_id"},
    {"kind": "missing"},
    {"kind": "status_zero"},
    {"kind": "credit"},
    {"kind": "http", "status": 400},
    {"kind": "not_an_object"},
    {"kind": "http", "status": 403},
]


@rows("name model effects strays", lambda record: record.damaged)
async def test_RP_05_RP_11_RP_12_each_kind_of_damaged_line_costs_only_itself(
    world, emulator, name, model, effects, strays
):
    emulator.faults(
        requests=[{"lines": [line], **rule} for line, rule in enumerate(DAMAGE, 1)],
        batches=effects,
    )
    _, report = await world.harvested(await world.planned(30, model))
    assert report.outcomes == {
        Outcome.succeeded: 17, Outcome.truncated: 1, Outcome.refused: 1, Outcome.failed: 8, Outcome.unreadable: 3,
    }  # fmt: skip
    assert report.unanswered == {
        ErrorClass.unreadable: 3, ErrorClass.rate_limit: 1, ErrorClass.transient: 1, ErrorClass.missing: 2,
        ErrorClass.unknown: 1, ErrorClass.account: 1, ErrorClass.invalid: 1, ErrorClass.forbidden: 1,
    }  # fmt: skip
    assert report.quarantined == strays
    await world.finalize(1)
    rows = world.results()
    assert Counter(row["outcome"] for row in rows)["succeeded"] == 17
    for n, row in enumerate(rows):
        if row["outcome"] == "succeeded":
            assert row["text"] == world.answer(n, model)


@everywhere(lambda record: record.label in {"gemini", "vertex"})
async def test_RP_16_both_shapes_of_a_refusal_are_answers_and_paid(world, emulator):
    """A blocked prompt, and a candidate without parts."""
    emulator.faults(requests=[{"kind": "refused", "share": 1}])
    _, report = await world.harvested(await world.planned(20))
    assert report.outcomes == {Outcome.refused: 20}
    assert report.cost_usd > 0
    await world.finalize(1)
    rows = world.results()
    shapes = {(row["body"].get("promptFeedback", {}).get("blockReason"), "candidates" in row["body"]) for row in rows}
    assert shapes == {("PROHIBITED_CONTENT", False), (None, True)}
    assert {row["text"] for row in rows} == {None}


@everywhere()
async def test_PO_01_results_that_are_not_there_are_missing(world, record):
    with pytest.raises(ProviderError) as error:
        await world.adapter.download(ResultFile("output", record.gone[0]), world.folder / "none")
    assert error.value.error_class is ErrorClass.missing
