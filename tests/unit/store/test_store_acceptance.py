"""Acceptance: one content a key, safe at every crash, never over what is there."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from groupage.schemas.errors import KeyConflict, StoreError, UnknownJob
from groupage.store import keys
from groupage.store.acceptance import default_key, missing_objects
from groupage.store.objects import Store, open_store
from groupage.store.segments import SegmentReader, read_manifest
from store_builders import AT, accept, batch_line, bodies, spool

LINES = [batch_line(f"id-{n}", f"text {n}") for n in range(20)]


class Crash(Exception):
    pass


class CrashingStore(Store):
    """Dies at its n-th write; with `after` the write gets through and only its answer is lost."""

    def __init__(self, inner: Store, crash_at: int, *, after: bool) -> None:
        super().__init__(inner.url, inner._inner)
        self._left = crash_at
        self._after = after
        self._lock = threading.Lock()

    def _die(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left < 0

    def put_new(self, key: str, data: bytes) -> bool:
        dead = self._die()
        if dead and not self._after:
            raise Crash
        done = super().put_new(key, data)
        if dead:
            raise Crash
        return done


def snapshot(store: Store) -> dict[str, bytes]:
    return {key: store.get(key) for key in store.list(AT[0])}


def test_an_accepted_job_reads_back_as_it_was_spooled(store: Store) -> None:
    spooled = spool([*LINES, b"{bad", LINES[3]], segment_requests=6)
    manifest = accept(store, spooled)
    reader = SegmentReader(store, read_manifest(store, *AT))
    requests = list(reader.requests())
    assert [request.index for request in requests] == list(range(20))
    assert [request.id for request in requests] == [f"id-{n}" for n in range(20)]
    assert [request.body for request in requests] == bodies(spooled)[:20]
    assert [request.line for request in requests] == list(range(1, 21))
    assert [(one.index, one.code) for one in reader.rejected()] == [(20, "invalid_json"), (21, "duplicate_id")]
    assert (manifest.requests, manifest.rejected) == (22, 2)
    assert missing_objects(store, manifest) == []


def test_requests_are_read_by_sorted_indices_across_segments(store: Store) -> None:
    reader = SegmentReader(store, accept(store, spool(LINES, segment_requests=6)))
    wanted = np.array([0, 5, 6, 11, 12, 19], dtype=np.uint32)
    assert [request.id for request in reader.requests(wanted)] == [f"id-{n}" for n in wanted]
    assert reader.request(13).id == "id-13"
    with pytest.raises(IndexError):
        reader.request(20)


def test_the_same_content_again_is_the_same_job(store: Store) -> None:
    first = accept(store, spool(LINES))
    before = snapshot(store)
    again = accept(store, spool(b"\n".join(LINES)))
    assert again == first
    assert snapshot(store) == before


def test_SU_10_other_content_under_the_same_key_is_a_conflict_and_changes_nothing(store: Store) -> None:
    accept(store, spool(LINES))
    before = snapshot(store)
    for other in (spool([*LINES[:-1], batch_line("id-19", "changed")]), spool(LINES, provider="anthropic")):
        with pytest.raises(KeyConflict, match="labels-1") as caught:
            accept(store, other)
        assert caught.value.hint
    assert snapshot(store) == before


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (LINES[:-1], "requests 20, now 19"),
        ([batch_line(f"id-{n}", f"question {n}", model="other") for n in range(20)], "now other"),
        ([*LINES[:-1], batch_line("id-19", "changed")], "some text, parameter, id or label"),
    ],
)
def test_a_conflict_says_what_differs_as_far_as_the_manifest_tells(store: Store, other: list[bytes], said: str) -> None:
    accept(store, spool(LINES))
    with pytest.raises(KeyConflict) as caught:
        accept(store, spool(other))
    assert said in str(caught.value)
    assert "requests by model" not in str(caught.value)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("crash_at", range(10))
def test_a_crash_at_any_write_is_mended_by_doing_it_again(store: Store, crash_at: int, after: bool) -> None:
    spooled = spool([*LINES, b"{bad"], segment_requests=6)
    try:
        accept(CrashingStore(store, crash_at, after=after), spooled)
    except Crash:
        pass
    else:
        assert crash_at >= 9  # one manifest and four segments of two objects
    token = read_manifest(store, *AT).token if store.exists(keys.manifest(*AT)) else None
    manifest = accept(store, spool([*LINES, b"{bad"], segment_requests=6))
    assert token in (None, manifest.token)
    assert missing_objects(store, manifest) == []
    assert [request.id for request in SegmentReader(store, manifest).requests()] == [f"id-{n}" for n in range(20)]


def test_an_unfinished_acceptance_says_so_to_who_reads_it(store: Store) -> None:
    with pytest.raises(Crash):
        accept(CrashingStore(store, 1, after=False), spool(LINES))
    manifest = read_manifest(store, *AT)
    assert missing_objects(store, manifest) == [keys.segment_data(*AT, 0), keys.segment_index(*AT, 0)]
    with pytest.raises(StoreError, match="not all of it was stored"):
        list(SegmentReader(store, manifest).requests())


def test_an_acceptance_is_finished_in_its_own_segments_even_by_code_with_other_sizes(store: Store) -> None:
    with pytest.raises(Crash):
        accept(CrashingStore(store, 4, after=False), spool(LINES, segment_requests=6))
    before = snapshot(store)
    manifest = accept(store, spool(LINES, segment_requests=9))
    assert [segment.requests for segment in manifest.segments] == [6, 6, 6, 2]
    reader = SegmentReader(store, manifest)
    assert [request.body for request in reader.requests()] == bodies(spool(LINES))
    assert {key: data for key, data in snapshot(store).items() if key in before} == before


def test_two_callers_at_once_accept_one_job(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    contents = [spool(LINES, segment_requests=3), spool([*LINES, batch_line("more")], segment_requests=3)]

    def attempt(number: int) -> Any:
        try:
            return accept(store, contents[number % 2])
        except KeyConflict:
            return None

    with ThreadPoolExecutor(8) as pool:
        manifests = [one for one in pool.map(attempt, range(8)) if one is not None]
    assert len({manifest.salt for manifest in manifests}) == 1
    assert len(manifests) == 4
    assert len(list(SegmentReader(store, manifests[0]).requests())) == manifests[0].requests


def test_each_acceptance_draws_its_own_token(store: Store) -> None:
    spooled = spool(LINES)
    assert accept(store, spooled).token != accept(open_store("memory://"), spooled).token
    assert default_key(spooled.fingerprint) == spooled.fingerprint[:32]


def test_a_job_that_nobody_accepted_is_unknown(store: Store) -> None:
    with pytest.raises(UnknownJob, match="labels-1"):
        read_manifest(store, *AT)


def test_damaged_segments_are_noticed_and_named(store: Store) -> None:
    manifest = accept(store, spool(LINES, segment_requests=6))
    whole = store.get(keys.segment_data(*AT, 1))
    store.put(keys.segment_data(*AT, 1), whole[:-9])
    with pytest.raises(StoreError, match=r"00001\.jsonl\.zst is damaged"):
        SegmentReader(store, manifest).segment(1)
    store.put(keys.segment_data(*AT, 1), store.get(keys.segment_data(*AT, 3)))
    with pytest.raises(StoreError, match="damaged"):
        SegmentReader(store, manifest).segment(1)
    store.put(keys.segment_index(*AT, 2), b"x" * 15)
    with pytest.raises(StoreError, match=r"00002\.idx is damaged"):
        SegmentReader(store, manifest).rows(2)
