"""The input table: found or made once, whatever is lost or killed on the way."""

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bigquery_plane import DATASET, INPUT, LOCATION, PROJECT, STEM, TAG, Plane, request_of, variables_of
from google.api_core.exceptions import NotFound
from groupage.activities.providers import vertex_bigquery, vertex_tables
from groupage.activities.providers.vertex_tables import Load, ended, send
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import wire_id
from provider_world import Emulator


def check_input(plane: Plane, count: int = 10) -> None:
    """Each request is there once, byte for byte."""
    rows = {row["custom_id"]: row["request"] for row in plane.rows()}
    assert rows == {wire_id(TAG, number): request_of(number).decode() for number in range(count)}
    assert plane.google.get_table(INPUT).num_rows == count
    assert plane.tables() == [f"{STEM}_input"]


async def uploaded(plane: Plane, submission, attempts: int = 6) -> list[str]:
    """As the activity does it: attempt after attempt."""
    for _ in range(attempts - 1):
        try:
            return await plane.data.upload(submission)
        except ProviderError as error:
            if error.error_class is not ErrorClass.transient:
                raise
    return await plane.data.upload(submission)


async def test_the_input_becomes_a_table_that_expires_and_carries_the_tag(plane: Plane) -> None:
    files = await plane.data.upload(plane.submission())
    assert files == [f"bq://{INPUT}"]
    check_input(plane)
    table = plane.google.get_table(INPUT)
    assert table.labels == {"groupage": TAG}
    assert abs(table.expires - datetime.now(UTC) - timedelta(days=14)) < timedelta(minutes=1)
    assert plane.data.input_config(files) == {
        "instancesFormat": "bigquery",
        "bigquerySource": {"inputUri": f"bq://{INPUT}"},
    }


async def test_an_input_that_is_there_is_not_loaded_again(plane: Plane, make_plane: Callable[..., Plane]) -> None:
    submission = plane.submission()
    await plane.data.upload(submission)
    assert await make_plane().data.upload(submission) == [f"bq://{INPUT}"]
    assert plane.calls("uploads.create") == 1


@pytest.mark.parametrize("call", ["files.create", "uploads.create", "uploads.part"])
@pytest.mark.parametrize("action", ["drop_before", "drop_after", "error", "error_after", "html"])
async def test_SU_01_a_lost_reply_makes_no_second_input(plane: Plane, call: str, action: str) -> None:
    plane.emulator.faults(calls=[{"call": call, "action": action, "nth": [1], "status": 503}])
    assert await uploaded(plane, plane.submission()) == [f"bq://{INPUT}"]
    check_input(plane)
    if (call, action) in {("uploads.part", "drop_after"), ("uploads.part", "error_after")}:
        # The job was there: it was found by its id, and nothing was sent again.
        assert plane.calls("uploads.part") == 1


async def test_SU_04_calls_that_make_something_are_sent_once_an_attempt(plane: Plane) -> None:
    plane.emulator.faults(calls=[{"call": "uploads.part", "action": "error", "status": 503}])
    with pytest.raises(ProviderError) as caught:
        await plane.data.upload(plane.submission())
    assert (caught.value.error_class, caught.value.status) == (ErrorClass.transient, 503)
    assert (plane.calls("files.create"), plane.calls("uploads.create"), plane.calls("uploads.part")) == (1, 1, 1)


async def test_reads_on_the_way_are_retried(plane: Plane) -> None:
    plane.emulator.faults(calls=[{"call": "files.retrieve", "action": "error", "status": 503, "nth": [1, 2]}])
    await plane.data.upload(plane.submission())
    check_input(plane)


async def test_two_attempts_at_once_make_one_input(plane: Plane, make_plane: Callable[..., Plane]) -> None:
    plane.emulator.faults(calls=[{"call": "uploads.part", "action": "slow", "seconds": "300ms", "nth": [1]}])
    submission = plane.submission()
    both = await asyncio.gather(plane.data.upload(submission), make_plane().data.upload(submission))
    assert both == [[f"bq://{INPUT}"]] * 2
    check_input(plane)


async def test_a_kill_between_table_and_load_leaves_a_table_that_is_filled_later(
    plane: Plane, make_plane: Callable[..., Plane], monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = plane.submission()

    def die(*_: object) -> None:
        raise KeyError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(vertex_bigquery, "send", die)
        with pytest.raises(KeyError):
            await plane.data.upload(submission)
    assert plane.google.get_table(INPUT).num_rows == 0
    await make_plane().data.upload(submission)
    check_input(plane)


CHILD = """
import asyncio, sys
from pathlib import Path
from bigquery_memory import Address
from bigquery_plane import Plane
plane = Plane(Address(sys.argv[1]), Path(sys.argv[2]))
asyncio.run(plane.data.upload(plane.submission(20_000)))
"""


@pytest.mark.parametrize("call", ["files.create", "uploads.create", "uploads.part", "uploads.retrieve"])
async def test_SU_01_a_process_killed_on_the_way_leaves_an_input_that_is_completed_once(
    plane: Plane, call: str
) -> None:
    plane.emulator.faults(calls=[{"call": "uploads.part", "action": "slow", "seconds": "200ms"}])
    paths = os.pathsep.join(path for path in sys.path if "integration" in path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, plane.emulator.base_url, str(plane.folder), env=dict(os.environ, PYTHONPATH=paths)
    )
    await plane.emulator.called(call)
    process.kill()
    await process.wait()
    plane.emulator.faults()
    await uploaded(plane, plane.submission(20_000))
    check_input(plane, 20_000)


async def test_a_load_job_of_another_id_leaves_rows_that_are_there_alone(plane: Plane) -> None:
    submission = plane.submission()
    await plane.data.upload(submission)
    load = Load(PROJECT, LOCATION, f"{TAG}-l9", INPUT, vertex_bigquery.SCHEMA)
    job = await plane.data._call("another load", lambda desk: ended(desk, send(desk, load, submission.path), load))
    assert job.error_result["reason"] == "duplicate"
    check_input(plane)


async def test_a_dataset_that_went_away_is_named(plane: Plane) -> None:
    await plane.data.upload(plane.submission())
    plane.google.delete_dataset(f"{PROJECT}.{DATASET}", delete_contents=True, retry=None)
    with pytest.raises(ProviderError, match="there is no dataset") as caught:
        await plane.data.upload(plane.submission())
    assert caught.value.error_class is ErrorClass.account


async def test_a_load_job_that_brings_too_few_rows_is_no_input(plane: Plane) -> None:
    submission = dataclasses.replace(plane.submission(7), requests=10)
    with pytest.raises(ProviderError) as caught:
        await plane.data.upload(submission)
    assert (caught.value.error_class, caught.value.code) == (ErrorClass.transient, "rows_missing")
    assert (plane.calls("uploads.create"), plane.tables()) == (1, [])
    await plane.data.upload(plane.submission())
    check_input(plane)


async def test_after_a_load_job_that_failed_comes_one_of_another_id(plane: Plane) -> None:
    submission = plane.submission()
    good = submission.path.read_bytes()
    submission.path.write_bytes(good + b'{"custom_id":1,"unknown":2}\n')
    with pytest.raises(ProviderError, match="No such field: unknown") as caught:
        await plane.data.upload(submission)
    assert (caught.value.error_class, caught.value.code) == (ErrorClass.invalid, "invalid")
    submission.path.write_bytes(good)
    await plane.data.upload(submission)
    check_input(plane)
    assert plane.google.get_job(f"{TAG}-l1", location=LOCATION).error_result["reason"] == "invalid"
    assert plane.google.get_job(f"{TAG}-l2", location=LOCATION).error_result is None


async def test_load_jobs_that_fail_for_ever_end(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vertex_bigquery, "LOADS_MAX", 2)
    submission = plane.submission()
    submission.path.write_bytes(b"no json\n")
    for code in ("invalid", "invalid", "load_jobs"):
        with pytest.raises(ProviderError) as caught:
            await plane.data.upload(submission)
        assert (caught.value.error_class, caught.value.code) == (ErrorClass.invalid, code)


async def test_an_input_that_was_deleted_is_loaded_anew(plane: Plane) -> None:
    submission = plane.submission()
    files = await plane.data.upload(submission)
    await plane.data.delete(files[0])
    await plane.data.delete(files[0])
    assert plane.tables() == []
    await plane.data.upload(submission)
    check_input(plane)


async def test_a_table_with_other_rows_is_made_anew(plane: Plane) -> None:
    await plane.data.upload(plane.submission(7))
    await plane.data.upload(plane.submission(10))
    check_input(plane)


async def test_a_large_input_goes_in_pieces(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vertex_tables, "PIECE_BYTES", 256 << 10)
    await plane.data.upload(plane.submission(5000))
    assert plane.calls("uploads.part") > 2
    check_input(plane, 5000)


async def test_a_missing_dataset_is_named_with_the_setting_and_what_to_do(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane()
    with pytest.raises(ProviderError) as caught:
        await plane.data.upload(plane.submission())
    assert (caught.value.error_class, caught.value.code) == (ErrorClass.account, "configuration")
    for part in (
        f"no dataset {PROJECT}.{DATASET}",
        f"GROUPAGE_VERTEX_DATA=bq://{PROJECT}.{DATASET}",
        f"`bq --location=us-central1 mk --dataset {PROJECT}:{DATASET}`",
    ):
        assert part in str(caught.value)


async def test_a_dataset_in_another_region_is_refused_before_anything_is_made(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane()
    plane.make_dataset("europe-west4")
    with pytest.raises(ProviderError, match=r"lies in europe-west4, and jobs run in us-central1") as caught:
        await plane.data.upload(plane.submission())
    assert (caught.value.error_class, plane.tables()) == (ErrorClass.account, [])


async def test_a_dataset_in_a_multi_region_is_taken(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane()
    plane.make_dataset("US")
    await plane.data.upload(plane.submission())
    check_input(plane)


def test_bigquery_is_refused_at_the_global_endpoint(
    make_plane: Callable[..., Plane], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "global")
    with pytest.raises(
        ProviderError, match=r"global endpoint cannot read BigQuery; set GOOGLE_CLOUD_LOCATION"
    ) as caught:
        make_plane()
    assert (caught.value.error_class, caught.value.code) == (ErrorClass.account, "configuration")


async def test_an_input_is_gone_when_it_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An emulator of its own: the clock of the shared one may be far ahead by now.
    emulator = Emulator(tmp_path / "emulator")
    for name, value in variables_of(emulator.base_url).items():
        monkeypatch.setenv(name, value)
    plane = Plane(emulator, tmp_path, files_expire_after_s=3600)
    plane.make_dataset()
    await plane.data.upload(plane.submission())
    emulator.advance_at_once("30m")
    plane.google.get_table(INPUT, retry=None)
    emulator.advance_at_once("1h")
    with pytest.raises(NotFound):
        plane.google.get_table(INPUT, retry=None)
    plane.close()
    emulator.close()


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (403, "rateLimitExceeded", ErrorClass.rate_limit),
        (403, "quotaExceeded", ErrorClass.quota),
        (403, "accessDenied", ErrorClass.account),
        (403, "billingNotEnabled", ErrorClass.account),
        (400, "invalid", ErrorClass.invalid),
        (413, "uploadTooLarge", ErrorClass.too_large),
        (429, "rateLimitExceeded", ErrorClass.rate_limit),
        (500, "internalError", ErrorClass.transient),
        (503, "backendError", ErrorClass.transient),
    ],
)
@pytest.mark.parametrize("call", ["files.create", "uploads.create", "uploads.part"])
async def test_errors_have_classes_by_bigquerys_own_words(
    plane: Plane, call: str, status: int, reason: str, expected: ErrorClass
) -> None:
    plane.emulator.faults(calls=[{"call": call, "action": "error", "status": status, "code": reason}])
    with pytest.raises(ProviderError) as caught:
        await plane.data.upload(plane.submission())
    assert (caught.value.error_class, caught.value.status) == (expected, status)
