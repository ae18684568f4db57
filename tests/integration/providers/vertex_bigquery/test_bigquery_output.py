"""The output table: rows as they stand there, page by page, and what becomes of both tables in the end."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from bigquery_plane import (
    DATA,
    DATASET,
    INPUT,
    LOCATION,
    OUTPUT,
    OWNER,
    PROJECT,
    STEM,
    TAG,
    Plane,
    job_with,
    request_of,
)
from google.api_core.exceptions import BadRequest, Forbidden, PreconditionFailed, ServiceUnavailable
from google.cloud import bigquery
from groupage.activities.providers import vertex_tables
from groupage.activities.providers.vertex_tables import line_of
from groupage.emulator.vertex import bigquery as emulated
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import wire_id

TEXT = 'é—日 \u2028 \u2029 \x85 \\ " \x1c'


def row_of(number: int, **more: Any) -> dict[str, Any]:
    response = {"candidates": [{"content": {"parts": [{"text": f"{TEXT} {number}"}]}}]}
    row = {"custom_id": wire_id(TAG, number), "request": request_of(number).decode(), "response": response}
    return row | {"status": "", "processed_time": "2026-11-29T10:00:00Z"} | more


async def downloaded(plane: Plane, folder: Path) -> list[bytes]:
    files = await plane.data.result_files(job_with())
    assert files == [f"bq://{OUTPUT}"]
    path = folder / "rows.jsonl"
    size = await plane.data.download(files[0], path)
    data = path.read_bytes()
    assert size == len(data)
    return data.split(b"\n")[:-1]


async def test_RP_01_rows_become_json_lines_whatever_their_texts_hold(plane: Plane, tmp_path: Path) -> None:
    await plane.put_output([row_of(n) for n in range(3)])
    lines = await downloaded(plane, tmp_path)
    assert len(lines) == 3
    for number, line in enumerate(lines):
        read = orjson.loads(line)
        assert read["custom_id"] == wire_id(TAG, number)
        assert read["request"] == orjson.loads(request_of(number))
        assert read["response"]["candidates"][0]["content"]["parts"][0]["text"] == f"{TEXT} {number}"
        assert (read["status"], read["processed_time"]) == ("", "1795946400000000")


async def test_json_in_a_row_is_not_written_anew(plane: Plane, tmp_path: Path) -> None:
    request = '{"n": 12345678901234567890123, "x": 1.10,\n "é": "\\u00e9"}'
    await plane.put_output([row_of(0, request=request)])
    (line,) = await downloaded(plane, tmp_path)
    assert request.replace("\n", " ").encode() in line


def test_a_null_is_left_out_and_a_text_that_is_no_json_stays_one() -> None:
    row = {"f": [{"v": "w-1"}, {"v": '{"cut":'}, {"v": None}]}
    assert orjson.loads(line_of(["custom_id", "request", "response"], row)) == {
        "custom_id": "w-1",
        "request": '{"cut":',
    }


async def test_rows_without_an_answer_and_rows_twice_come_as_they_are(plane: Plane, tmp_path: Path) -> None:
    failed = row_of(1, response=None, status='{"code": 3, "message": "bad"}')
    await plane.put_output([row_of(0), failed, row_of(0), row_of(2, response=None)])
    lines = [orjson.loads(line) for line in await downloaded(plane, tmp_path)]
    assert [line["custom_id"] for line in lines] == [wire_id(TAG, n) for n in (0, 1, 0, 2)]
    assert ("response" in lines[1], lines[1]["status"]) == (False, '{"code": 3, "message": "bad"}')
    assert ("response" in lines[3], lines[3]["status"]) == (False, "")


async def test_pages_are_put_together(plane: Plane, tmp_path: Path) -> None:
    rows = [row_of(n, status="x" * 3_000_000) for n in range(7)]
    await plane.put_output(rows)
    lines = await downloaded(plane, tmp_path)
    assert [orjson.loads(line)["custom_id"] for line in lines] == [row["custom_id"] for row in rows]
    assert plane.calls("files.content") == 3
    assert emulated.PAGE_BYTES > 3_000_000 * 3


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("action", ["drop_before", "drop_after", "error", "cut", "cut_clean", "html"])
async def test_RP_04_a_page_that_is_cut_is_asked_for_again_by_its_token(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, number: int
) -> None:
    monkeypatch.setattr(vertex_tables, "PAGE_PAUSE_S", 0.001)
    await plane.put_output([row_of(n, status="x" * 4_000_000) for n in range(5)])
    rule = {"call": "files.content", "action": action, "nth": [number], "line_end": False, "status": 503}
    plane.emulator.faults(calls=[rule])
    lines = await downloaded(plane, tmp_path)
    assert [orjson.loads(line)["custom_id"] for line in lines] == [wire_id(TAG, n) for n in range(5)]
    assert plane.calls("files.content") == 4


async def test_a_page_that_never_comes_is_an_error_and_no_shorter_file(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vertex_tables, "PAGE_PAUSE_S", 0.001)
    await plane.put_output([row_of(n, status="x" * 4_000_000) for n in range(5)])
    plane.emulator.faults(calls=[{"call": "files.content", "action": "cut", "nth": list(range(2, 20))}])
    with pytest.raises(ProviderError) as caught:
        await downloaded(plane, tmp_path)
    assert caught.value.error_class is ErrorClass.transient
    assert plane.calls("files.content") == 1 + vertex_tables.PAGE_ATTEMPTS


async def test_RP_05_pages_that_end_too_early_are_noticed(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plane.put_output([row_of(n) for n in range(5)])
    whole = vertex_tables._one_page

    def shorter(*arguments: Any) -> dict[str, Any]:
        page = whole(*arguments)
        return page | {"rows": page["rows"][:3]}

    monkeypatch.setattr(vertex_tables, "_one_page", shorter)
    with pytest.raises(ProviderError, match="3 of 5 rows came") as caught:
        await downloaded(plane, tmp_path)
    assert (caught.value.error_class, caught.value.code) == (ErrorClass.transient, "cut_short")


async def test_an_empty_output_is_an_empty_file_and_a_missing_one_is_no_file(plane: Plane, tmp_path: Path) -> None:
    assert await plane.data.result_files(job_with()) == []
    assert await plane.data.result_files({}) == []
    plane.google.create_table(bigquery.Table(OUTPUT, [bigquery.SchemaField("custom_id", "STRING")]), retry=None)
    assert await downloaded(plane, tmp_path) == []


async def test_a_job_that_names_its_output_table_itself_is_believed(plane: Plane) -> None:
    await plane.put_output([row_of(0)], f"{PROJECT}.{DATASET}.predictions_1")
    info = {"bigqueryOutputDataset": DATA, "bigqueryOutputTable": "predictions_1"}
    assert await plane.data.result_files(job_with() | {"outputInfo": info}) == [f"{DATA}.predictions_1"]


async def test_an_output_table_expires_from_when_its_job_was_seen_to_have_ended(plane: Plane) -> None:
    await plane.put_output([row_of(0)])
    assert plane.google.get_table(OUTPUT).expires is None
    await plane.data.result_files(job_with())
    expires = plane.google.get_table(OUTPUT).expires
    assert abs(expires - datetime.now(UTC) - timedelta(days=14)) < timedelta(minutes=1)
    await plane.data.result_files(job_with())
    assert plane.google.get_table(OUTPUT).expires == expires


async def test_no_table_expires_where_none_is_asked_to(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane(files_expire_after_s=0)
    plane.make_dataset()
    await plane.data.upload(plane.submission())
    await plane.put_output([row_of(0)])
    assert await plane.data.result_files(job_with()) == [f"bq://{OUTPUT}"]
    assert [plane.google.get_table(ref).expires for ref in (INPUT, OUTPUT)] == [None, None]


def test_a_job_after_a_dead_one_writes_into_a_table_of_its_own(plane: Plane) -> None:
    uris = [
        plane.data.output_config(plane.submission(1, not_ids=dead))["bigqueryDestination"]["outputUri"]
        for dead in ((), ("job-1",), ("job-1", "job-2"))
    ]
    assert uris == [f"bq://{OUTPUT}", f"bq://{OUTPUT}_2", f"bq://{OUTPUT}_3"]


async def test_deleting_what_is_gone_is_no_error(plane: Plane) -> None:
    await plane.data.upload(plane.submission())
    await plane.put_output([row_of(0)])
    for _ in range(2):
        await plane.data.delete(f"bq://{INPUT}")
        await plane.data.delete(f"bq://{OUTPUT}")
    assert plane.tables() == []


async def test_the_sweep_finds_our_tables_and_nobody_elses(plane: Plane, make_plane: Callable[..., Plane]) -> None:
    await plane.data.upload(plane.submission())
    for ref in (OUTPUT, f"{OUTPUT}_2", f"{PROJECT}.{DATASET}.{STEM}_other", f"{PROJECT}.{DATASET}.gaaaaaa_x"):
        await plane.put_output([row_of(0)], ref)
    await plane.data.upload(plane.submission(2, tag=TAG.replace(OWNER, "zzzzzz")))
    found = [each async for each in make_plane().data.list_ours(OWNER)]
    assert sorted(each.ref for each in found) == sorted(f"bq://{ref}" for ref in (INPUT, OUTPUT, f"{OUTPUT}_2"))
    assert {each.tag for each in found} == {TAG}
    for each in found:
        assert each.made_at == plane.google.get_table(each.ref.removeprefix("bq://")).created


async def test_jobs_and_rows_are_looked_at_in_the_datasets_location(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane()
    plane.make_dataset(LOCATION.upper())
    await plane.data.upload(plane.submission())
    assert plane.google.get_job(f"{TAG}-l1", location=LOCATION).location == LOCATION.upper()


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("no bigquery.tables.update"),
        BadRequest("Invalid value for: expirationTime is not in the future"),
        PreconditionFailed("the etag does not match"),
        ServiceUnavailable("try again"),
        requests.ConnectionError("reset"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_results_are_there_even_if_their_table_cannot_be_changed(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level("WARNING")
    await plane.put_output([row_of(0)])

    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(bigquery.Client, "update_table", refused)
    assert await plane.data.result_files(job_with()) == [f"bq://{OUTPUT}"]
    assert "will not expire by itself" in caplog.text
