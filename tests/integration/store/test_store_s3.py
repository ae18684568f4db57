"""The store on a real S3 server: conditional puts, streams, listing, and a whole job."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from groupage.schemas import ErrorClass, JobState, Outcome, Route, Summary, Usage
from groupage.schemas.errors import KeyConflict, StoreError
from groupage.store import keys
from groupage.store.deployment import deployment_owner
from groupage.store.intake import accept_job, missing_objects, spool_requests
from groupage.store.merge import NoResult, merge_job
from groupage.store.objects import ObjectMissing, Store, open_store
from groupage.store.reader import JobResults
from groupage.store.results import ResultLine
from groupage.store.shard_results import ShardResultWriter
from groupage.store.sync_parts import SyncPartWriter, compact

NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
def store(s3: Any) -> Store:
    opened: Store = s3.open()
    return opened


def lines(count: int) -> list[bytes]:
    return [b'{"id":"row-%d","prompt":"%b"}\n' % (n, b"text %d " % n * 30) for n in range(count)]


def result(index: int, **changes: Any) -> ResultLine:
    fields: dict[str, Any] = {
        "index": index,
        "outcome": Outcome.succeeded,
        "provider": "openai",
        "route": Route.batch,
        "rounds": 1,
        "produced_at": NOW,
        "text": f"answer {index}",
        "usage": Usage(input_tokens=1, output_tokens=2),
        "cost_nano": 3,
    }
    return ResultLine(**(fields | changes))


def test_of_many_conditional_puts_at_once_exactly_one_wins(store: Store) -> None:
    for trial in range(3):
        key = f"race/{trial}"
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n, key=key: store.put_new(key, b"%d" % n), range(16)))
        assert won.count(True) == 1
        assert store.get(key) == b"%d" % won.index(True)
        assert not store.put_new(key, b"later")


def test_objects_of_all_sizes_stream_in_and_out(store: Store, tmp_path: Path) -> None:
    for size in (0, 1, 5 * 1024 * 1024, 17_000_001):
        path = tmp_path / "source"
        path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        store.put_file("files/one", path)
        assert store.size("files/one") == size
        assert b"".join(store.stream("files/one")) == path.read_bytes()
        assert store.get_to_file("files/one", tmp_path / "copy") == size
        assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_keys_with_every_allowed_character_are_signed_rightly(store: Store) -> None:
    key = keys.manifest("t.e-n_1", "A:b@c=d+e-f_g.h")
    assert store.put_new(key, b"1")
    assert store.get(key) == b"1"
    assert list(store.list("t.e-n_1/jobs/A:b@c=d+e-f_g.h")) == [key]
    store.delete([key, key])
    with pytest.raises(ObjectMissing):
        store.get(key)


def test_long_lists_are_whole_and_keep_to_their_prefix(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.put(f"many/a/{n:05d}", b""), range(1203)))
    store.put("many/ab", b"")
    assert sorted(store.list("many/a")) == [f"many/a/{n:05d}" for n in range(1203)]
    assert list(store.list("many/none")) == []


def test_options_come_from_the_environment_too(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = s3.options()
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
    monkeypatch.setenv("AWS_REGION", options["region"])
    store = open_store("s3://groupage/from-environment")
    store.put("k", b"1")
    assert s3.open("s3://groupage").get("from-environment/k") == b"1"


def test_a_wrong_secret_is_a_clear_error_without_the_secret(s3: Any) -> None:
    options = s3.options() | {"secret_access_key": "wr0ng"}
    with pytest.raises(StoreError, match="could not read k") as caught:
        open_store("s3://groupage", **options).get("k")
    assert "wr0ng" not in str(caught.value)


def test_many_workers_agree_on_one_owner(s3: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = set(pool.map(lambda _: deployment_owner(s3.open("s3://groupage/deployment")), range(16)))
    assert len(codes) == 1


def test_two_contents_race_for_one_key_and_one_of_them_is_the_job(store: Store, tmp_path: Path) -> None:
    contents = [
        spool_requests(lines(40 + n), tmp_path / f"spool-{n}", provider="openai", model="m", segment_requests=7)
        for n in range(2)
    ]

    def attempt(number: int) -> str:
        try:
            return accept_job(store, contents[number % 2], tenant="t", key="race", owner="abcdef").fingerprint
        except KeyConflict:
            return ""

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(attempt, range(8)))
    assert found.count("") == 4
    assert len(set(found) - {""}) == 1


def test_a_whole_job_is_accepted_answered_merged_and_read(store: Store, tmp_path: Path) -> None:
    at = ("search", "whole")
    spooled = spool_requests(
        [*lines(1000), b"{broken\n"], tmp_path / "spool", provider="openai", model="m", segment_requests=300
    )
    manifest = accept_job(store, spooled, tenant=at[0], key=at[1], owner=deployment_owner(store))
    assert missing_objects(store, manifest) == []
    for shard, (start, end) in enumerate([(0, 600), (600, 1000)]):
        with ShardResultWriter(store, *at, 0, shard, directory=tmp_path / "results") as writer:
            for index in range(end - 1, start - 1, -1):
                expired: dict[str, Any] = {"outcome": Outcome.expired, "error_class": ErrorClass.expired, "text": None}
                writer.add(result(index, **(expired if index % 10 == 0 else {})))
            writer.close()
    parts = SyncPartWriter(store, *at, 1, 0)
    for index in range(0, 1000, 10):
        parts.add(result(index, route=Route.sync, rounds=2))
        if len(parts) == 30:
            parts.flush()
    parts.flush()
    compact(store, *at, 1, 0, directory=tmp_path / "results")

    lost = NoResult(Outcome.expired, ErrorClass.not_sent, "deadline", "", NOW)
    merge: Callable[[], Any] = lambda: merge_job(  # noqa: E731  # run twice below
        store, manifest, [(0, 0), (0, 1), (1, 0)], no_result=lost, effective_until=NOW, directory=tmp_path / "merge"
    )
    merged = merge()
    assert merged.tally.outcomes == {Outcome.succeeded: 1000, Outcome.failed: 1}
    assert merged.tally.routes == {Route.batch: 900, Route.sync: 100}
    assert (merged.parts, merge().resumed_parts) == (4, 4)
    store.put_message(
        keys.summary(*at),
        Summary(
            tenant=at[0], key=at[1], fingerprint=manifest.fingerprint, state=JobState.completed, provider="openai",
            requests=1001, outcomes=merged.tally.outcomes, result_parts=merged.parts,
        ),
    )  # fmt: skip
    read = [json.loads(line) for line in JobResults(store, *at).lines()]
    assert [line["id"] for line in read[:-1]] == [f"row-{n}" for n in range(1000)]
    assert [line["text"] for line in read[:-1]] == [f"answer {n}" for n in range(1000)]
    assert read[-1]["error"]["code"] == "invalid_json"
    assert store.size(keys.ledger(*at))
