"""A shard's results: joined by index, exact sums, written once."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson
import pytest
import zstandard
from groupage.schemas import ErrorClass, Outcome, RoundPlan, Route, ShardPlan, Usage
from groupage.schemas.errors import StoreError
from groupage.store import keys
from groupage.store.objects import Store
from groupage.store.results import encode_fragment, iso, money
from groupage.store.rows import Names, dollars, micros, moment_of, nanos
from groupage.store.segments import zstd_lines
from groupage.store.shard_results import ShardResultWriter, read_shard_results, read_shard_rows
from groupage.store.shards import read_members, read_round_plan, read_shard_plan, write_round_plan, write_shard
from groupage.store.sync_parts import SyncPartWriter, compact, read_flushed
from hypothesis import given, settings
from hypothesis import strategies as st
from store_builders import AT, NOW, answer, failure, write_results

SHARD = (*AT, 0, 3)


def stored_texts(store: Store, round_: int = 0, shard: int = 3) -> list[tuple[int, str | None]]:
    """(index, text) of each stored fragment, in stored order."""
    results = read_shard_results(store, *AT, round_, shard)
    table = read_shard_rows(store, *AT, round_, shard)
    assert results is not None
    assert table is not None
    name = keys.shard_results_data(*AT, round_, shard, results.name)
    lines = list(zstd_lines(store.stream(name), name))
    assert [len(line) for line in lines] == table.rows["size"].tolist()
    return [
        (index, json.loads(b'{"id":1' + line)["text"])
        for index, line in zip(table.rows["index"].tolist(), lines, strict=True)
    ]


def test_RP_07_results_in_any_order_are_joined_by_index(store: Store, tmp_path: Path) -> None:
    order = np.random.default_rng(7).permutation(500)
    results = write_results(store, tmp_path, 0, 3, [answer(int(n), f"text {n}") for n in order])
    assert stored_texts(store) == [(n, f"text {n}") for n in range(500)]
    assert (results.first_index, results.last_index, results.requests) == (0, 499, 500)


def test_PF_14_an_answer_beats_a_cancellation_and_a_second_answer_is_waste(store: Store, tmp_path: Path) -> None:
    cancelled = {"outcome": Outcome.cancelled, "error_class": ErrorClass.cancelled}
    lines = [
        failure(1, **cancelled),
        answer(1, "one"),
        answer(2, "two", cost_nano=70),
        answer(2, "two again", cost_nano=30),
        failure(2, **cancelled),
        failure(3, **cancelled),
        failure(3, Outcome.failed, ErrorClass.transient),
    ]
    results = write_results(store, tmp_path, 0, 3, lines)
    assert stored_texts(store) == [(1, "one"), (2, "two"), (3, None)]
    assert results.duplicates == 4
    assert results.tally.outcomes == {Outcome.succeeded: 2, Outcome.failed: 1}
    assert results.tally.unanswered == {ErrorClass.transient: 1}
    assert results.tally.cost_usd == Decimal("0.00000157")
    assert results.tally.waste_usd == Decimal("0.00000003")


@pytest.mark.parametrize("worse", [Outcome.truncated, Outcome.refused])
def test_a_whole_answer_beats_one_that_was_cut_or_refused_in_whatever_order(
    store: Store, tmp_path: Path, worse: Outcome
) -> None:
    lines = [
        answer(1, "cut", outcome=worse, cost_nano=70),
        answer(1, "whole", cost_nano=30),
        answer(2, "whole", cost_nano=30),
        answer(2, "cut", outcome=worse, cost_nano=70),
        failure(3),
        answer(3, "cut first", outcome=worse, cost_nano=1),
        answer(3, "cut again", outcome=worse, cost_nano=2),
    ]
    tally = write_results(store, tmp_path, 0, 3, lines).tally
    assert stored_texts(store) == [(1, "whole"), (2, "whole"), (3, "cut first")]
    assert (tally.cost_usd, tally.waste_usd) == (dollars(61), dollars(142))


def test_a_line_that_is_delivered_twice_was_paid_for_once(store: Store, tmp_path: Path) -> None:
    billed = failure(3, Outcome.failed, ErrorClass.invalid, waste_nano=400)
    other = answer(1, "one", cost_nano=70, body={"choices": [{"message": {"content": "one"}}], "id": "chatcmpl-2"})
    lines = [
        answer(1, "one", cost_nano=70),
        answer(2, "two"),
        other,
        billed,
        answer(1, "one", cost_nano=70),
        other,
        billed,
    ]
    results = write_results(store, tmp_path, 0, 3, lines)
    assert stored_texts(store) == [(1, "one"), (2, "two"), (3, None)]
    assert results.duplicates == 4
    assert results.tally.waste_usd == dollars(70 + 400), "an answer of another id is another answer"


def test_by_sync_answers_that_are_alike_were_paid_for_each(store: Store, tmp_path: Path) -> None:
    """An embedding is the same each time, and says nothing of the call that made it."""
    lines = [answer(1, route=Route.sync, cost_nano=70)] * 3
    tally = write_results(store, tmp_path, 0, 3, lines).tally
    assert (tally.cost_usd, tally.waste_usd) == (dollars(70), dollars(140))


def test_a_billed_failure_is_waste_not_cost(store: Store, tmp_path: Path) -> None:
    billed = failure(1, Outcome.failed, ErrorClass.invalid, cost_nano=400, waste_nano=5, sync_cost_nano=800)
    results = write_results(store, tmp_path, 0, 3, [billed])
    assert (results.tally.cost_usd, results.tally.waste_usd, results.tally.sync_cost_usd) == (
        0,
        Decimal("0.000000405"),
        0,
    )
    assert json.loads(b'{"id":1' + encode_fragment(billed))["cost_usd"] is None


def test_the_tally_counts_errors_routes_usage_and_money_exactly(store: Store, tmp_path: Path) -> None:
    lines = [answer(n, cost_nano=1, sync_cost_nano=2) for n in range(1000)]
    lines += [failure(n, Outcome.failed, ErrorClass.invalid, code="bad_thing") for n in range(1000, 1003)]
    lines += [failure(1003), answer(1004, route=Route.sync, rounds=4, cost_estimated=True, cost_nano=10**15)]
    tally = write_results(store, tmp_path, 0, 3, lines).tally
    assert tally.requests == 1005
    assert tally.top_errors == [("invalid/bad_thing", 3), ("expired/batch_expired", 1)]
    assert tally.routes == {Route.batch: 1004, Route.sync: 1}
    assert tally.usage == Usage(input_tokens=10_010, cached_tokens=2_002, output_tokens=5_005, reasoning_tokens=1_001)
    assert tally.cost_usd == Decimal("1000000.000001")
    assert (tally.rounds, tally.cost_estimated) == (4, True)


def test_answers_whose_cost_nobody_knows_are_counted_by_model(store: Store, tmp_path: Path) -> None:
    lines = [answer(n, model=f"m{n % 12}", cost_nano=None, sync_cost_nano=None) for n in range(30)]
    lines += [answer(30, cost_nano=0), failure(31)]
    tally = write_results(store, tmp_path, 0, 3, lines).tally
    assert (tally.unpriced["m0"], tally.unpriced["(others)"], sum(tally.unpriced.values())) == (3, 4, 30)


def test_missing_members_are_named_at_any_time(store: Store, tmp_path: Path) -> None:
    members = np.array([3, 5, 8, 9], dtype=np.uint32)
    with ShardResultWriter(store, *SHARD, directory=tmp_path) as writer:
        assert writer.missing(members).tolist() == [3, 5, 8, 9]
        writer.add(answer(8))
        writer.add(answer(3))
        assert writer.missing(members).tolist() == [5, 9]
    assert read_shard_results(store, *SHARD) is None
    assert list(tmp_path.glob("results-*")) == []


def test_the_first_of_two_writers_wins_whole(store: Store, tmp_path: Path) -> None:
    with (
        ShardResultWriter(store, *SHARD, directory=tmp_path) as one,
        ShardResultWriter(store, *SHARD, directory=tmp_path) as two,
    ):
        one.add(answer(1, "first"))
        two.add(answer(1, "second"))
        won = one.close()
        assert two.close() == won
    assert stored_texts(store) == [(1, "first")]
    assert len(list(store.list(keys.shard(*SHARD)))) == 3  # the loser took its objects away
    assert write_results(store, tmp_path, 0, 3, [answer(1, "third")]) == won


def test_a_shard_without_results_is_empty_not_missing(store: Store, tmp_path: Path) -> None:
    results = write_results(store, tmp_path, 0, 3, [])
    assert (results.requests, results.last_index) == (0, -1)
    table = read_shard_rows(store, *SHARD)
    assert table is not None
    assert len(table.rows) == 0


def test_results_larger_than_one_block_are_stored_in_frames(store: Store, tmp_path: Path) -> None:
    results = write_results(store, tmp_path, 0, 3, [answer(n, f"{n}" * 200_000) for n in range(9)])
    data = store.get(keys.shard_results_data(*SHARD, results.name))
    first = zstandard.ZstdDecompressor().decompressobj()
    first.decompress(data)
    assert first.unused_data
    assert [index for index, _ in stored_texts(store)] == list(range(9))


def test_a_damaged_index_is_named(store: Store, tmp_path: Path) -> None:
    results = write_results(store, tmp_path, 0, 3, [answer(1)])
    name = keys.shard_results_index(*SHARD, results.name)
    for broken in (b"", b"nonsense", store.get(name)[:-5], zstandard.compress(b"gpr1\xff\xff\xff\xff{}")):
        store.put(name, broken)
        with pytest.raises(StoreError, match="damaged"):
            read_shard_rows(store, *SHARD)


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(st.characters(exclude_categories=())))),
)
def test_a_fragment_is_one_line_of_json_whatever_is_in_it(text: str, body: dict[str, object]) -> None:
    fragment = encode_fragment(answer(1, text, body=body, tool_calls=[text]))
    assert fragment.count(b"\n") == 1
    read = json.loads(b'{"id":1' + fragment)
    assert list(orjson.loads(b'{"id":1' + fragment)) == list(read), "every reader reads it: half pairs are replaced"
    assert read["body"] == {name: value if isinstance(value, int) else whole(value) for name, value in body.items()}
    assert read["text"] == whole(text)
    assert list(read) == [
        "id", "outcome", "text", "body", "usage", "cost_usd", "sync_cost_usd", "provider", "model", "route", "rounds",
        "produced_at", "error", "tool_calls",
    ]  # fmt: skip


def whole(text: object) -> str:
    return str(text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_a_body_given_as_bytes_is_spliced_in_as_it_is() -> None:
    body = b'{"n": 123456789012345678901234567890, "t": "\\ud800"}'
    assert b'"body":' + body in encode_fragment(answer(1, body=body))
    assert b'"body":' + body in encode_fragment(answer(1, "half \ud800", body=body))


@settings(deadline=None)
@given(st.integers(-(10**15), 10**15))
def test_money_is_written_with_all_its_digits(nano: int) -> None:
    assert Decimal(money(nano)) == dollars(nano)
    assert nanos(dollars(nano)) == nano
    assert "e" not in str(money(nano)).lower()


def test_times_are_written_in_one_form_and_need_a_zone() -> None:
    assert iso(NOW) == "2026-11-29T12:00:00.25Z"
    assert iso(NOW.replace(microsecond=0)) == "2026-11-29T12:00:00Z"
    assert moment_of(micros(NOW)) == NOW
    with pytest.raises(ValueError, match="zone"):
        iso(datetime(2026, 1, 1))  # noqa: DTZ001  # the point of the test


def test_more_texts_than_numbers_share_the_last_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupage.store.rows._NAMES_MAX", 3)
    names = Names()
    assert [names.code(text) for text in ("a", "b", "c", "d", "e", "b")] == [0, 1, 2, 3, 3, 1]
    assert names.texts == ["a", "b", "c", "(others)"]


def test_flushed_parts_outlive_their_writer_and_tell_what_is_done(store: Store, tmp_path: Path) -> None:
    first = SyncPartWriter(store, *SHARD)
    first.add(answer(4, "four", route=Route.sync))
    first.add(failure(2, Outcome.failed, ErrorClass.rate_limit, code="429", route=Route.sync))
    assert len(first) == 2
    assert first.flush() == 0
    assert first.flush() is None
    first.add(answer(9, "lost: never flushed"))

    flushed = read_flushed(store, *SHARD)
    assert (flushed.parts, flushed.done.tolist(), flushed.answered.tolist()) == (1, [2, 4], [4])
    second = SyncPartWriter(store, *SHARD, first_part=flushed.parts)
    second.add(answer(2, "two", route=Route.sync))
    assert second.flush() == 1

    left_over = [failure(9, Outcome.expired, ErrorClass.not_sent)]
    results = compact(store, *SHARD, directory=tmp_path, extra=left_over)
    assert stored_texts(store) == [(2, "two"), (4, "four"), (9, None)]
    assert results.tally.outcomes == {Outcome.succeeded: 2, Outcome.expired: 1}
    assert list(store.list(keys.shard_parts(*SHARD))) == []
    assert compact(store, *SHARD, directory=tmp_path) == results
    assert results.tally.top_errors == [("not_sent/batch_expired", 1)]


def test_a_zombie_and_its_retry_flush_into_parts_of_their_own(store: Store, tmp_path: Path) -> None:
    zombie, retry = SyncPartWriter(store, *SHARD), SyncPartWriter(store, *SHARD)
    zombie.add(answer(1, "zombie", cost_nano=7))
    retry.add(answer(1, "retry", cost_nano=9))
    assert (retry.flush(), zombie.flush()) == (0, 1)
    tally = compact(store, *SHARD, directory=tmp_path).tally
    assert stored_texts(store) == [(1, "retry")]
    assert (tally.cost_usd, tally.waste_usd) == (Decimal("9E-9"), Decimal("7E-9"))


def test_shards_and_rounds_are_planned_and_read_back(store: Store) -> None:
    members = np.array([1, 5, 7], dtype=np.uint32)
    plan = ShardPlan(
        round=0, shard=3, route=Route.batch, endpoint="/v1/responses", model="m", requests=3, bytes=9, tokens=3,
        first_index=1, last_index=7,
    )  # fmt: skip
    write_shard(store, *AT, plan, members)
    assert read_members(store, *SHARD).tolist() == [1, 5, 7]
    assert read_shard_plan(store, *SHARD) == plan
    with pytest.raises(ValueError, match="rise"):
        write_shard(store, *AT, plan, members[::-1])
    with pytest.raises(ValueError, match="3 requests"):
        write_shard(store, *AT, plan, members[:2])
    assert read_round_plan(store, *AT, 0) is None
    round_plan = RoundPlan(round=0, batch_shards=1, sync_shards=0, requests=3)
    write_round_plan(store, *AT, round_plan)
    assert read_round_plan(store, *AT, 0) == round_plan
    store.put(keys.shard_members(*SHARD), b"12345")
    with pytest.raises(StoreError, match="damaged"):
        read_members(store, *SHARD)
