"""What lies in the output folder: rows are joined by label or by the request that they repeat; the lines decide."""

import orjson
import pytest
import zstandard
from groupage.emulator.answers import expected_text
from groupage.schemas import ErrorClass, Outcome
from groupage.schemas.errors import ProviderError
from job_world import CHAT
from vertex_world import GEMINI, body_of


def quarantine(world):
    (key,) = (key for key in world.store.list("default/") if key.endswith("quarantine.jsonl.zst"))
    with zstandard.ZstdDecompressor().stream_reader(world.store.get(key)) as stream:
        return [orjson.loads(line) for line in stream.read().split(b"\n")[:-1]]


async def right(world, count=10, model=GEMINI):
    await world.finalize(1)
    assert [row["text"] for row in world.results()] == [expected_text(CHAT, body_of(n, model)) for n in range(count)]


async def test_RP_07_rows_without_labels_are_joined_by_their_request_in_whatever_order(world, emulator):
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}])
    _, report = await world.harvested(await world.planned(40))
    assert report.outcomes == {Outcome.succeeded: 40}
    assert (report.quarantined, report.count_mismatch) == (0, "")
    await right(world, 40)


async def test_RP_07_a_server_that_writes_requests_its_own_way_is_understood(world, emulator):
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}, {"effect": "rewritten"}])
    _, report = await world.harvested(await world.planned(40))
    assert (report.outcomes, report.quarantined) == ({Outcome.succeeded: 40}, 0)
    await right(world, 40)


async def test_RP_07_some_rows_with_and_some_without_labels_in_several_files(world, emulator):
    emulator.faults(
        batches=[{"effect": "unlabelled", "at": 0.5}, {"effect": "rewritten"}, {"effect": "parts", "files": 4}]
    )
    status, report = await world.harvested(await world.planned(40))
    names = [ref.rpartition("/")[2] for ref in status.output_files]
    assert names == [f"predictions_000{n}.jsonl" for n in (1, 2, 3, 4)]
    assert (report.outcomes, report.quarantined) == ({Outcome.succeeded: 40}, 0)
    await right(world, 40)


async def test_RP_07_identical_requests_share_their_rows_one_each(world, emulator):
    """What tells them apart, the label, is gone: 12 requests of 4 kinds."""
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}])
    await world.prepare([{"id": f"id {n}", "body": body_of(n % 4)} for n in range(12)])
    await world.plan()
    _, report = await world.harvested(world.ref())
    assert (report.outcomes, report.quarantined) == ({Outcome.succeeded: 12}, 0)
    await world.finalize(1)
    assert [row["text"] for row in world.results()] == [expected_text(CHAT, body_of(n % 4)) for n in range(12)]


async def test_RP_rows_twice_and_rows_missing_without_labels(world, emulator):
    """A second row of a request belongs to nobody; a missing one leaves its request open, and no other one."""
    emulator.faults(
        batches=[{"effect": "unlabelled", "at": 1}],
        requests=[{"lines": [2], "kind": "duplicate"}, {"lines": [5], "kind": "missing"}],
    )
    _, report = await world.harvested(await world.planned(10))
    assert report.outcomes == {Outcome.succeeded: 9, Outcome.failed: 1}
    assert report.unanswered == {ErrorClass.missing: 1}
    assert [row["reason"] for row in quarantine(world)] == ["like_an_answered_request"]
    assert report.waste_usd > 0, "what was paid twice is counted"
    await world.finalize(1)
    rows = world.results()
    assert [row["outcome"] for row in rows] == ["succeeded"] * 4 + ["failed"] + ["succeeded"] * 5
    assert all(row["text"] == expected_text(CHAT, body_of(n)) for n, row in enumerate(rows) if n != 4)


async def test_RP_an_answer_beats_a_failure_of_the_same_request(world, emulator, gcs):
    """Rows of twins, one failed and one answered, and one row too many."""
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}])
    await world.prepare([{"id": f"id {n}", "body": body_of(0)} for n in range(2)])
    await world.plan()
    ref = world.ref()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    key = status.output_files[0].removeprefix("gs://groupage/")
    rows = gcs.read(key).split(b"\n")[:-1]
    failed = orjson.dumps(orjson.loads(rows[0]) | {"status": "Internal: 500", "response": {}})
    gcs.delete(key)
    gcs.put(key, b"\n".join([failed, *rows]) + b"\n")
    report = await world.collect(ref, status, submitted)
    assert (report.outcomes, report.quarantined) == ({Outcome.succeeded: 2}, 1)


async def test_a_row_that_is_like_no_request_of_the_shard_is_nobodys(world, emulator, gcs):
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}])
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    key = status.output_files[0].removeprefix("gs://groupage/")
    changed = gcs.read(key).replace(b'"question number 3 ?"', b'"question number 99 ?"')
    gcs.delete(key)
    gcs.put(key, changed)
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 9, Outcome.failed: 1}
    assert [row["reason"] for row in quarantine(world)] == ["like_no_request"]


@pytest.mark.parametrize("rewritten", [False, True], ids=["as sent", "defaults dropped"])
async def test_requests_that_a_server_may_write_alike_are_told_apart_or_not_guessed(world, emulator, rewritten):
    """temperature 0 and none are two requests; where 0 is dropped, a row may be of either."""
    bodies = [body_of(1), body_of(1) | {"temperature": 0}, body_of(2)]
    emulator.faults(batches=[{"effect": "unlabelled", "at": 1}, *([{"effect": "rewritten"}] if rewritten else [])])
    await world.prepare([{"id": f"id {n}", "body": body} for n, body in enumerate(bodies)])
    await world.plan()
    _, report = await world.harvested(world.ref())
    if not rewritten:
        assert (report.outcomes, report.quarantined) == ({Outcome.succeeded: 3}, 0)
    else:
        assert report.outcomes == {Outcome.succeeded: 1, Outcome.failed: 2}
        assert [row["reason"] for row in quarantine(world)] == ["like_several_requests"] * 2
        # Named as such: planning keeps them out of batches from here on.
        assert report.unanswered == {ErrorClass.missing: 2}
        assert report.top_errors == [("missing/like_several_requests", 2)]


async def test_RP_04_predictions_that_change_while_they_are_read_are_not_mixed(world, emulator, gcs, monkeypatch):
    """Replaced between two pieces by rows in another order, of the same size: the checksum tells."""
    ref = await world.planned()
    submitted = await world.submit(ref)
    emulator.finish()
    status = await world.ended(ref, submitted)
    key = status.output_files[0].removeprefix("gs://groupage/")
    content = gcs.read(key)
    from google.cloud.storage import Blob

    whole, pieces = Blob.download_as_bytes, []

    def change_after_the_first(self, **how):
        if len(pieces) == 1:
            gcs.delete(key)
            gcs.put(key, b"\n".join(reversed(content.split(b"\n")[:-1])) + b"\n")
        pieces.append(how["start"])
        return whole(self, **how)

    monkeypatch.setattr("groupage.activities.providers.vertex_gcs.PIECE_BYTES", 2000)
    monkeypatch.setattr(Blob, "download_as_bytes", change_after_the_first)
    (file,) = world.adapter.result_files(status)
    with pytest.raises(ProviderError) as error:
        await world.adapter.download(file, world.folder / "mixed")
    assert (error.value.error_class, error.value.code) == (ErrorClass.transient, "cut_short")
    report = await world.collect(ref, status, submitted)
    assert report.outcomes == {Outcome.succeeded: 10}
