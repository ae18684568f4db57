"""The merge: one line an input line, in input order, by id, with exact sums, restartable."""

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from groupage.schemas import ErrorClass, JobManifest, JobState, Outcome, Result, Route, Summary
from groupage.schemas.errors import StaleResult, StoreError, UnknownJob, UsageError
from groupage.store import keys
from groupage.store.merge import Merged
from groupage.store.objects import Store, open_store
from groupage.store.reader import JobResults, claim_results, is_claimed, parse_result, read_summary
from groupage.store.results import ResultLine
from groupage.store.segments import SegmentReader
from hypothesis import given, settings
from hypothesis import strategies as st
from store_builders import AT, LATER, NOW, accept, answer, batch_line, failure, merge, spool, write_results

ALL = [batch_line(f"id-{n}", f"text {n}") for n in range(20)]


def finish(store: Store, manifest: JobManifest, merged: Merged) -> JobResults:
    """Put a summary, as the last activity of a job does."""
    summary = Summary(
        tenant=manifest.tenant,
        key=manifest.key,
        fingerprint=manifest.fingerprint,
        state=JobState.completed,
        provider=manifest.provider,
        requests=manifest.requests,
        outcomes=merged.tally.outcomes,
        result_parts=merged.parts,
    )
    store.put_message(keys.summary(*AT), summary)
    return JobResults(store, *AT)


def lines_of(store: Store, manifest: JobManifest, merged: Merged) -> list[dict[str, Any]]:
    return [json.loads(line) for line in finish(store, manifest, merged).lines()]


def run(
    store: Store,
    tmp_path: Path,
    lines: Sequence[bytes],
    shards: dict[tuple[int, int], list[ResultLine]],
    **options: Any,
) -> tuple[list[dict[str, Any]], Merged, JobManifest]:
    manifest = accept(store, spool(list(lines), **options))
    for (round_, shard), results in shards.items():
        write_results(store, tmp_path, round_, shard, results)
    merged = merge(store, manifest, list(shards), tmp_path)
    return lines_of(store, manifest, merged), merged, manifest


def ledger_of(store: Store, tmp_path: Path) -> list[dict[str, Any]]:
    store.get_to_file(keys.ledger(*AT), tmp_path / "ledger.parquet")
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "ledger.parquet").to_pylist()
    return rows


def test_results_come_in_input_order_with_the_callers_ids(store: Store, tmp_path: Path) -> None:
    shards = {
        (0, 0): [answer(n, f"answer {n}") for n in range(19, 9, -1)],
        (0, 1): [answer(n, f"answer {n}") for n in range(10)],
    }
    lines, merged, _ = run(store, tmp_path, ALL, shards, segment_requests=7)
    assert [(line["id"], line["text"]) for line in lines] == [(f"id-{n}", f"answer {n}") for n in range(20)]
    assert (merged.parts, merged.tally.requests, merged.tally.outcomes) == (3, 20, {Outcome.succeeded: 20})
    assert merged.tally.cost_usd == Decimal("0.00003")


def test_a_line_has_the_fields_of_result_and_reads_back_as_one(store: Store, tmp_path: Path) -> None:
    line = b'{"id":"a","labels":{"team":"\xc3\xa9"},"body":{"model":"m","messages":[]}}'
    shards = {(0, 0): [answer(0, provider_ids={"batch": "b-1"}, tool_calls=[{"name": "f"}])]}
    (raw,), merged, manifest = run(store, tmp_path, [line], shards)
    assert set(raw) == set(Result.model_fields)
    assert raw["effective_until"] == "2026-12-29T00:00:00Z"
    (result,) = finish(store, manifest, merged).results()
    assert (result.id, result.labels, result.provider_ids) == ("a", {"team": "é"}, {"batch": "b-1"})
    assert (result.cost_usd, result.produced_at, result.effective_until) == (Decimal("0.0000015"), NOW, LATER)
    assert result.error is None


def test_answered_beats_unanswered_and_the_earliest_answer_stays(store: Store, tmp_path: Path) -> None:
    shards = {
        (0, 0): [failure(0), answer(1, "early", cost_nano=10), failure(2, code="first"), failure(3)],
        (1, 0): [
            answer(0, "second try", rounds=2),
            answer(1, "late", cost_nano=40),
            failure(2, code="second", rounds=2),
        ],
        (2, 0): [answer(0, "third", cost_nano=5), failure(1, cost_nano=3), failure(2, code="third", rounds=3)],
    }
    lines, merged, _ = run(store, tmp_path, ALL[:4], shards)
    assert [line["text"] for line in lines] == ["second try", "early", None, None]
    assert [line["rounds"] for line in lines] == [2, 1, 3, 1]
    assert lines[2]["error"]["code"] == "third"
    assert merged.tally.waste_usd == Decimal("0.000000048")
    assert merged.tally.cost_usd == Decimal("0.00000151")
    assert merged.paid_twice == 2
    assert [row["waste_usd"] for row in ledger_of(store, tmp_path)] == [
        Decimal("0.000000005"), Decimal("0.000000043"), 0, 0,
    ]  # fmt: skip


def test_rejected_lines_and_requests_without_results_have_lines_of_their_own(store: Store, tmp_path: Path) -> None:
    inputs = [ALL[0], b"{bad", ALL[1], b'{"id":"no body"}', ALL[0], ALL[2]]
    shards: dict[tuple[int, int], list[ResultLine]] = {(0, 0): [answer(0)], (0, 1): [answer(5)]}
    lines, merged, _ = run(store, tmp_path, inputs, shards, segment_requests=4)
    assert [line["id"] for line in lines] == ["id-0", None, "id-1", "no body", "id-0", "id-2"]
    assert [line["outcome"] for line in lines] == ["succeeded", "failed", "expired", "failed", "failed", "succeeded"]
    assert lines[1]["error"]["message"].startswith("line 2: not JSON")
    assert lines[4]["error"] == {
        "class": "invalid",
        "code": "duplicate_id",
        "message": "line 5: the id 'id-0' of line 5 is also on line 1",
    }
    assert lines[2]["error"] == {"class": "not_sent", "code": "deadline", "message": "the deadline came first"}
    assert sum(merged.tally.outcomes.values()) == 6
    assert merged.tally.routes == {Route.batch: 2}
    assert merged.tally.unanswered == {ErrorClass.invalid: 3, ErrorClass.not_sent: 1}


def test_shards_of_several_models_interleave(store: Store, tmp_path: Path) -> None:
    inputs = [batch_line(f"id-{n}", model=f"m{n % 3}") for n in range(60)]
    shards = {(0, s): [answer(n, f"answer {n}") for n in range(s, 60, 3)] for s in range(3)}
    shards[1, 0] = []
    lines, _, _ = run(store, tmp_path, inputs, shards, segment_requests=11)
    assert [line["text"] for line in lines] == [f"answer {n}" for n in range(60)]


def test_blocks_do_not_mix_up_lines(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupage.store.merge.BLOCK_BYTES", 900)
    shards = {
        (0, 0): [answer(n, f"answer {n}" * (1 + n % 5)) if n % 3 else failure(n) for n in range(20)],
        (1, 0): [answer(n, f"answer {n}" * (1 + n % 5), rounds=2) for n in range(0, 20, 3)],
        (2, 0): [answer(n, "late") for n in range(5, 12)],
    }
    labelled = [
        json.dumps({**json.loads(line), "labels": {"n": str(n)}} if n % 4 == 0 else json.loads(line)).encode()
        for n, line in enumerate(ALL)
    ]
    lines, merged, _ = run(store, tmp_path, labelled, shards, segment_requests=13)
    assert [line["text"] for line in lines] == [f"answer {n}" * (1 + n % 5) for n in range(20)]
    assert [line.get("labels") for line in lines] == [{"n": str(n)} if n % 4 == 0 else None for n in range(20)]
    rows = [row for table in JobResults(store, *AT).rows() for row in table.rows]
    raw = list(JobResults(store, *AT).lines())
    assert [int(row["size"]) for row in rows] == [len(line) for line in raw]
    assert merged.paid_twice == 7


def test_the_ledger_has_one_row_a_request_and_no_bodies(store: Store, tmp_path: Path) -> None:
    inputs = [ALL[0], b'{"id":"l","labels":{"k":"v"},"body":{"model":"m2","messages":[]}}', b"{bad", ALL[1]]
    shards = {
        (0, 0): [answer(0, cost_estimated=True), failure(1, waste_nano=12)],
        (1, 0): [answer(3, rounds=2, route=Route.sync)],
    }
    run(store, tmp_path, inputs, shards)
    rows = ledger_of(store, tmp_path)
    assert [row["id"] for row in rows] == ["id-0", "l", None, "id-1"]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert [row["outcome"] for row in rows] == ["succeeded", "expired", "failed", "succeeded"]
    assert [row["error_class"] for row in rows] == [None, "expired", "invalid", None]
    assert [row["code"] for row in rows] == [None, "batch_expired", "invalid_json", None]
    assert [row["requested_model"] for row in rows] == ["gpt-4o-mini", "m2", None, "gpt-4o-mini"]
    assert [row["model"] for row in rows] == ["gpt-4o-mini-2024-07-18", None, None, "gpt-4o-mini-2024-07-18"]
    assert [row["route"] for row in rows] == ["batch", "batch", None, "sync"]
    assert [row["cost_usd"] for row in rows] == [Decimal("0.0000015"), None, None, Decimal("0.0000015")]
    assert [row["waste_usd"] for row in rows] == [0, Decimal("0.000000012"), 0, 0]
    assert [row["input_tokens"] for row in rows] == [10, None, None, 10]
    assert [row["labels"] for row in rows] == [None, '{"k":"v"}', None, None]
    assert [row["cost_estimated"] for row in rows] == [True, False, False, False]
    assert rows[0]["produced_at"] == NOW
    assert not {"body", "text", "message"} & set(rows[0])


def test_an_empty_job_merges_to_nothing(store: Store, tmp_path: Path) -> None:
    lines, merged, manifest = run(store, tmp_path, [], {})
    assert (lines, merged.parts, merged.tally.requests) == ([], 0, 0)
    assert ledger_of(store, tmp_path) == []
    assert list(finish(store, manifest, merged).lines(timedelta(seconds=1))) == []


def test_shards_without_results_are_named(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool(ALL[:3]))
    write_results(store, tmp_path, 0, 1, [answer(1)])
    merged = merge(store, manifest, [(0, 0), (0, 1), (1, 0)], tmp_path)
    assert merged.without_results == ["0-0", "1-0"]
    assert merged.tally.outcomes == {Outcome.succeeded: 1, Outcome.expired: 2}


class DyingStore(Store):
    """Dies at its n-th upload of a part's index."""

    def __init__(self, inner: Store, dies_at: int) -> None:
        super().__init__(inner.url, inner._inner)
        self.left = dies_at

    def put(self, key: str, data: bytes) -> None:
        if key.endswith(".idx"):
            self.left -= 1
            if self.left < 0:
                raise StoreError("the lights went out")
        super().put(key, data)


@pytest.mark.parametrize("dies_at", [0, 1, 2, 3])
def test_a_merge_that_died_goes_on_and_writes_the_same(store: Store, tmp_path: Path, dies_at: int) -> None:
    inputs = [*ALL, b"{bad", ALL[0]]
    manifest = accept(store, spool(inputs, segment_requests=6))
    write_results(
        store, tmp_path, 0, 0, [answer(n, cost_nano=n) if n % 4 else failure(n, code=f"c{n}") for n in range(20)]
    )
    write_results(store, tmp_path, 1, 0, [answer(n, rounds=2, cost_nano=100) for n in (4, 8, 9)])
    shards = [(0, 0), (1, 0)]
    with pytest.raises(StoreError, match="lights"):
        merge(DyingStore(store, dies_at), manifest, shards, tmp_path)
    beats: list[int] = []
    merged = merge(store, manifest, shards, tmp_path, heartbeat=beats.append)
    assert merged.resumed_parts == dies_at
    assert beats == [1, 2, 3, 4]
    resumed = {key: store.get(key) for key in store.list(keys.job(*AT)) if key.endswith("jsonl.zst")}
    ledger = ledger_of(store, tmp_path)
    store.delete([keys.result_part_index(*AT, part) for part in range(4)])
    fresh = merge(store, manifest, shards, tmp_path)
    assert fresh.resumed_parts == 0
    assert (fresh.tally, fresh.paid_twice) == (merged.tally, merged.paid_twice)
    assert ledger_of(store, tmp_path) == ledger
    assert {key: store.get(key) for key in resumed} == resumed
    assert [path for path in tmp_path.iterdir() if path.name.startswith("merge-")] == []


def test_parts_of_another_merge_are_not_taken_over(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool(ALL[:3]))
    write_results(store, tmp_path, 0, 0, [failure(n) for n in range(3)])
    merge(store, manifest, [(0, 0)], tmp_path)
    write_results(store, tmp_path, 1, 0, [answer(1, "at last", rounds=2)])
    merged = merge(store, manifest, [(0, 0), (1, 0)], tmp_path)
    assert merged.resumed_parts == 0
    assert [line["text"] for line in lines_of(store, manifest, merged)] == [None, "at last", None]


def test_results_of_requests_that_were_never_sent_are_an_error_not_a_guess(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool([*ALL[:3], b"{bad"]))
    for shard, index in enumerate([3, 99]):
        write_results(store, tmp_path, 0, shard, [answer(index)])
        with pytest.raises(StoreError, match=f"shard 0-{shard} has results of requests"):
            merge(store, manifest, [(0, shard)], tmp_path)


def test_damaged_results_are_named(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool(ALL[:3]))
    results = write_results(store, tmp_path, 0, 0, [answer(n) for n in range(3)])
    name = keys.shard_results_data(*AT, 0, 0, results.name)
    whole = store.get(name)
    for broken in (whole[:-30], b"", b"nonsense"):
        store.put(name, broken)
        with pytest.raises(StoreError, match="shard 0-0"):
            merge(store, manifest, [(0, 0)], tmp_path)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(lambda text: not text.isspace()),
    min_size=1,
    max_size=25,
    unique=True,
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), ids=IDS, segment=st.integers(1, 6))
def test_ids_and_bodies_survive_the_whole_way(
    data: st.DataObject, ids: list[str], segment: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, store = tmp_path_factory.mktemp("way"), open_store("memory://")
    texts = data.draw(st.lists(TEXT, min_size=len(ids), max_size=len(ids)))
    labels = data.draw(st.lists(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.just("v"), max_size=2), min_size=len(ids), max_size=len(ids)))  # fmt: skip
    inputs = [
        json.dumps({"id": id_, "prompt": text, **({"labels": own} if own else {})}).encode()
        for id_, text, own in zip(ids, texts, labels, strict=True)
    ]
    manifest = accept(store, spool(inputs, segment_requests=segment, model="m"))
    requests = list(SegmentReader(store, manifest).requests())
    assert [json.loads(one.body)["messages"][0]["content"] for one in requests] == texts
    rounds = data.draw(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=len(ids), max_size=len(ids)))
    shards: dict[int, list[ResultLine]] = {0: [], 1: [], 2: []}
    for index, (round_, answered) in enumerate(rounds):
        echo = {"echo": texts[index], "id": ids[index]}
        shards[round_].append(answer(index, texts[index], body=echo) if answered else failure(index, body=echo))
    order = data.draw(st.randoms(use_true_random=False))
    for round_, results in shards.items():
        order.shuffle(results)
        write_results(store, folder, round_, 0, results)
    merged = merge(store, manifest, [(round_, 0) for round_ in shards], folder)
    lines = lines_of(store, manifest, merged)
    assert [line["id"] for line in lines] == ids
    assert [line["body"] for line in lines] == [{"echo": text, "id": id_} for text, id_ in zip(texts, ids, strict=True)]
    assert [line.get("labels", {}) for line in lines] == labels
    assert [line["outcome"] == "succeeded" for line in lines] == [answered for _, answered in rounds]
    assert [result.id for result in JobResults(store, *AT).results()] == ids


def test_a_job_is_read_only_once_it_is_finished(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UnknownJob):
        read_summary(store, *AT)
    manifest = accept(store, spool(ALL[:2]))
    assert read_summary(store, *AT) is None
    with pytest.raises(UsageError, match="not finished"):
        JobResults(store, *AT)
    write_results(store, tmp_path, 0, 0, [answer(0), answer(1)])
    results = finish(store, manifest, merge(store, manifest, [(0, 0)], tmp_path))
    with (tmp_path / "out.jsonl").open("wb") as file:
        size = results.copy_to(file)
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(results.lines())
    assert size == (tmp_path / "out.jsonl").stat().st_size


def test_results_older_than_the_reader_allows_are_stale(store: Store, tmp_path: Path) -> None:
    manifest = accept(store, spool(ALL[:2]))
    write_results(store, tmp_path, 0, 0, [answer(0), answer(1, produced_at=NOW - timedelta(days=3650))])
    results = finish(store, manifest, merge(store, manifest, [(0, 0)], tmp_path))
    assert len(list(results.results(max_age=timedelta(days=36500)))) == 2
    with pytest.raises(StaleResult, match="older than 1 day"):
        next(results.lines(max_age=timedelta(days=1)))
    with pytest.raises(StaleResult), (tmp_path / "out").open("wb") as file:
        results.copy_to(file, max_age=timedelta(days=1))


def test_a_damaged_result_line_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="damaged"):
        parse_result(b'{"id":"a"}\n')
    with pytest.raises(StoreError, match="damaged"):
        parse_result(b"{broken\n")
    half = b'{"id":"a","outcome":"succeeded","body":"\\ud800","provider":"p","route":"batch","rounds":1,"produced_at":"2026-11-29T12:00:00Z"}'
    assert parse_result(half).body == "\ud800"


def test_readers_claim_results_once(store: Store) -> None:
    accept(store, spool(ALL[:1]))
    assert not is_claimed(store, *AT)
    claim_results(store, *AT)
    claim_results(store, *AT)
    claim_results(store, *AT, reader="dashboard")
    assert is_claimed(store, *AT)
    assert len(list(store.list(keys.claims(*AT)))) == 2
