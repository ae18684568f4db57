"""A summary as it is read later: with what came home after the job had ended."""

from decimal import Decimal

from groupage.schemas import BatchPhase, JobState, Outcome, Route, ShardReport, Summary
from groupage.store.late import with_late


def report(**changes) -> ShardReport:
    fields = {"round": 0, "shard": 1, "route": Route.batch, "phase": BatchPhase.completed, "requests": 5}
    return ShardReport(**(fields | {"waste_usd": Decimal("0.5")} | changes))


SUMMARY = Summary(
    tenant="t", key="k", fingerprint="f", state=JobState.completed, provider="openai", requests=9,
    outcomes={Outcome.succeeded: 9}, maybe_paid_twice=7, unsettled={"0-1": 5}, waste_usd=Decimal(1),
    left_behind=["batch b of shard 0-1 had not ended"],
)  # fmt: skip


def test_a_shard_that_settled_is_feared_for_no_longer():
    told = with_late(SUMMARY, [report()])
    assert (told.waste_usd, told.maybe_paid_twice, told.unsettled, told.left_behind) == (Decimal("1.5"), 2, {}, [])


def test_a_second_batch_of_a_shard_adds_its_waste_and_says_nothing_of_the_first():
    told = with_late(SUMMARY, [report(duplicate=True)])
    assert told.waste_usd == Decimal("1.5")
    assert (told.maybe_paid_twice, told.unsettled, told.left_behind) == (7, {"0-1": 5}, SUMMARY.left_behind)
