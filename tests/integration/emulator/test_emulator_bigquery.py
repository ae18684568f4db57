"""BigQuery in the emulator, as the official client sees it."""

import os
import signal
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from bigquery_world import DATASET, PROJECT, SCHEMA, TABLE, as_file, connect, ended, load, reason_of, row
from google.api_core.exceptions import BadRequest, Conflict, NotFound
from google.cloud import bigquery
from groupage.emulator import EmulatorProcess


@pytest.fixture
def client(emulator):
    with connect(emulator) as made:
        yield made


def rows_of(client, **more):
    return [dict(each) for each in client.list_rows(client.get_table(TABLE), retry=None, **more)]


@pytest.mark.parametrize("size", [None, "told"])
def test_a_load_job_puts_lines_of_json_into_a_table(client, size):
    text = 'line\u2028separator, next\u0085line, 日本 \\ " \x1c'
    file = as_file([row(1, request=text, extra={"a": [1, None]}, at="2026-11-29T10:00:00.25Z"), row(2)])
    job = load(client, file, size=len(file.getvalue()) if size else None)
    assert job.location == "us-central1"
    job = ended(client, job)
    assert (job.error_result, job.output_rows) == (None, 2)
    first, second = rows_of(client)
    assert first["request"] == text
    assert first["extra"] == {"a": [1, None]}
    assert first["at"].isoformat() == "2026-11-29T10:00:00.250000+00:00"
    assert second == {"custom_id": "r-2", "request": '{"n":2}', "extra": None, "number": 2, "at": None}
    table = client.get_table(TABLE)
    assert (table.num_rows, table.location, table.expires) == (2, "us-central1", None)
    assert table.schema == SCHEMA


def test_a_resumable_upload_comes_in_pieces(client, monkeypatch):
    monkeypatch.setattr("google.cloud.bigquery.client._DEFAULT_CHUNKSIZE", 256 * 1024)
    job = ended(client, load(client, [row(n, request="x" * 1000) for n in range(1000)]))
    assert job.output_rows == 1000
    assert [each["number"] for each in rows_of(client)] == list(range(1000))


def test_rows_come_in_pages_and_a_page_can_be_asked_for_again(client):
    ended(client, load(client, [row(n) for n in range(10)]))
    table = client.get_table(TABLE)
    pages = client.list_rows(table, page_size=4, retry=None).pages
    first = next(pages).raw_page
    assert [len(first["rows"]), first["totalRows"]] == [4, "10"]
    again = client.list_rows(table, page_size=4, page_token=first["pageToken"], retry=None)
    assert [each["number"] for each in again] == [4, 5, 6, 7, 8, 9]
    chosen = client.list_rows(table, selected_fields=[SCHEMA[3], SCHEMA[0]], start_index=8, max_results=1)
    assert [dict(each) for each in chosen] == [{"number": 8, "custom_id": "r-8"}]


def test_a_page_of_rows_has_at_most_ten_megabytes_but_one_row(client):
    ended(
        client, load(client, [row(n, request="x" * 4_000_000) for n in range(3)] + [row(3, request="y" * 11_000_000)])
    )
    sizes = [len(page.raw_page["rows"]) for page in client.list_rows(client.get_table(TABLE), retry=None).pages]
    assert sizes == [2, 1, 1]


def test_a_job_id_can_be_used_once(client):
    ended(client, load(client, [row(1)], job_id="once"))
    with pytest.raises(Conflict, match=r"Already Exists: Job my-project:us-central1\.once") as caught:
        load(client, [row(2)], job_id="once")
    assert reason_of(caught.value) == "duplicate"
    assert [each["number"] for each in rows_of(client)] == [1]


def test_a_bad_line_fails_the_whole_job(client):
    lines = as_file([row(1), {"custom_id": "r-2", "unknown": 1}, row(3)])
    job = ended(client, load(client, lines, job_id="bad"))
    assert job.error_result["reason"] == "invalid"
    assert "Rows: 2; errors: 1. No such field: unknown." in job.error_result["message"]
    with pytest.raises(NotFound):
        client.get_table(TABLE, retry=None)
    with pytest.raises(Conflict):
        load(client, [row(1)], job_id="bad")


@pytest.mark.parametrize("bad", [{"custom_id": None}, {"number": 1.5}, {"request": {"a": 1}}, {"at": "yesterday"}])
def test_values_have_to_fit_their_columns(client, bad):
    job = ended(client, load(client, [row(1) | bad]))
    assert job.error_result["reason"] == "invalid"


def test_dispositions_say_what_becomes_of_a_table_with_rows(client):
    assert ended(client, load(client, [row(1)], create_disposition="CREATE_NEVER")).error_result["reason"] == "notFound"
    client.create_table(bigquery.Table(TABLE, SCHEMA), retry=None)
    assert ended(client, load(client, [row(1)], write_disposition="WRITE_EMPTY")).error_result is None
    assert ended(client, load(client, [row(2)], write_disposition="WRITE_EMPTY")).error_result["reason"] == "duplicate"
    ended(client, load(client, [row(3)]))
    assert [each["number"] for each in rows_of(client)] == [1, 3]
    ended(client, load(client, [row(4)], write_disposition="WRITE_TRUNCATE"))
    assert [each["number"] for each in rows_of(client)] == [4]


def test_what_is_not_there_is_not_found_and_what_is_there_is_a_duplicate(client):
    for missing in (
        lambda: client.get_dataset(f"{PROJECT}.nothing", retry=None),
        lambda: client.get_table(TABLE, retry=None),
        lambda: client.delete_table(TABLE, retry=None),
        lambda: list(client.list_tables(f"{PROJECT}.nothing", retry=None)),
        lambda: client.get_job("nothing", location="us-central1", retry=None),
        lambda: load(client, [row(1)], table=f"{PROJECT}.nothing.input"),
        lambda: load(client, [row(1)], location="europe-west4"),
    ):
        with pytest.raises(NotFound) as caught:
            missing()
        assert reason_of(caught.value) == "notFound"
    client.create_table(bigquery.Table(TABLE, SCHEMA), retry=None)
    with pytest.raises(Conflict, match=r"Already Exists: Table my-project:batches\.input"):
        client.create_table(bigquery.Table(TABLE, SCHEMA), retry=None)
    with pytest.raises(BadRequest, match="Invalid table ID"):
        client.get_table(f"{PROJECT}.{DATASET}.in:put", retry=None)


def test_a_job_is_found_in_its_own_location_only(client):
    job = ended(client, load(client, [row(1)]))
    for other in (None, "US"):
        with pytest.raises(NotFound):
            client.get_job(job.job_id, location=other, retry=None)


def test_tables_are_listed_page_by_page_with_labels(client):
    for name in ("b", "a", "c"):
        table = bigquery.Table(f"{PROJECT}.{DATASET}.{name}", SCHEMA)
        table.labels = {"which": name}
        client.create_table(table, retry=None)
    listed = list(client.list_tables(f"{PROJECT}.{DATASET}", page_size=2, retry=None))
    assert [(each.table_id, each.labels["which"]) for each in listed] == [("a", "a"), ("b", "b"), ("c", "c")]
    client.delete_table(f"{PROJECT}.{DATASET}.b", retry=None)
    assert [each.table_id for each in client.list_tables(f"{PROJECT}.{DATASET}", retry=None)] == ["a", "c"]


def test_a_table_is_gone_when_it_expires(client, emulator):
    table = client.create_table(bigquery.Table(TABLE, SCHEMA), retry=None)
    table.expires = datetime.now(UTC) + timedelta(days=2)
    client.update_table(table, ["expires"], retry=None)
    emulator.advance("1d")
    client.get_table(TABLE, retry=None)
    emulator.advance("1d")
    with pytest.raises(NotFound):
        client.get_table(TABLE, retry=None)


def test_tables_and_half_an_upload_survive_a_kill(start, monkeypatch):
    monkeypatch.setattr("google.cloud.bigquery.client._DEFAULT_CHUNKSIZE", 256 * 1024)
    first: EmulatorProcess = start()
    with connect(first) as client:
        ended(client, load(client, [row(n) for n in range(3)]))
        file = as_file([row(n, request="x" * 1000) for n in range(1000)])
        size = len(file.getvalue())
        config = bigquery.LoadJobConfig(source_format="NEWLINE_DELIMITED_JSON", write_disposition="WRITE_TRUNCATE")
        job = bigquery.job.LoadJob(
            bigquery.job._JobReference("big", PROJECT, "us-central1"), None, _reference(), client, config
        )
        upload, session = client._initiate_resumable_upload(file, job.to_api_repr(), 0, 20)
        upload.transmit_next_chunk(session, timeout=20)
    os.kill(first.pid, signal.SIGKILL)
    first.stop()
    with connect(again := start()) as client:
        assert client.get_table(TABLE, retry=None).num_rows == 3
        root = again.base_url.removesuffix("/v1")
        upload._resumable_url = root + upload.resumable_url[upload.resumable_url.index("/upload/") :]
        upload.recover(client._http)
        while not upload.finished:
            reply = upload.transmit_next_chunk(client._http, timeout=20)
        job = ended(client, client.job_from_resource(orjson.loads(reply.content)))
        assert (job.output_rows, job.input_file_bytes) == (1000, size)


def _reference():
    return bigquery.TableReference.from_string(TABLE)
